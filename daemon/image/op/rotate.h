/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/image/op/affine.h"

#include <stdbool.h>
#include <stdint.h>

/* Pillow's Image.rotate: quarter turns around the middle are exact, where the result has room for them. */
struct rotation {
	double degrees; /* finite, counter-clockwise */
	bool expand; /* the result holds the whole turned picture; else it has the picture's size */
	bool has_centre;
	struct affine_point centre; /* the middle without has_centre */
};

/* The size of the result of a width x height picture, as whole numbers of any size. */
void rotation_size(const struct rotation *rotation, double *width, double *height);

/* Draw `in` to `out`, another picture, of the size of the result. 0, -ENOMEM, -EOVERFLOW. */
int rotation_draw(const struct rotation *rotation, const struct image *in,
	enum resample_filter filter, uint32_t width, uint32_t height, const uint8_t *fill,
	struct image *out);
