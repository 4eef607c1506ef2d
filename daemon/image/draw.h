/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/op/image_op.h"
#include "daemon/image/random.h"
#include "daemon/image/random_op.h"
#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * From the ranges of a random transform to the numbers for one sample, as the get_params of
 * torchvision 0.14's transforms do it, with the same distributions. Pure functions.
 */
enum {
	DRAWN_OPS_MAX = 4, /* of one random operation */
	DRAWN_PARAMETERS = 16,
};

/*
 * What was drawn, as numbers: DRAWN_PARAMETERS of them, NAN where there is nothing to say. The first
 * is the enum random_kind, then follow:
 *   CROP, RESIZED_CROP    top, left, height, width; CROP's are counted in the padded picture
 *   FLIP_*, GREY          1 = done, 0 = not
 *   ROTATION              angle
 *   AFFINE                angle, translation in x and y, scale, shear in x and y
 *   COLOUR_JITTER         the order of the four (0 brightness, 1 contrast, 2 saturation, 3 hue), then
 *                         their factors; NAN: left as it is
 *   BLUR                  sigma
 *   ERASING               1 = erased, and top, left, height, width; or 0
 */
struct drawn {
	struct image_op ops[DRAWN_OPS_MAX];
	size_t count;
	double parameters[DRAWN_PARAMETERS];
};

/* The most of a number of a random operation, and the least of those that must be more than 0. */
#define RANDOM_NUMBER_MAX 1e6
#define RANDOM_NUMBER_MIN 1e-6

enum { RANDOM_TRANSFORMS_MAX = 32 }; /* in a pipeline */

/* Is every number of the operation in its range, for pictures (ERASING: rows) of `channels`? */
bool random_op_valid(const struct random_op *op, uint32_t channels);

/* torchvision's name of an enum random_kind, or NULL. */
const char *random_op_name(uint32_t kind);

enum {
	DRAW_BAD =
		1, /* nothing can be drawn for a picture of this size; `error` says why, as the rest
		       * of a sentence that begins with the picture's name */
};

/* Draw for a picture of width x height. The operation is valid and not ERASING. 0 or DRAW_BAD. */
int draw(const struct random_op *op, const struct random_key *key, uint32_t width, uint32_t height,
	struct drawn *drawn, struct error_text *error);

/* The rectangle that ERASING clears; none: width and height are 0. `source` is that of op->transform
 * and stands behind the numbers used when this returns. */
struct erased_region {
	uint32_t left, top, width, height;
};
struct erased_region draw_erasing(const struct random_op *op, struct random_source *source,
	uint32_t width, uint32_t height, double parameters[DRAWN_PARAMETERS]);
