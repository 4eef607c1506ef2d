/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/dataset.h"
#include "daemon/data/witness.h"
#include "daemon/util/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * An index in a file, to be used again while the data set is as it was. Written and read by the index
 * worker, through descriptors that it is given; it is a cache for this machine, in its byte order:
 *
 *   struct saved_header | the witnesses | the index as it lies in its memfd
 *
 * The header is written last, so a file that was not finished has none. Whatever is wrong with a file
 * is a reason to make the index again and no more.
 */
#define SAVED_INDEX_MAGIC UINT64_C(0x315641534b4f5453) /* "STOKSAV1" in memory order */

/* Raised whenever the same data set and options would give another index. */
enum { SAVED_INDEX_RULES = 1 };

struct saved_header {
	uint64_t magic;
	uint32_t rules;
	uint32_t witnesses;
	uint64_t key; /* of what was asked for: saved_index_key() */
	uint64_t witness_bytes, index_bytes;
	uint64_t witness_hash, index_hash; /* XXH3-64 of those bytes */
	uint64_t header_hash;              /* of the fields before */
};

enum {
	SAVED_UNUSABLE = 1, /* `why` says for which reason */
};

/* Stands for everything but the data set's files that an index depends on: path, options, and the
 * `root_count` roots that may be read. */
uint64_t saved_index_key(
	const struct dataset_request *request, const char *const *roots, size_t root_count);

/* Write into the empty file `fd`: 0 or -errno. `index_fd` is sealed. Both are borrowed. */
int saved_index_write(int fd, uint64_t key, const struct witness_list *witnesses, int index_fd);

/* Check a saved file (borrowed) against `key` and its witnesses, and copy its index into a sealed memfd,
 * *index_fd, which is still to be checked as any index is (index_map). 0, SAVED_UNUSABLE, or -errno. */
int saved_index_read(int fd, uint64_t key, int *index_fd, struct error_text *why);
