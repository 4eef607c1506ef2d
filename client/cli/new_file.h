/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/*
 * A file that has a temporary name until it is complete, so that one that is there is whole.
 *
 *   new_file_create(&file, "dir", "params.jsonl");
 *   fprintf(file.out, ...); ...
 *   new_file_commit(&file);
 *   new_file_abandon(&file);     in every case; removes what was not committed
 */
struct new_file {
	FILE *out; /* NULL = not open */
	char *path;
	char *temporary;
};

#define NEW_FILE_NULL                                                                              \
	{                                                                                          \
		.out = NULL                                                                        \
	}

/* 0 or negative errno. */
int new_file_create(struct new_file *file, const char *directory, const char *name);

/* Write what is buffered and give the file its name. 0 or negative errno. */
int new_file_commit(struct new_file *file);

void new_file_abandon(struct new_file *file);
