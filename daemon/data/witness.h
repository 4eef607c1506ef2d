/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * What an index was made from, so that a saved one can be told from an outdated one without reading
 * the data set again: each directory that was listed and each file that was looked into, by path,
 * inode, modification and change time, and for files the size; or that there was none. Adding, removing or
 * renaming an entry changes its directory's times; what a file of a listed directory contains does not,
 * and is not in an index either.
 *
 * A witness is taken before its object is read, so a change meanwhile shows later. Times have a
 * granularity, though (2 s on FAT, a few ms elsewhere): an object that has been modified within
 * WITNESS_YOUNG_NS could be modified once more without a sign. With such a young witness an index is
 * not saved.
 */
#define WITNESS_YOUNG_NS UINT64_C(2000000000)

enum {
	WITNESSES_MAX = 10000000,
	WITNESS_CHANGED = 1, /* `why` names the object */
	WITNESS_BAD = 2,     /* the bytes are no list of witnesses */
};

struct witness_list {
	uint8_t *bytes; /* `count` times struct witness, and its path */
	size_t used, capacity;
	uint32_t count;
	bool young;             /* there is one that cannot be relied on */
	bool incomplete;        /* there was no memory for some */
	struct error_text last; /* that young one, for people */
};

#define WITNESS_LIST_NULL                                                                          \
	{                                                                                          \
		.bytes = NULL                                                                      \
	}

void witness_list_finish(struct witness_list *list);

/* Add "FOLDER/NAME", or FOLDER alone with an empty name, as it was found: NULL = not there. Nothing with
 * list == NULL. */
void witness_add(
	struct witness_list *list, const char *folder, const char *name, const struct stat *found);

/* Is everything as it was? `count` witnesses fill `length` bytes. 0, WITNESS_CHANGED or WITNESS_BAD. */
int witness_check(const void *bytes, size_t length, uint32_t count, struct error_text *why);
