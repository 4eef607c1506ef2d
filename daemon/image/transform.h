/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/draw.h"
#include "daemon/image/element.h"
#include "daemon/image/image.h"
#include "daemon/image/op/image_op.h"
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
 *                       transform_apply(&plan, &key, &image, &buffers, &error);
 *                       transform_render(&plan, &key, &image, row);
 */
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

/* What is in a row. */
enum row_content {
	ROW_PIXELS = 0,
	ROW_DIGESTS = 1, /* struct batch_digest of the decoded picture */
	ROW_PARAMETERS =
		2, /* what was drawn: of each step DRAWN_PARAMETERS doubles (draw.h), all NAN
			     * where the step draws nothing */
};

/* One operation on the picture. */
struct transform_op {
	uint32_t is_random;
	union {
		struct image_op image;
		struct random_op random; /* draws its numbers anew for each sample */
	};
};

/* A rectangle cleared in the finished row. */
struct transform_erase {
	struct random_op op;
	uint32_t first_map; /* of plan->maps: what later steps do to random values */
	uint32_t dtype;     /* of the tensor that these were put into: a float */
	float value[3];     /* otherwise: per channel, as it stands in the row */
};

enum {
	TRANSFORM_STEPS_MAX = RANDOM_TRANSFORMS_MAX,
	TRANSFORM_ERASES_MAX = 4,
	TRANSFORM_MAPS_MAX = 8,
};

struct transform_plan {
	uint32_t width, height; /* of the output; samples of other sizes must come to it by `ops` */
	uint32_t decode_flags;  /* enum decode_flag bits; set after transform_compile */
	uint64_t max_pixels; /* of a file: DECODE_MAX_PIXELS, or less set after transform_compile */
	uint32_t decode_channels; /* what the decoder must deliver: 1 (L) or 3 (RGB) */
	uint32_t image_channels;  /* what `ops` make of them */
	uint32_t channels;        /* of the output; 3 from 1 repeats the plane (Grayscale(3)) */
	uint32_t dtype;           /* enum pixel_dtype; F64 with ROW_PARAMETERS */
	uint32_t layout;          /* enum pixel_layout */
	uint32_t rows;            /* enum row_content */
	uint32_t steps;           /* of the pipeline */
	uint32_t has_table;       /* 0: U8, and the pixels are the row's values */
	uint64_t
		row_bytes; /* of one sample: channels x height x width x size of dtype, or what `rows`
			     * says */
	uint32_t op_count;
	uint32_t erase_count;
	uint32_t map_count;
	struct transform_op ops[IMAGE_OPS_MAX];
	struct transform_erase erases[TRANSFORM_ERASES_MAX]; /* in order, behind everything else */
	struct element_map maps[TRANSFORM_MAPS_MAX];
	/* The value of each byte, per output channel, in the row's dtype. */
	union {
		float table[3][256];
		uint16_t table16[3][256]; /* F16, BF16 */
		uint8_t table8[3][256];   /* U8 */
	};
};

enum {
	TRANSFORM_REFUSED =
		1, /* the steps do not fit together; `error` says which and the way out */
};

/*
 * 0, TRANSFORM_REFUSED or -EOVERFLOW. Rules:
 *   - Grayscale, Resize, CenterCrop, Pad and the random operations work on pictures, in any order. One
 *     ToTensor or PILToTensor makes a tensor of them; ConvertImageDtype, Normalize and RandomErasing
 *     work on tensors, Normalize on floats only.
 *   - The output has the size that the operations make of the source's. Where one of them leaves the
 *     size to chance (RandomRotation with expand), a later one must fix it.
 *   - U8 takes what ends in bytes: pictures, PILToTensor, ConvertImageDtype(uint8). F16, BF16 and F32
 *     take what ends in floats of any kind, rounded to the dtype asked for.
 * Values are those of torch 1.13 on a CPU: ToTensor is v / 255, Normalize (x - mean) / std,
 * ConvertImageDtype as torchvision does it, each operation rounded to the tensor's dtype. The
 * plan is for ROW_PIXELS.
 */
int transform_compile(struct transform_plan *plan, const struct transform_source *source,
	const struct transform_step *steps, size_t count, enum pixel_dtype dtype,
	enum pixel_layout layout, struct error_text *error);

/* The plan of rows that hold what is drawn in place of pixels: ROW_PARAMETERS, F64, 1 x count x
 * DRAWN_PARAMETERS. The pipeline may end in any dtype. Otherwise like transform_compile. */
int transform_compile_parameters(struct transform_plan *plan, const struct transform_source *source,
	const struct transform_step *steps, size_t count, enum pixel_layout layout,
	struct error_text *error);

/* Channels, height and width of a row, as `rows` and `dtype` have it. */
void transform_row_shape(const struct transform_plan *plan, uint32_t shape[3]);
/* The plan of rows of digests of pictures with `channels`. */
void transform_plan_digests(
	struct transform_plan *plan, uint32_t channels, enum pixel_layout layout);

enum {
	TRANSFORM_BAD =
		1, /* this image does not come to the plan's size; `error` says why, and how */
};

/* Bring a decoded image, of decode_channels, to the plan's size and image_channels, in place. What is
 * drawn is a function of `key`, the plan and the image's size. `error` continues a sentence that begins
 * with the image's name. 0, TRANSFORM_BAD, -ENOMEM. */
int transform_apply(const struct transform_plan *plan, const struct random_key *key,
	struct image *image, struct image_ops_buffers *buffers, struct error_text *error);

/* Write one image (which must have the plan's size and image_channels) as a row of pixels, of row_bytes
 * and aligned for its dtype. */
void transform_render(const struct transform_plan *plan, const struct random_key *key,
	const struct image *image, void *row);

/* Write what transform_apply and transform_render draw for a decoded picture of this size:
 * steps x DRAWN_PARAMETERS doubles. 0, TRANSFORM_BAD. */
int transform_parameters(const struct transform_plan *plan, const struct random_key *key,
	uint32_t width, uint32_t height, double *row, struct error_text *error);

/* Is this plan one that transform_compile could have made? For a plan that crossed a socket. The
 * tables are not looked at: any values are possible there. */
bool transform_plan_valid(const struct transform_plan *plan);
