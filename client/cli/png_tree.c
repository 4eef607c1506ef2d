/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/png_tree.h"
#include "client/cli/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ID_DIGITS_MIN = 5 };

static int digits(uint64_t number)
{
	int count = 1;

	for (; number >= 10; number /= 10)
		count++;
	return count;
}

int png_tree_check(const char *destination)
{
	DIR *directory = opendir(destination);
	const struct dirent *entry;
	int r = 0;

	if (directory == NULL)
		return errno == ENOENT ? 0 : -errno;
	while (r == 0 && (entry = readdir(directory)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = -ENOTEMPTY;
	}
	closedir(directory);
	return r;
}

static int make_partial(struct png_tree *tree)
{
	mode_t mask = umask(0);
	int r = tree_make_parents(tree->destination);

	umask(mask);
	if (r < 0)
		return r;
	if (asprintf(&tree->partial, "%s.partial-XXXXXX", tree->destination) < 0) {
		tree->partial = NULL;
		return -ENOMEM;
	}
	if (mkdtemp(tree->partial) == NULL) {
		r = -errno;
		free(tree->partial);
		tree->partial = NULL;
		return r;
	}
	tree->partial_fd = open(tree->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree->partial_fd < 0 || fchmod(tree->partial_fd, 0777 & ~mask) < 0)
		return -errno;
	return 0;
}

int png_tree_create(struct png_tree *tree, const char *destination, const struct stoker_info *info)
{
	size_t length = strlen(destination);

	while (length > 1 && destination[length - 1] == '/')
		length--;
	tree->destination = strndup(destination, length);
	tree->made = calloc((size_t)info->classes + 1, sizeof(*tree->made));
	if (tree->destination == NULL || tree->made == NULL)
		return -ENOMEM;
	tree->classes = info->classes;
	tree->label_digits = digits(info->classes > 0 ? info->classes - 1 : 0);
	tree->id_digits = digits(info->dataset_samples > 0 ? info->dataset_samples - 1 : 0);
	if (tree->id_digits < ID_DIGITS_MIN)
		tree->id_digits = ID_DIGITS_MIN;
	tree->height = info->shape[0];
	tree->width = info->shape[1];
	tree->channels = info->shape[2];
	return make_partial(tree);
}

/* The name of a sample's file; its class directory is made when its first sample comes. */
static int name_sample(struct png_tree *tree, uint32_t label, uint64_t id, char name[64])
{
	int length;

	if (label >= tree->classes)
		return -EBADMSG;
	length = snprintf(name, 64, "%0*" PRIu32, tree->label_digits, label);
	if (!tree->made[label] && mkdirat(tree->partial_fd, name, 0777) < 0)
		return -errno;
	tree->made[label] = true;
	snprintf(name + length, (size_t)(64 - length), "/%0*" PRIu64 ".png", tree->id_digits, id);
	return 0;
}

static int write_file(int directory_fd, const char *name, const uint8_t *bytes, size_t length)
{
	int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int r = 0;

	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < length && r == 0;) {
		ssize_t n = write(fd, bytes + done, length - done);

		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			r = -errno;
	}
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

int png_tree_add(struct png_tree *tree, const struct stoker_batch *batch, uint64_t row_bytes)
{
	for (uint32_t i = 0; i < batch->rows; i++) {
		const uint8_t *pixels = (const uint8_t *)batch->data + i * row_bytes;
		char name[64];
		int r = name_sample(tree, (uint32_t)batch->labels[i], batch->samples[i], name);

		if (r == 0)
			r = png_writer_encode(
				&tree->writer, pixels, tree->width, tree->height, tree->channels);
		if (r == 0)
			r = write_file(
				tree->partial_fd, name, tree->writer.bytes, tree->writer.length);
		if (r < 0)
			return r;
	}
	return 0;
}

int png_tree_commit(struct png_tree *tree)
{
	/* An empty directory at the destination is replaced; a full one is refused by the kernel. */
	if (rename(tree->partial, tree->destination) < 0)
		return -errno;
	free(tree->partial);
	tree->partial = NULL;
	return 0;
}

void png_tree_finish(struct png_tree *tree)
{
	if (tree->partial_fd >= 0)
		close(tree->partial_fd);
	if (tree->partial != NULL)
		tree_remove(tree->partial);
	png_writer_finish(&tree->writer);
	free(tree->made);
	free(tree->partial);
	free(tree->destination);
	*tree = (struct png_tree)PNG_TREE_NULL;
}
