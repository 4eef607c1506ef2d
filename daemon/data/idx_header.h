/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/unpack.h"
#include "daemon/util/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * IDX, the format of MNIST (http://yann.lecun.com/exdb/mnist/): two zero bytes, an element type, the
 * number of dimensions, each dimension as a big-endian u32, then the elements, big-endian. Images are
 * u8 or unsigned 16-bit (type "short"), in one of these shapes:
 *
 *   number x height x width        grey
 *   number x height x width x 3    RGB, pixel by pixel
 *   number x 3 x height x width    RGB, channel by channel
 *
 * Their labels are whole numbers of 8, 16 or 32 bits in a second file, of one dimension.
 *
 * All functions return 0, DATASET_UNUSABLE with the file's name and what is wrong with it, or
 * negative errno with a text.
 */
enum {
	IDX_MAGIC_BYTES = 4,
	IDX_DIMS_MAX = 4,
	IDX_HEADER_MAX = IDX_MAGIC_BYTES + 4 * IDX_DIMS_MAX,
};

enum idx_type {
	IDX_U8 = 0x08,
	IDX_I16 = 0x0b,
	IDX_I32 = 0x0c,
};

enum idx_role {
	IDX_IMAGES,
	IDX_LABELS,
};

/* What one of the two files declares. */
struct idx_header {
	uint8_t bytes[IDX_HEADER_MAX]; /* as it stands in the file */
	uint32_t length;               /* of the above */
	uint8_t type;                  /* enum idx_type */
	uint8_t rank;                  /* dimensions */
	uint32_t dims[IDX_DIMS_MAX];
	uint64_t
		payload; /* bytes behind the header: product of the dimensions and the element's size */
};

struct idx_shape {
	uint32_t height, width;
	uint32_t channels; /* 1 or 3 */
	bool planar;       /* RGB channel by channel */
};

/* Read and check the header of a file of images or labels: its type and number of dimensions are those
 * above, each dimension is at least 1, and the payload is below 2^63. */
int idx_read_header(struct unpack *file, struct idx_header *header, enum idx_role role,
	struct error_text *error);

/* What each image is. A file that could be read in both orders of RGB is refused. */
int idx_image_shape(const struct unpack *file, const struct idx_header *header,
	struct idx_shape *shape, struct error_text *error);

/* Bytes of an element: 1, 2 or 4. */
uint32_t idx_element_bytes(const struct idx_header *header);

/* Does a file that is not compressed have exactly the bytes that its header declares? */
int idx_check_plain_size(
	const struct unpack *file, const struct idx_header *header, struct error_text *error);

/* After the payload was read: the file must end there, and a gzip stream end well. */
int idx_check_end(struct unpack *file, const struct idx_header *header, struct error_text *error);

/* DATASET_UNUSABLE: the file has `got` bytes behind its header, which is not the payload. */
int idx_refuse_size(const struct unpack *file, const struct idx_header *header, uint64_t got,
	struct error_text *error);
