/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/image/resample.h"
#include "daemon/image/window.h"
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
};

enum {
	IMAGE_OPS_MAX = 8,
	IMAGE_OP_EDGE_MAX = 65535, /* each number of an operation, in pixels */
};

struct image_op {
	uint32_t kind;          /* enum image_op_kind */
	uint32_t filter;        /* RESIZE*: enum resample_filter */
	uint32_t width, height; /* RESIZE, CENTER_CROP: 1 .. IMAGE_OP_EDGE_MAX */
	uint32_t shorter;       /* RESIZE_SHORTER: 1 .. IMAGE_OP_EDGE_MAX */
	uint32_t
		longer_max; /* RESIZE_SHORTER: 0 = none, or more than `shorter`: then the longer edge
				 * is at most that, and the shorter one shorter */
	uint32_t left, top, right, bottom; /* PAD: 0 .. IMAGE_OP_EDGE_MAX */
	uint32_t mode;                     /* PAD: enum window_mode */
	uint8_t fill[4];                   /* PAD: per channel; the fourth is 0 */
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
 * pictures have at most as many pixels as the first or the last one, or 8 Mi (24 MiB). 0, IMAGE_OPS_BAD,
 * -ENOMEM. */
int image_ops_apply(const struct image_op *ops, size_t count, uint32_t width, uint32_t height,
	struct image *image, struct image_ops_buffers *buffers, struct error_text *error);

void image_ops_buffers_finish(struct image_ops_buffers *buffers);
