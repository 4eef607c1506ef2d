/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/open_transform.h"

#include "daemon/serve/open_numbers.h"
#include "daemon/serve/open_random.h"

#include <string.h>

static int parse_normalize(struct transform_step *step, const Stoker__V1__Normalize *normalize,
	struct error_text *error)
{
	if (normalize->n_mean != normalize->n_std)
		return open_refuse(error, "Normalize: mean and std have different lengths");
	if (normalize->n_mean != 1 && normalize->n_mean != 3)
		return open_refuse(error, "Normalize: mean and std take 1 or 3 values");
	step->kind = TRANSFORM_NORMALIZE;
	step->values = (uint32_t)normalize->n_mean;
	memcpy(step->mean, normalize->mean, normalize->n_mean * sizeof(float));
	memcpy(step->std, normalize->std, normalize->n_std * sizeof(float));
	return 0;
}

static int parse_resize(
	struct transform_step *step, const Stoker__V1__Resize *resize, struct error_text *error)
{
	struct image_op *op = &step->op;
	int r = open_size(&op->width, &op->height, resize->size, resize->n_size, "Resize", error);

	if (r == 0)
		r = open_filter(
			&op->filter, resize->interpolation, RESAMPLE_BILINEAR, "Resize", error);
	if (r != 0)
		return r;
	step->kind = TRANSFORM_RESIZE;
	if (resize->n_size == 2) {
		op->kind = IMAGE_OP_RESIZE;
		return resize->max_size == 0
			       ? 0
			       : open_refuse(error, "Resize: max_size goes with one value of size "
						    "only");
	}
	if (resize->max_size != 0 &&
		(resize->max_size <= resize->size[0] || resize->max_size > IMAGE_OP_EDGE_MAX))
		return open_refuse(error,
			"Resize: max_size must be greater than size, and at most %d",
			IMAGE_OP_EDGE_MAX);
	op->kind = IMAGE_OP_RESIZE_SHORTER;
	op->width = op->height = 0;
	op->shorter = resize->size[0];
	op->longer_max = resize->max_size;
	return 0;
}

static int parse_center_crop(
	struct transform_step *step, const Stoker__V1__CenterCrop *crop, struct error_text *error)
{
	step->kind = TRANSFORM_CENTER_CROP;
	step->op.kind = IMAGE_OP_CENTER_CROP;
	return open_size(
		&step->op.width, &step->op.height, crop->size, crop->n_size, "CenterCrop", error);
}

static int parse_pad(
	struct transform_step *step, const Stoker__V1__Pad *pad, struct error_text *error)
{
	struct image_op *op = &step->op;
	uint32_t edges[4];
	int r = open_padding(edges, pad->padding, pad->n_padding, "Pad", error);

	if (r == 0)
		r = open_padding_mode(&op->mode, pad->padding_mode, "Pad", error);
	if (r == 0)
		r = open_fill(op->fill, &step->values, pad->fill, pad->n_fill, "Pad", error);
	if (r != 0)
		return r;
	step->kind = TRANSFORM_PAD;
	op->kind = IMAGE_OP_PAD;
	op->left = edges[0];
	op->top = edges[1];
	op->right = edges[2];
	op->bottom = edges[3];
	return 0;
}

static int parse_convert(struct transform_step *step, const Stoker__V1__ConvertImageDtype *convert,
	struct error_text *error)
{
	step->kind = TRANSFORM_CONVERT_IMAGE_DTYPE;
	switch (convert->dtype) {
	case STOKER__V1__DTYPE__DTYPE_U8: step->dtype = PIXEL_U8; return 0;
	case STOKER__V1__DTYPE__DTYPE_F16: step->dtype = PIXEL_F16; return 0;
	case STOKER__V1__DTYPE__DTYPE_BF16: step->dtype = PIXEL_BF16; return 0;
	case STOKER__V1__DTYPE__DTYPE_F32: step->dtype = PIXEL_F32; return 0;
	default: return open_refuse(error, "ConvertImageDtype: dtype must be U8, F16, BF16 or F32");
	}
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
	case STOKER__V1__TRANSFORM__TRANSFORM_CONVERT_IMAGE_DTYPE:
		return parse_convert(step, transform->convert_image_dtype, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_PIL_TO_TENSOR:
		step->kind = TRANSFORM_PIL_TO_TENSOR;
		return 0;
	default: return open_random_parse(step, transform, error);
	}
}
