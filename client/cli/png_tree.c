/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/png_tree.h"
#include "client/cli/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
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

/* For the caller to free; NULL without memory. */
static char *dup_without_slashes(const char *destination)
{
	size_t length = strlen(destination);

	while (length > 1 && destination[length - 1] == '/')
		length--;
	return strndup(destination, length);
}

/* rename(2) puts a directory in the place of another by the name of that alone. */
static int check_name(const char *destination)
{
	char *path = dup_without_slashes(destination);
	const char *name;
	struct stat st;
	int r = 0;

	if (path == NULL)
		return -ENOMEM;
	name = strrchr(path, '/');
	name = name != NULL ? name + 1 : path;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		r = -EINVAL;
	else if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		r = -ELOOP;
	free(path);
	return r;
}

int png_tree_check(const char *destination)
{
	const struct dirent *entry;
	int r = check_name(destination);
	DIR *directory;

	if (r < 0)
		return r;
	directory = opendir(destination);
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
	mode_t mask = umask(0); /* which can only be read by setting it */
	int r;

	umask(mask);
	r = tree_make_parents(tree->destination);
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
	tree->destination = dup_without_slashes(destination);
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

/* Make the class directories of a batch that are not there yet. */
static int make_classes(struct png_tree *tree, const struct stoker_batch *batch)
{
	for (uint32_t i = 0; i < batch->rows; i++) {
		uint32_t label = (uint32_t)batch->labels[i];
		char name[16];

		if (label >= tree->classes)
			return -EBADMSG;
		if (tree->made[label])
			continue;
		snprintf(name, sizeof(name), "%0*" PRIu32, tree->label_digits, label);
		if (mkdirat(tree->partial_fd, name, 0777) < 0)
			return -errno;
		tree->made[label] = true;
	}
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

/* Every `step`-th row of a batch, for one thread. */
struct share {
	const struct png_tree *tree;
	const struct stoker_batch *batch;
	uint64_t row_bytes;
	uint32_t first, step;
	struct png_writer *writer;
	int result; /* 0 or -errno */
};

static void *write_share(void *data)
{
	struct share *share = data;
	const struct png_tree *tree = share->tree;
	const struct stoker_batch *batch = share->batch;

	for (uint32_t i = share->first; i < batch->rows && share->result == 0; i += share->step) {
		const uint8_t *pixels = (const uint8_t *)batch->data + i * share->row_bytes;
		char name[64];

		snprintf(name, sizeof(name), "%0*" PRIi32 "/%0*" PRIu64 ".png", tree->label_digits,
			batch->labels[i], tree->id_digits, batch->samples[i]);
		share->result = png_writer_encode(
			share->writer, pixels, tree->width, tree->height, tree->channels);
		if (share->result == 0)
			share->result = write_file(tree->partial_fd, name, share->writer->bytes,
				share->writer->length);
	}
	return NULL;
}

static uint32_t thread_count(void)
{
	cpu_set_t cpus;
	int count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;

	return count < PNG_TREE_THREADS_MAX ? (uint32_t)count : PNG_TREE_THREADS_MAX;
}

int png_tree_add(struct png_tree *tree, const struct stoker_batch *batch, uint64_t row_bytes)
{
	struct share shares[PNG_TREE_THREADS_MAX];
	pthread_t threads[PNG_TREE_THREADS_MAX];
	bool started[PNG_TREE_THREADS_MAX] = {false};
	uint32_t count = thread_count();
	int r = make_classes(tree, batch);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < count; i++) {
		shares[i] = (struct share){tree, batch, row_bytes, i, count, &tree->writers[i], 0};
		/* The first share, and one that gets no thread, is for this thread. */
		if (i > 0)
			started[i] =
				pthread_create(&threads[i], NULL, write_share, &shares[i]) == 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!started[i])
			write_share(&shares[i]);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (started[i])
			pthread_join(threads[i], NULL);
		if (r == 0)
			r = shares[i].result;
	}
	return r;
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
	for (int i = 0; i < PNG_TREE_THREADS_MAX; i++)
		png_writer_finish(&tree->writers[i]);
	free(tree->made);
	free(tree->partial);
	free(tree->destination);
	*tree = (struct png_tree)PNG_TREE_NULL;
}
