/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/image/op/resample.h"
#include "daemon/image/op/window.h"
#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is done to a decoded picture before it becomes a row: sizes and pixels as torchvision 0.14's
 * functional calls make them of PIL images. Plain values; they cross a socket as parts of a plan.
 */
enum image_op_kind {
	IMAGE_OP_RESIZE = 1,     /* to width x height */
	IMAGE_OP_RESIZE_SHORTER, /* the shorter edge to `shorter`, the other in proportion */
	IMAGE_OP_CENTER_CROP,    /* to width x height; black where the picture is smaller */
	IMAGE_OP_PAD,            /* left .. bottom more pixels */
	IMAGE_OP_TO_L,           /* RGB to L */
	IMAGE_OP_TO_RGB,         /* L to RGB */
	IMAGE_OP_CROP, /* width x height from (left, top), which may reach beyond the edges: black */
	IMAGE_OP_FLIP_HORIZONTAL,
	IMAGE_OP_FLIP_VERTICAL,
	IMAGE_OP_ROTATE, /* by `angle` around `centre`, counter-clockwise; grown with `expand` */
	IMAGE_OP_AFFINE, /* angle, translate, scale and shear around `centre` */
	IMAGE_OP_BRIGHTNESS, /* by `factor`, like the following */
	IMAGE_OP_CONTRAST,
	IMAGE_OP_SATURATION,
	IMAGE_OP_HUE,
	IMAGE_OP_GREY, /* without colour, with as many channels as before */
	IMAGE_OP_BLUR, /* Gaussian, of kernel_width x kernel_height and `sigma` */
};

enum {
	IMAGE_OPS_MAX = 16,
	IMAGE_OP_EDGE_MAX = 65535,    /* pixels: each number of RESIZE to PAD */
	IMAGE_OP_PLACE_MAX = 1 << 28, /* pixels: of CROP, centres and translations; as far as any
				       * decoded picture reaches */
	IMAGE_OP_KERNEL_MAX = 255,    /* pixels */

	/* An intermediate picture may have so many times the pixels of the first one (a photograph that
	 * is turned and grown has 2.04 times as many), and so many more. */
	IMAGE_OPS_GROWTH_MAX = 3,
	IMAGE_OPS_PIXELS_FREE = 8 << 20,
};

/* Of scale and sigma, and the most of a factor. */
#define IMAGE_OP_RATIO_MIN 1e-6
#define IMAGE_OP_RATIO_MAX 1e6

struct image_op {
	uint32_t kind;   /* enum image_op_kind */
	uint32_t filter; /* RESIZE*: enum resample_filter; ROTATE, AFFINE: one of its first 3 */
	uint32_t width, height; /* RESIZE, CENTER_CROP: 1 .. IMAGE_OP_EDGE_MAX;
				 * CROP: 1 .. IMAGE_OP_PLACE_MAX */
	uint32_t shorter;       /* RESIZE_SHORTER: 1 .. IMAGE_OP_EDGE_MAX */
	uint32_t
		longer_max; /* RESIZE_SHORTER: 0 = none, or more than `shorter`: then the longer edge
				 * is at most that, and the shorter one shorter */
	uint32_t left, top;     /* PAD: 0 .. IMAGE_OP_EDGE_MAX; CROP: 0 .. IMAGE_OP_PLACE_MAX */
	uint32_t right, bottom; /* PAD: 0 .. IMAGE_OP_EDGE_MAX */
	uint32_t mode;          /* PAD: enum window_mode */
	uint8_t fill[4];        /* PAD, ROTATE, AFFINE: per channel; the fourth is 0 */
	uint32_t expand;        /* ROTATE: 0 or 1; the result then holds the whole turned picture */
	uint32_t has_centre;    /* ROTATE, AFFINE: 0 = the middle */
	double centre_x, centre_y; /* pixels from the first one's left and upper edge, at most
				    * IMAGE_OP_PLACE_MAX in either direction */
	double angle;              /* ROTATE, AFFINE: finite, degrees; AFFINE turns clockwise */
	int32_t translate_x, translate_y; /* AFFINE: pixels, within +- IMAGE_OP_PLACE_MAX */
	double scale;                     /* AFFINE: IMAGE_OP_RATIO_MIN .. IMAGE_OP_RATIO_MAX */
	double shear_x, shear_y;          /* AFFINE: finite, degrees */
	double factor; /* BRIGHTNESS, CONTRAST, SATURATION: within +- IMAGE_OP_RATIO_MAX, 1 changes
			* nothing; HUE: -0.5 .. 0.5, of the circle */
	uint32_t kernel_width, kernel_height; /* BLUR: odd, 1 .. IMAGE_OP_KERNEL_MAX */
	double sigma; /* BLUR: both ways, IMAGE_OP_RATIO_MIN .. IMAGE_OP_RATIO_MAX pixels */
};

/* Is every number in its range, and can the operation be done to pictures of `*channels`? Then
 * `*channels` is what it makes of them. */
bool image_op_valid(const struct image_op *op, uint32_t *channels);

/* The size that a valid operation makes of width x height. False: an edge of 0 or beyond 32 bits. */
bool image_op_size(const struct image_op *op, uint32_t *width, uint32_t *height);

/* Memory that is reused from picture to picture. Zero it to begin with. */
struct image_ops_buffers {
	struct image spare;
	struct resampler resampler;
};

enum {
	IMAGE_OPS_BAD = 1, /* this picture cannot be brought to the size; `error` says why */
};

/* Do valid operations to `image`, which changes in place, to end at width x height. Intermediate
 * pictures have at most 3 times the pixels of the first one and 8 Mi (24 MiB), and at most
 * DECODE_MAX_PIXELS, or as many as the last one; beside two of them and what resample.h says, blurring
 * takes 0.6 MiB. All pixels are torchvision's, bit for bit, but
 * those of BLUR, which may be 1 off. 0, IMAGE_OPS_BAD, -ENOMEM. */
int image_ops_apply(const struct image_op *ops, size_t count, uint32_t width, uint32_t height,
	struct image *image, struct image_ops_buffers *buffers, struct error_text *error);

void image_ops_buffers_finish(struct image_ops_buffers *buffers);
