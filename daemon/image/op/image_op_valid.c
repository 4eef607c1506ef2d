/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/image_op.h"

#include <math.h>

static bool edge_valid(uint32_t edge)
{
	return edge >= 1 && edge <= IMAGE_OP_EDGE_MAX;
}

static bool filter_valid(uint32_t filter)
{
	return filter >= RESAMPLE_NEAREST && filter <= RESAMPLE_HAMMING;
}

static bool pad_valid(const struct image_op *op)
{
	return op->left <= IMAGE_OP_EDGE_MAX && op->top <= IMAGE_OP_EDGE_MAX &&
	       op->right <= IMAGE_OP_EDGE_MAX && op->bottom <= IMAGE_OP_EDGE_MAX &&
	       op->mode >= WINDOW_CONSTANT && op->mode <= WINDOW_SYMMETRIC;
}

static bool crop_valid(const struct image_op *op)
{
	return op->width >= 1 && op->width <= IMAGE_OP_PLACE_MAX && op->height >= 1 &&
	       op->height <= IMAGE_OP_PLACE_MAX && op->left <= IMAGE_OP_PLACE_MAX &&
	       op->top <= IMAGE_OP_PLACE_MAX;
}

static bool between(double value, double least, double most)
{
	return value >= least && value <= most; /* not a NaN */
}

static bool place_valid(double place)
{
	return between(place, -IMAGE_OP_PLACE_MAX, IMAGE_OP_PLACE_MAX);
}

static bool ratio_valid(double ratio)
{
	return between(ratio, IMAGE_OP_RATIO_MIN, IMAGE_OP_RATIO_MAX);
}

static bool turn_valid(const struct image_op *op)
{
	return op->filter >= RESAMPLE_NEAREST && op->filter <= RESAMPLE_BICUBIC &&
	       isfinite(op->angle) && op->has_centre <= 1 &&
	       (op->has_centre == 0 || (place_valid(op->centre_x) && place_valid(op->centre_y)));
}

static bool affine_valid(const struct image_op *op)
{
	return turn_valid(op) && place_valid(op->translate_x) && place_valid(op->translate_y) &&
	       ratio_valid(op->scale) && isfinite(op->shear_x) && isfinite(op->shear_y);
}

static bool kernel_edge_valid(uint32_t edge)
{
	return edge <= IMAGE_OP_KERNEL_MAX && edge % 2 == 1;
}

static bool blur_valid(const struct image_op *op)
{
	return kernel_edge_valid(op->kernel_width) && kernel_edge_valid(op->kernel_height) &&
	       ratio_valid(op->sigma);
}

bool image_op_valid(const struct image_op *op, uint32_t *channels)
{
	switch (op->kind) {
	case IMAGE_OP_RESIZE:
		return edge_valid(op->width) && edge_valid(op->height) && filter_valid(op->filter);
	case IMAGE_OP_RESIZE_SHORTER:
		return edge_valid(op->shorter) && filter_valid(op->filter) &&
		       (op->longer_max == 0 ||
			       (edge_valid(op->longer_max) && op->longer_max > op->shorter));
	case IMAGE_OP_CENTER_CROP: return edge_valid(op->width) && edge_valid(op->height);
	case IMAGE_OP_PAD: return pad_valid(op);
	case IMAGE_OP_CROP: return crop_valid(op);
	case IMAGE_OP_ROTATE: return turn_valid(op) && op->expand <= 1;
	case IMAGE_OP_AFFINE: return affine_valid(op);
	case IMAGE_OP_BRIGHTNESS:
	case IMAGE_OP_CONTRAST:
	case IMAGE_OP_SATURATION:
		return between(op->factor, -IMAGE_OP_RATIO_MAX, IMAGE_OP_RATIO_MAX);
	case IMAGE_OP_HUE: return between(op->factor, -0.5, 0.5);
	case IMAGE_OP_BLUR: return blur_valid(op);
	case IMAGE_OP_FLIP_HORIZONTAL:
	case IMAGE_OP_FLIP_VERTICAL:
	case IMAGE_OP_GREY: return true;
	case IMAGE_OP_TO_L:
		if (*channels != 3)
			return false;
		*channels = 1;
		return true;
	case IMAGE_OP_TO_RGB:
		if (*channels != 1)
			return false;
		*channels = 3;
		return true;
	}
	return false;
}
