/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/open_transform.h"

#include <string.h>

static int refuse(struct error_text *error, const char *text)
{
	return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, "%s", text);
}

static int parse_normalize(struct transform_step *step, const Stoker__V1__Normalize *normalize,
	struct error_text *error)
{
	if (normalize->n_mean != normalize->n_std)
		return refuse(error, "Normalize: mean and std have different lengths");
	if (normalize->n_mean != 1 && normalize->n_mean != 3)
		return refuse(error, "Normalize: mean and std take 1 or 3 values");
	step->kind = TRANSFORM_NORMALIZE;
	step->values = (uint32_t)normalize->n_mean;
	memcpy(step->mean, normalize->mean, normalize->n_mean * sizeof(float));
	memcpy(step->std, normalize->std, normalize->n_std * sizeof(float));
	return 0;
}

/* Is each of these numbers of pixels within `least` and the most that is taken? */
static bool edges_fit(const uint32_t *edges, size_t count, uint32_t least)
{
	for (size_t i = 0; i < count; i++) {
		if (edges[i] < least || edges[i] > IMAGE_OP_EDGE_MAX)
			return false;
	}
	return true;
}

static int parse_filter(uint32_t *filter, Stoker__V1__Interpolation interpolation)
{
	switch (interpolation) {
	case STOKER__V1__INTERPOLATION__INTERPOLATION_NEAREST: *filter = RESAMPLE_NEAREST; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_UNSPECIFIED:
	case STOKER__V1__INTERPOLATION__INTERPOLATION_BILINEAR:
		*filter = RESAMPLE_BILINEAR;
		return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_BICUBIC: *filter = RESAMPLE_BICUBIC; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_LANCZOS: *filter = RESAMPLE_LANCZOS; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_BOX: *filter = RESAMPLE_BOX; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_HAMMING: *filter = RESAMPLE_HAMMING; return 0;
	default: return -1;
	}
}

static int parse_resize(
	struct transform_step *step, const Stoker__V1__Resize *resize, struct error_text *error)
{
	if (resize->n_size != 1 && resize->n_size != 2)
		return refuse(error, "Resize: size takes 1 or 2 values");
	if (!edges_fit(resize->size, resize->n_size, 1))
		return refuse(error, "Resize: size must be 1 to 65535");
	if (parse_filter(&step->op.filter, resize->interpolation) < 0)
		return refuse(error, "Resize: unknown interpolation");
	step->kind = TRANSFORM_RESIZE;
	if (resize->n_size == 2) {
		if (resize->max_size != 0)
			return refuse(error, "Resize: max_size goes with one value of size only");
		step->op.kind = IMAGE_OP_RESIZE;
		step->op.height = resize->size[0];
		step->op.width = resize->size[1];
		return 0;
	}
	if (resize->max_size != 0 &&
		(resize->max_size <= resize->size[0] || !edges_fit(&resize->max_size, 1, 1)))
		return refuse(
			error, "Resize: max_size must be greater than size, and at most 65535");
	step->op.kind = IMAGE_OP_RESIZE_SHORTER;
	step->op.shorter = resize->size[0];
	step->op.longer_max = resize->max_size;
	return 0;
}

static int parse_center_crop(
	struct transform_step *step, const Stoker__V1__CenterCrop *crop, struct error_text *error)
{
	if (crop->n_size != 1 && crop->n_size != 2)
		return refuse(error, "CenterCrop: size takes 1 or 2 values");
	if (!edges_fit(crop->size, crop->n_size, 1))
		return refuse(error, "CenterCrop: size must be 1 to 65535");
	step->kind = TRANSFORM_CENTER_CROP;
	step->op.kind = IMAGE_OP_CENTER_CROP;
	step->op.height = crop->size[0];
	step->op.width = crop->size[crop->n_size - 1];
	return 0;
}

static int parse_mode(uint32_t *mode, Stoker__V1__PaddingMode padding_mode)
{
	switch (padding_mode) {
	case STOKER__V1__PADDING_MODE__PADDING_MODE_UNSPECIFIED:
	case STOKER__V1__PADDING_MODE__PADDING_MODE_CONSTANT: *mode = WINDOW_CONSTANT; return 0;
	case STOKER__V1__PADDING_MODE__PADDING_MODE_EDGE: *mode = WINDOW_EDGE; return 0;
	case STOKER__V1__PADDING_MODE__PADDING_MODE_REFLECT: *mode = WINDOW_REFLECT; return 0;
	case STOKER__V1__PADDING_MODE__PADDING_MODE_SYMMETRIC: *mode = WINDOW_SYMMETRIC; return 0;
	default: return -1;
	}
}

static int parse_fill(
	struct transform_step *step, const Stoker__V1__Pad *pad, struct error_text *error)
{
	if (pad->n_fill != 0 && pad->n_fill != 1 && pad->n_fill != 3)
		return refuse(error, "Pad: fill takes 1 or 3 values");
	for (size_t i = 0; i < pad->n_fill && i < sizeof(step->op.fill); i++) {
		if (pad->fill[i] > 255)
			return refuse(error, "Pad: fill must be 0 to 255");
		step->op.fill[i] = (uint8_t)pad->fill[i];
	}
	step->values = pad->n_fill == 0 ? 1 : (uint32_t)pad->n_fill;
	return 0;
}

static int parse_pad(
	struct transform_step *step, const Stoker__V1__Pad *pad, struct error_text *error)
{
	const uint32_t *padding = pad->padding;

	if (pad->n_padding != 1 && pad->n_padding != 2 && pad->n_padding != 4)
		return refuse(error, "Pad: padding takes 1, 2 or 4 values");
	if (!edges_fit(padding, pad->n_padding, 0))
		return refuse(error, "Pad: padding must be 0 to 65535");
	if (parse_mode(&step->op.mode, pad->padding_mode) < 0)
		return refuse(error, "Pad: unknown padding mode");
	step->kind = TRANSFORM_PAD;
	step->op.kind = IMAGE_OP_PAD;
	step->op.left = padding[0];
	step->op.top = padding[pad->n_padding > 1];
	step->op.right = padding[pad->n_padding == 4 ? 2 : 0];
	step->op.bottom = padding[pad->n_padding == 4 ? 3 : pad->n_padding - 1];
	return parse_fill(step, pad, error);
}

int open_transform_parse(struct transform_step *step, const Stoker__V1__Transform *transform,
	struct error_text *error)
{
	switch (transform->transform_case) {
	case STOKER__V1__TRANSFORM__TRANSFORM_GRAYSCALE:
		step->kind = TRANSFORM_GRAYSCALE;
		step->channels = transform->grayscale->num_output_channels;
		if (step->channels == 0)
			step->channels = 1;
		return 0;
	case STOKER__V1__TRANSFORM__TRANSFORM_TO_TENSOR: step->kind = TRANSFORM_TO_TENSOR; return 0;
	case STOKER__V1__TRANSFORM__TRANSFORM_NORMALIZE:
		return parse_normalize(step, transform->normalize, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RESIZE:
		return parse_resize(step, transform->resize, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_CENTER_CROP:
		return parse_center_crop(step, transform->center_crop, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_PAD: return parse_pad(step, transform->pad, error);
	default:
		return refuse(error,
			"a transform is of a kind that this daemon does not know: is it older "
			"than the client?");
	}
}
