/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Shared memory of one stream, as the descriptor in Opened shows it. All integers little endian.
 *
 *   0             struct batch_arena_header, one page; the same numbers as in Opened
 *   slots_offset  slot 0
 *                   0              row table: batch_size x struct batch_row
 *                   tensor_offset  pixels: batch_size x row_bytes; 4096-aligned
 *   + slot_stride slot 1, and so on
 *
 * The memory is sealed against shrinking and growing, and the descriptor that a client gets is
 * read-only. Values inside it are data: nobody takes sizes or offsets from there.
 */
enum {
	BATCH_ARENA_PAGE = 4096,
	BATCH_ARENA_VERSION = 1,
};

#define BATCH_ARENA_MAGIC UINT64_C(0x414e4552414b5453) /* "STKARENA" in memory order */

struct batch_arena_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;
	uint64_t slots_offset;
	uint64_t slot_stride;
	uint64_t tensor_offset;
	uint64_t row_bytes;
	uint32_t batch_size;
	uint32_t reserved;
};

/* What a row holds; with on_bad_sample = error a client never sees anything but OK. */
enum batch_row_status {
	BATCH_ROW_OK = 0,
	BATCH_ROW_MASKED = 1, /* the sample is bad: its index and label, and pixels of zero bytes */
	BATCH_ROW_REPLACED =
		2, /* another sample in place of a bad one, with its own index and label */
};

struct batch_row {
	uint64_t sample; /* index in the data set */
	int32_t label;
	uint32_t status; /* enum batch_row_status */
};

_Static_assert(sizeof(struct batch_row) == 16, "row table layout is part of the protocol");

/* A row of ROWS_DIGESTS, in place of pixels. */
struct batch_digest {
	uint64_t xxh3; /* XXH3-64 with seed 0 of the RGB pixels, height x width x 3 bytes */
	uint32_t width, height;
	uint64_t bytes; /* of the encoded picture */
};

_Static_assert(sizeof(struct batch_digest) == 24, "digests are part of the protocol");
