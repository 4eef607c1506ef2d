/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/png_writer.h"
#include "client/stoker.h"

#include <stdbool.h>

/*
 * A data set of class folders in the making: LABEL/ID.png below a directory that is called
 * DEST.partial-XXXXXX until png_tree_commit gives it its name, so that what is there is complete.
 * Labels and ids are padded with zeros, so that names sort as numbers do and every loader of class
 * folders gives each sample the same label again.
 */
enum { PNG_TREE_THREADS_MAX = 8 };

struct png_tree {
	char *destination; /* without slashes at its end */
	char *partial;     /* NULL = not made, or committed */
	int partial_fd;    /* -1 likewise */
	bool *made;        /* is the directory of each class there? */
	uint32_t classes;
	int label_digits, id_digits;
	uint32_t width, height, channels;
	struct png_writer writers[PNG_TREE_THREADS_MAX];
};

#define PNG_TREE_NULL                                                                              \
	{                                                                                          \
		.partial_fd = -1                                                                   \
	}

/* May a tree be made at `destination`? 0 = nothing or an empty directory is there; -ENOTEMPTY,
 * -ENOTDIR; -ELOOP: a symbolic link; -EINVAL: it ends in "." or ".."; -errno. */
int png_tree_check(const char *destination);

/* `info`: of a u8 NHWC stream. Makes the directories above `destination` too. 0 or -errno. */
int png_tree_create(struct png_tree *tree, const char *destination, const struct stoker_info *info);

/* Write one batch of that stream, with a thread for each CPU: compressing is most of the work. 0 or
 * -errno. */
int png_tree_add(struct png_tree *tree, const struct stoker_batch *batch, uint64_t row_bytes);

/* 0 or -errno. */
int png_tree_commit(struct png_tree *tree);

/* Removes what was not committed. */
void png_tree_finish(struct png_tree *tree);
