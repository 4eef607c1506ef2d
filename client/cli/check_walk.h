/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Image files for `stoker check`, in the order in which they are named and found: in a directory by the
 * bytes of their names. With them, the directories that a sandboxed worker must be able to read: links
 * may lead anywhere.
 */
struct check_file {
	char *path; /* as the user sees it: what was given, and what was found below */
	int error;  /* 0, or the errno that kept us from looking into this directory */
};

struct check_files {
	struct check_file *list;
	size_t count, capacity;
	void *roots;       /* tsearch tree of absolute paths */
	void *directories; /* tsearch tree of those entered, during a walk */
};

#define CHECK_FILES_NULL                                                                           \
	{                                                                                          \
		.list = NULL                                                                       \
	}

/* Has the name one of torchvision's IMG_EXTENSIONS, without regard to case? */
bool check_is_image_name(const char *name);

/* Add one file, which need not be there. 0 or -ENOMEM. */
int check_files_add(struct check_files *files, const char *path);

/* Add the image files (by their extension) below a directory, hidden entries left out and links
 * followed, each directory entered once. 0 or -ENOMEM. */
int check_files_walk(struct check_files *files, const char *path);

/* Call `each` for every root: its first result that is not 0, or 0. */
int check_files_each_root(
	const struct check_files *files, int (*each)(const char *root, void *data), void *data);

void check_files_finish(struct check_files *files);
