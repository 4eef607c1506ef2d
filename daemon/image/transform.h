/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/image/image_op.h"
#include "daemon/image/random_op.h"
#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A pipeline of torchvision transforms, checked against the data set and compiled into a plan: a
 * plain value that stokerd sends to its workers and that needs no further memory.
 *
 *   struct transform_step steps[] = {{.kind = TRANSFORM_GRAYSCALE, .channels = 1},
 *                                    {.kind = TRANSFORM_TO_TENSOR},
 *                                    {.kind = TRANSFORM_NORMALIZE, .values = 1, .mean = {0.5f}, ...}};
 *   transform_compile(&plan, &source, steps, 3, PIXEL_F32, PIXEL_NCHW, &error);
 *   ... in the worker:  image_decode(..., plan.decode_channels, ..., &image);
 *                       transform_apply(&plan, &image, &buffers, &error);
 *                       transform_render(&plan, &image, row);
 */
enum pixel_dtype {
	PIXEL_U8 = 1,
	PIXEL_F16 = 2,
	PIXEL_BF16 = 3,
	PIXEL_F32 = 4,
	PIXEL_F64 = 5, /* of drawn parameters, not of pixels */
};

enum pixel_layout {
	PIXEL_NCHW = 1, /* channel planes */
	PIXEL_NHWC = 2, /* interleaved */
};

enum transform_kind {
	TRANSFORM_GRAYSCALE = 1,
	TRANSFORM_TO_TENSOR = 2,
	TRANSFORM_NORMALIZE = 3,
	TRANSFORM_RESIZE = 4,
	TRANSFORM_CENTER_CROP = 5,
	TRANSFORM_PAD = 6,
	TRANSFORM_RANDOM = 7, /* any of enum random_kind */
	TRANSFORM_CONVERT_IMAGE_DTYPE = 8,
	TRANSFORM_PIL_TO_TENSOR = 9,
};

struct transform_step {
	enum transform_kind kind;
	uint32_t channels; /* Grayscale: num_output_channels, 1 or 3 */
	uint32_t values;   /* Normalize: how many of mean and std are given, 1 or the channels;
			    * Pad: how many of op.fill are; random: how many of random.fill are */
	float mean[3], std[3];
	struct image_op
		op; /* Resize, CenterCrop, Pad: the operation, checked by transform_compile */
	struct random_op random; /* random: likewise */
	enum pixel_dtype dtype;  /* ConvertImageDtype */
};

/* What a data set's samples are before any transform. */
struct transform_source {
	uint32_t width, height, channels; /* channels 1 (L) or 3 (RGB) */
};

struct transform_plan {
	uint32_t width, height; /* of the output; samples of other sizes must come to it by `ops` */
	uint32_t decode_channels; /* what the decoder must deliver: 1 (L) or 3 (RGB) */
	uint32_t image_channels;  /* what `ops` make of them */
	uint32_t channels;        /* of the output; 3 from 1 repeats the plane (Grayscale(3)) */
	uint32_t dtype;           /* enum pixel_dtype */
	uint32_t layout;          /* enum pixel_layout */
	uint64_t row_bytes;       /* of one sample: channels x height x width x size of dtype */
	uint32_t op_count;
	struct image_op ops[IMAGE_OPS_MAX];
	float table[3][256]; /* F32: value of each byte, per output channel */
};

enum {
	TRANSFORM_REFUSED =
		1, /* the steps do not fit together; `error` says which and the way out */
};

/* 0, TRANSFORM_REFUSED or -EOVERFLOW. Rules: F32 needs exactly one ToTensor; Grayscale stands before
 * it, Normalize after it, with finite mean and a std other than 0; U8 carries decoded pixels and
 * takes neither ToTensor nor Normalize. ToTensor is v / 255 and Normalize (x - mean) / std, each
 * operation rounded to float32, as torch does it. Resize, CenterCrop and Pad stand before ToTensor, in
 * any order with Grayscale; the output has the size that they make of the source's. */
int transform_compile(struct transform_plan *plan, const struct transform_source *source,
	const struct transform_step *steps, size_t count, enum pixel_dtype dtype,
	enum pixel_layout layout, struct error_text *error);

enum {
	TRANSFORM_BAD =
		1, /* this image does not come to the plan's size; `error` says why, and how */
};

/* Bring a decoded image, of decode_channels, to the plan's size and image_channels, in place. `error`
 * continues a sentence that begins with the image's name. 0, TRANSFORM_BAD, -ENOMEM. */
int transform_apply(const struct transform_plan *plan, struct image *image,
	struct image_ops_buffers *buffers, struct error_text *error);

/* Write one image (which must have the plan's size and image_channels) as a row of row_bytes,
 * aligned for its dtype. */
void transform_render(const struct transform_plan *plan, const struct image *image, void *row);

/* Is this plan one that transform_compile could have made? For a plan that crossed a socket. The
 * tables are not looked at: any floats are possible there. */
bool transform_plan_valid(const struct transform_plan *plan);
