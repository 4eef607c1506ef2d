/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/new_file.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A NumPy array file written row by row: format version 1.0, C order, little endian
 * (numpy.org/doc/stable/reference/generated/numpy.lib.format.html). The file has a temporary name
 * until npy_commit, so one that is there is complete.
 *
 *   npy_create(&file, "dir", "labels.npy", "<i8", 8, 1, (uint64_t[]){n});
 *   npy_write(&file, values, bytes); ...
 *   npy_commit(&file);
 *   npy_abandon(&file);      in every case; removes what was not committed
 */
struct npy {
	struct new_file file;
	uint64_t bytes_left; /* of the shape that the header promises */
};

#define NPY_NULL                                                                                   \
	{                                                                                          \
		.file = NEW_FILE_NULL                                                              \
	}

enum { NPY_DIMENSIONS_MAX = 4 };

/* 0 or negative errno. `item_bytes` is the size of the type that `descr` names. */
int npy_create(struct npy *npy, const char *directory, const char *name, const char *descr,
	size_t item_bytes, int dimensions, const uint64_t *shape);

/* 0, -EOVERFLOW (more than the shape), or -errno. */
int npy_write(struct npy *npy, const void *data, size_t bytes);

/* Give the file its name. 0, -ENODATA (fewer rows than the shape), or -errno. */
int npy_commit(struct npy *npy);

void npy_abandon(struct npy *npy);
