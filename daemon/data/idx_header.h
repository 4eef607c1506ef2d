/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/unpack.h"
#include "daemon/util/error.h"

#include <stdint.h>

/*
 * IDX, the format of MNIST (http://yann.lecun.com/exdb/mnist/): two zero bytes, an element type, the
 * number of dimensions, each dimension as a big-endian u32, then the elements. Images are u8 in
 * number x height x width, their labels u8 in a second file.
 *
 * All functions return 0, DATASET_UNUSABLE with the file's name and what is wrong with it, or
 * negative errno with a text.
 */
enum {
	IDX_MAGIC_BYTES = 4,
	IDX_IMAGE_DIMS = 3,
	IDX_LABEL_DIMS = 1,
	IDX_HEADER_MAX = IDX_MAGIC_BYTES + 4 * IDX_IMAGE_DIMS,
};

/* What one of the two files declares. */
struct idx_header {
	uint8_t bytes[IDX_HEADER_MAX]; /* as it stands in the file */
	uint32_t length;               /* of the above */
	uint32_t dims[IDX_IMAGE_DIMS];
	uint64_t payload; /* product of the dimensions: bytes behind the header */
};

/* Read and check the header of a file of u8 that must have `dims` dimensions (IDX_IMAGE_DIMS or
 * IDX_LABEL_DIMS). All dimensions are at least 1 and their product is below 2^63. */
int idx_read_header(
	struct unpack *file, struct idx_header *header, uint8_t dims, struct error_text *error);

/* Does a file that is not compressed have exactly the bytes that its header declares? */
int idx_check_plain_size(
	const struct unpack *file, const struct idx_header *header, struct error_text *error);

/* After the payload was read: the file must end there, and a gzip stream end well. */
int idx_check_end(struct unpack *file, const struct idx_header *header, struct error_text *error);

/* DATASET_UNUSABLE: the file has `got` bytes behind its header, which is not the payload. */
int idx_refuse_size(const struct unpack *file, const struct idx_header *header, uint64_t got,
	struct error_text *error);
