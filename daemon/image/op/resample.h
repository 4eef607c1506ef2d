/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Resampling of 8-bit pictures, bit for bit as Pillow 9.4 does it (src/libImaging/Resample.c and, for
 * nearest, Geometry.c): two passes, rows first, with a filter widened by the scale when the picture
 * shrinks, weights rounded to 22 bits behind the point, and bytes between the passes.
 */
enum resample_filter {
	RESAMPLE_NEAREST = 1,
	RESAMPLE_BILINEAR,
	RESAMPLE_BICUBIC,
	RESAMPLE_LANCZOS,
	RESAMPLE_BOX,
	RESAMPLE_HAMMING,
};

enum {
	/* The picture cannot be resampled to this size: one axis would need more weights than
	 * RESAMPLE_WEIGHTS_MAX, or the rows between the passes more than RESAMPLE_ROWS_MAX. */
	RESAMPLE_TOO_LARGE = 1,
};

/* Lanczos needs about 6 weights for each pixel of the longer of both edges. With the rows below it is
 * at most 40 MiB that resampling takes beside the two pictures. */
#define RESAMPLE_WEIGHTS_MAX (UINT64_C(1) << 20)  /* of one axis */
#define RESAMPLE_ROWS_MAX    (UINT64_C(16) << 20) /* bytes */

/* The weights of one axis, for the outputs `from` .. `from + length - 1`. Output i is the sum of
 * count[i] inputs from first[i] on, with the weights from weights[i * taps] on. */
struct resample_axis {
	uint32_t in, out, from, length; /* what they were made for */
	enum resample_filter filter;
	uint32_t taps;
	uint32_t *first, *count;
	int32_t *weights;
	size_t outputs, capacity; /* allocated: of first and count, of weights */
};

/* Memory and weights, reused from picture to picture. Zero it to begin with. */
struct resampler {
	struct resample_axis horizontal, vertical;
	uint8_t *rows; /* a ring of rows between the passes */
	size_t rows_capacity;
};

/* A part of the resampled picture. */
struct resample_region {
	uint32_t left, top, width, height;
};

/* Resample `in` to width x height pixels and write the part `region` of the result, which must lie
 * inside of it, to `out`, another picture. 0, RESAMPLE_TOO_LARGE, -ENOMEM, -EOVERFLOW. */
int resample(struct resampler *resampler, const struct image *in, uint32_t width, uint32_t height,
	enum resample_filter filter, const struct resample_region *region, struct image *out);

void resampler_finish(struct resampler *resampler);
