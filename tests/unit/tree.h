/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Trees of files that a test makes and removes, and data sets opened from them. */
#include "daemon/data/dataset.h"
#include "daemon/util/ownership.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>

#include <cmocka.h>

struct tree {
	char root[64];
};

static inline void tree_make(struct tree *tree)
{
	snprintf(tree->root, sizeof(tree->root), "/tmp/stoker-tree.XXXXXX");
	assert_non_null(mkdtemp(tree->root));
	assert_int_equal(chmod(tree->root, 0755), 0);
}

/* By descriptors, since some trees are deeper than a path may be long. */
static inline void tree_remove_below(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *entry;
	DIR *stream;

	if (fd < 0) {
		assert_int_equal(unlinkat(parent, name, 0), 0);
		return;
	}
	stream = fdopendir(fd);
	assert_non_null(stream);
	while ((entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			tree_remove_below(fd, entry->d_name);
	}
	closedir(stream);
	assert_int_equal(unlinkat(parent, name, AT_REMOVEDIR), 0);
}

static inline void tree_remove(struct tree *tree)
{
	tree_remove_below(AT_FDCWD, tree->root);
}

/* "ROOT/NAME" with the directories above it made; borrowed until the next call. */
static inline const char *tree_path(const struct tree *tree, const char *name)
{
	static char path[8192];
	size_t root = strlen(tree->root);

	snprintf(path, sizeof(path), "%s/%s", tree->root, name);
	for (char *slash = path + root + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
	return path;
}

static inline void tree_write(
	const struct tree *tree, const char *name, const void *bytes, size_t length)
{
	int fd = open(tree_path(tree, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	close(fd);
}

static inline void tree_link(const struct tree *tree, const char *name, const char *target)
{
	assert_int_equal(symlink(target, tree_path(tree, name)), 0);
}

static inline void tree_put_be32(uint8_t *bytes, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* The front of a grey PNG: all that indexing looks at. */
static inline void tree_png(
	const struct tree *tree, const char *name, uint32_t width, uint32_t height)
{
	uint8_t png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR........\x08\0\0\0\0....\0\0\0\0IDAT";

	tree_put_be32(png + 16, width);
	tree_put_be32(png + 20, height);
	tree_put_be32(png + 29, (uint32_t)crc32(0, png + 12, 17));
	tree_write(tree, name, png, sizeof(png) - 1);
}

/* dataset_open of "ROOT/NAME" (NAME may be "") and index_map, with the pixels' descriptor where there
 * is one and somebody asks for it. */
static inline int tree_open_with(const struct tree *tree, const char *name,
	const struct dataset_options *options, struct index *index, int *data_fd,
	struct error_text *error)
{
	char path[256];
	struct dataset_request request = {
		.path = path,
		.options = *options,
		.max_memory = 1 << 20,
		.max_pixels = 1 << 20,
	};
	struct dataset_result result;
	int r;

	snprintf(path, sizeof(path), "%s%s%s", tree->root, name[0] ? "/" : "", name);
	error->text[0] = '\0';
	r = dataset_open(&request, &result, error);
	if (r != 0) {
		assert_int_equal(result.index_fd, -1);
		assert_int_equal(result.data_fd, -1);
		return r;
	}
	assert_int_equal(index_map(index, result.index_fd, true, error), 0);
	assert_int_equal(result.data_fd >= 0, index->header->data_in_memfd);
	close(result.index_fd);
	if (data_fd)
		*data_fd = result.data_fd;
	else
		close_fd(result.data_fd);
	return 0;
}

static inline int tree_open(const struct tree *tree, const char *name, struct index *index,
	int *data_fd, struct error_text *error)
{
	const struct dataset_options none = {.classes = NULL};

	return tree_open_with(tree, name, &none, index, data_fd, error);
}

/* "ROOT/NAME" is refused in one line that has each of the words (up to NULL) in it. */
static inline void tree_refused(const struct tree *tree, const char *name, ...)
{
	struct error_text error;
	struct index index;
	const char *word;
	va_list words;

	assert_int_equal(tree_open(tree, name, &index, NULL, &error), DATASET_UNUSABLE);
	assert_null(strchr(error.text, '\n'));
	va_start(words, name);
	while ((word = va_arg(words, const char *))) {
		if (!strstr(error.text, word))
			fail_msg("'%s' has no '%s'", error.text, word);
	}
	va_end(words);
}

/* "ROOT/NAME" is a data set of samples that cannot be read, and says so with each of the words. */
static inline void tree_unreadable(const struct tree *tree, const char *name, ...)
{
	char problem[ERROR_TEXT_MAX];
	struct error_text error;
	struct index index;
	const char *word;
	va_list words;

	assert_int_equal(tree_open(tree, name, &index, NULL, &error), 0);
	assert_int_equal(index.header->width, 0);
	assert_int_equal(index.header->height, 0);
	index_problem(&index, problem, sizeof(problem));
	assert_null(strchr(problem, '\n'));
	va_start(words, name);
	while ((word = va_arg(words, const char *))) {
		if (!strstr(problem, word))
			fail_msg("'%s' has no '%s'", problem, word);
	}
	va_end(words);
	index_unmap(&index);
}

/* "LABEL:PATH " for each sample of an index. */
static inline void tree_print_samples(const struct index *index, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint64_t i = 0; i < index->header->samples; i++) {
		uint32_t length;
		const uint8_t *path = index_path(index, i, &length);

		used += (size_t)snprintf(text + used, size - used, "%d:%.*s ",
			index->samples[i].label, (int)length, (const char *)path);
		assert_true(used < size);
	}
}

static inline int tree_open_fds(void)
{
	DIR *stream = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(stream);
	while (readdir(stream))
		count++;
	closedir(stream);
	return count;
}

/* For every test: a tree, and as many descriptors after as before. */
struct tree_fixture {
	struct tree tree;
	int fds;
};

static inline int tree_setup(void **state)
{
	struct tree_fixture *fixture = malloc(sizeof(*fixture));

	assert_non_null(fixture);
	tree_make(&fixture->tree);
	fixture->fds = tree_open_fds();
	*state = fixture;
	return 0;
}

static inline int tree_teardown(void **state)
{
	struct tree_fixture *fixture = *state;

	assert_int_equal(tree_open_fds(), fixture->fds);
	tree_remove(&fixture->tree);
	free(fixture);
	return 0;
}

#define tree_test(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)
