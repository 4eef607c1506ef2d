/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/draw.h"

#include <float.h>
#include <math.h>

/* Written so that NAN is in no range. */
static bool range_valid(const double range[2], double least, double most)
{
	return range[0] >= least && range[0] <= range[1] && range[1] <= most;
}

static bool is_positive(const double range[2])
{
	return range_valid(range, RANDOM_NUMBER_MIN, RANDOM_NUMBER_MAX);
}

static bool is_angle(const double range[2])
{
	return range_valid(range, -RANDOM_NUMBER_MAX, RANDOM_NUMBER_MAX);
}

static bool is_fraction(double p)
{
	return p >= 0 && p <= 1;
}

static bool edge_valid(uint32_t edge)
{
	return edge >= 1 && edge <= IMAGE_OP_EDGE_MAX;
}

static bool size_valid(const struct random_op *op)
{
	return edge_valid(op->width) && edge_valid(op->height);
}

static bool crop_valid(const struct random_op *op)
{
	return size_valid(op) && op->left <= IMAGE_OP_EDGE_MAX && op->top <= IMAGE_OP_EDGE_MAX &&
	       op->right <= IMAGE_OP_EDGE_MAX && op->bottom <= IMAGE_OP_EDGE_MAX &&
	       op->pad_if_needed <= 1 && op->mode >= WINDOW_CONSTANT &&
	       op->mode <= WINDOW_SYMMETRIC;
}

static bool resized_crop_valid(const struct random_op *op)
{
	return size_valid(op) && op->filter >= RESAMPLE_NEAREST && op->filter <= RESAMPLE_HAMMING &&
	       range_valid(op->scale, 0, RANDOM_NUMBER_MAX) && is_positive(op->ratio);
}

/* What a rotation and an affine transform have in common. */
static bool turn_valid(const struct random_op *op)
{
	return op->filter >= RESAMPLE_NEAREST && op->filter <= RESAMPLE_BICUBIC &&
	       op->has_centre <= 1 && fabs(op->centre_x) <= RANDOM_NUMBER_MAX &&
	       fabs(op->centre_y) <= RANDOM_NUMBER_MAX && is_angle(op->degrees);
}

static bool affine_valid(const struct random_op *op)
{
	return turn_valid(op) && is_fraction(op->translate[0]) && is_fraction(op->translate[1]) &&
	       is_positive(op->scale) && is_angle(op->shear_x) && is_angle(op->shear_y);
}

static bool factors_valid(const struct random_op *op)
{
	const uint32_t all = JITTER_BRIGHTNESS | JITTER_CONTRAST | JITTER_SATURATION | JITTER_HUE;

	return (op->jitter & ~all) == 0 && range_valid(op->brightness, 0, RANDOM_NUMBER_MAX) &&
	       range_valid(op->contrast, 0, RANDOM_NUMBER_MAX) &&
	       range_valid(op->saturation, 0, RANDOM_NUMBER_MAX) && range_valid(op->hue, -0.5, 0.5);
}

static bool kernel_edge_valid(uint32_t edge)
{
	return edge % 2 == 1 && edge <= IMAGE_OP_KERNEL_MAX;
}

static bool erasing_valid(const struct random_op *op, uint32_t channels)
{
	if (op->random_value > 1 || (op->values != 1 && op->values != channels))
		return false;
	for (uint32_t i = 0; i < op->values; i++) {
		/* The largest double that still rounds to FLT_MAX lies half a step above it. */
		if (!(fabs(op->value[i]) < FLT_MAX + 0x1p103))
			return false;
	}
	return is_fraction(op->p) && range_valid(op->scale, 0, 1) && is_positive(op->ratio);
}

bool random_op_valid(const struct random_op *op, uint32_t channels)
{
	if (op->transform >= RANDOM_TRANSFORMS_MAX)
		return false;
	switch (op->kind) {
	case RANDOM_CROP: return crop_valid(op);
	case RANDOM_RESIZED_CROP: return resized_crop_valid(op);
	case RANDOM_FLIP_HORIZONTAL:
	case RANDOM_FLIP_VERTICAL:
	case RANDOM_GREY: return is_fraction(op->p);
	case RANDOM_ROTATION: return turn_valid(op) && op->expand <= 1;
	case RANDOM_AFFINE: return affine_valid(op);
	case RANDOM_COLOUR_JITTER: return factors_valid(op);
	case RANDOM_BLUR:
		return kernel_edge_valid(op->kernel_width) &&
		       kernel_edge_valid(op->kernel_height) && is_positive(op->sigma);
	case RANDOM_ERASING: return erasing_valid(op, channels);
	}
	return false;
}

const char *random_op_name(uint32_t kind)
{
	static const char *const names[] = {
		[RANDOM_CROP] = "RandomCrop",
		[RANDOM_RESIZED_CROP] = "RandomResizedCrop",
		[RANDOM_FLIP_HORIZONTAL] = "RandomHorizontalFlip",
		[RANDOM_FLIP_VERTICAL] = "RandomVerticalFlip",
		[RANDOM_ROTATION] = "RandomRotation",
		[RANDOM_AFFINE] = "RandomAffine",
		[RANDOM_COLOUR_JITTER] = "ColorJitter",
		[RANDOM_GREY] = "RandomGrayscale",
		[RANDOM_BLUR] = "GaussianBlur",
		[RANDOM_ERASING] = "RandomErasing",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : NULL;
}
