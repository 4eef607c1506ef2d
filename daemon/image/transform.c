/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/transform.h"

#include "daemon/image/decode.h"
#include "daemon/util/checked.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct compiler {
	struct transform_plan *plan;
	struct error_text *error;
	bool to_tensor;
};

static bool dtype_valid(uint32_t dtype)
{
	return dtype == PIXEL_U8 || dtype == PIXEL_F32;
}

static bool layout_valid(uint32_t layout)
{
	return layout == PIXEL_NCHW || layout == PIXEL_NHWC;
}

static bool channels_valid(uint32_t channels)
{
	return channels == 1 || channels == 3;
}

static bool row_bytes_of(const struct transform_plan *plan, uint64_t *row_bytes)
{
	uint64_t size = (uint64_t)plan->width * plan->height;

	size_t unit = plan->dtype == PIXEL_F32 ? sizeof(float) : sizeof(uint8_t);

	return checked_mul(size, plan->channels * unit, row_bytes) && *row_bytes <= PTRDIFF_MAX;
}

/* What operations make of a picture is no larger than what a decoder may deliver. */
static bool output_bounded(const struct transform_plan *plan)
{
	return plan->op_count == 0 || (uint64_t)plan->width * plan->height <= DECODE_MAX_PIXELS;
}

static int add_op(struct compiler *compiler, const struct image_op *op)
{
	struct transform_plan *plan = compiler->plan;

	if (plan->op_count == IMAGE_OPS_MAX)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"more than %d operations on the picture before ToTensor", IMAGE_OPS_MAX);
	if (!image_op_valid(op, &plan->image_channels))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"a number of Resize, CenterCrop or Pad is out of range");
	if (!image_op_size(op, &plan->width, &plan->height))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Resize or Pad would make an edge of 0 or of more than %d pixels of the "
			"first sample",
			INT32_MAX);
	plan->ops[plan->op_count++] = *op;
	return 0;
}

/* A colour on a grey picture makes it RGB. */
static int add_pad(struct compiler *compiler, const struct transform_step *step)
{
	struct transform_plan *plan = compiler->plan;
	struct image_op op = step->op;
	int r = 0;

	if (step->values != 1 && step->values != plan->channels)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Pad has a fill of %u values for pictures of %u channel%s; give 1 or %u",
			step->values, plan->channels, plan->channels == 1 ? "" : "s",
			plan->channels);
	if (step->values == 1)
		op.fill[1] = op.fill[2] = op.fill[0];
	if (plan->image_channels == 1 && (op.fill[1] != op.fill[0] || op.fill[2] != op.fill[0]))
		r = add_op(compiler, &(struct image_op){.kind = IMAGE_OP_TO_RGB});
	return r == 0 ? add_op(compiler, &op) : r;
}

static int add_geometry(struct compiler *compiler, const struct transform_step *step)
{
	static const char *const names[] = {
		[TRANSFORM_RESIZE] = "Resize",
		[TRANSFORM_CENTER_CROP] = "CenterCrop",
		[TRANSFORM_PAD] = "Pad",
	};

	if (compiler->to_tensor)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"%s stands after ToTensor; put it before", names[step->kind]);
	return step->kind == TRANSFORM_PAD ? add_pad(compiler, step) : add_op(compiler, &step->op);
}

static int add_grayscale(struct compiler *compiler, const struct transform_step *step)
{
	if (compiler->to_tensor)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Grayscale stands after ToTensor; put it before");
	if (!channels_valid(step->channels))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Grayscale(num_output_channels=%u): only 1 and 3 exist", step->channels);
	if (compiler->plan->op_count == 0)
		compiler->plan->decode_channels = compiler->plan->image_channels = 1;
	compiler->plan->channels = step->channels;
	if (compiler->plan->image_channels == 1)
		return 0;
	return add_op(compiler, &(struct image_op){.kind = IMAGE_OP_TO_L});
}

static int add_to_tensor(struct compiler *compiler)
{
	struct transform_plan *plan = compiler->plan;

	if (plan->dtype != PIXEL_F32)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"dtype u8 carries decoded pixels and takes no ToTensor; leave it out or ask for dtype f32");
	if (compiler->to_tensor)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"ToTensor is there twice; leave one out");
	compiler->to_tensor = true;
	for (uint32_t c = 0; c < plan->channels; c++)
		for (int v = 0; v < 256; v++)
			plan->table[c][v] = (float)v / 255.0f;
	return 0;
}

static int check_normalize(const struct compiler *compiler, const struct transform_step *step)
{
	const struct transform_plan *plan = compiler->plan;

	if (plan->dtype != PIXEL_F32)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"dtype u8 carries decoded pixels and takes no Normalize; leave it out or ask for dtype f32");
	if (!compiler->to_tensor)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Normalize stands before ToTensor; put ToTensor in front of it");
	if (step->values != 1 && step->values != plan->channels)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Normalize has %u values of mean and std for pictures of %u channel%s; give 1 or %u",
			step->values, plan->channels, plan->channels == 1 ? "" : "s",
			plan->channels);
	for (uint32_t i = 0; i < step->values; i++) {
		if (!isfinite(step->mean[i]) || !isfinite(step->std[i]))
			return error_set(compiler->error, TRANSFORM_REFUSED,
				"Normalize: mean and std must be finite numbers");
		if (step->std[i] == 0)
			return error_set(compiler->error, TRANSFORM_REFUSED,
				"Normalize: std is 0, which would divide by zero");
	}
	return 0;
}

static int add_normalize(struct compiler *compiler, const struct transform_step *step)
{
	struct transform_plan *plan = compiler->plan;
	int r = check_normalize(compiler, step);

	if (r != 0)
		return r;
	for (uint32_t c = 0; c < plan->channels; c++) {
		uint32_t i = step->values == 1 ? 0 : c;

		for (int v = 0; v < 256; v++) {
			float centred = plan->table[c][v] - step->mean[i];

			plan->table[c][v] = centred / step->std[i];
		}
	}
	return 0;
}

static int add_step(struct compiler *compiler, const struct transform_step *step)
{
	switch (step->kind) {
	case TRANSFORM_GRAYSCALE: return add_grayscale(compiler, step);
	case TRANSFORM_TO_TENSOR: return add_to_tensor(compiler);
	case TRANSFORM_NORMALIZE: return add_normalize(compiler, step);
	case TRANSFORM_RESIZE:
	case TRANSFORM_CENTER_CROP:
	case TRANSFORM_PAD: return add_geometry(compiler, step);
	default: break;
	}
	return error_set(compiler->error, TRANSFORM_REFUSED, "unknown transform (number %u)",
		(unsigned int)step->kind);
}

static int begin(struct compiler *compiler, const struct transform_source *source,
	enum pixel_dtype dtype, enum pixel_layout layout)
{
	if (source->width == 0 || source->height == 0 || !channels_valid(source->channels))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"samples of %u x %u pixels and %u channels cannot be transformed",
			source->width, source->height, source->channels);
	if (!dtype_valid(dtype))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"unknown dtype (number %u); u8 and f32 exist", (unsigned int)dtype);
	if (!layout_valid(layout))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"unknown layout (number %u); NCHW and NHWC exist", (unsigned int)layout);
	*compiler->plan = (struct transform_plan){
		.width = source->width,
		.height = source->height,
		.decode_channels = source->channels,
		.image_channels = source->channels,
		.channels = source->channels,
		.dtype = dtype,
		.layout = layout,
	};
	return 0;
}

int transform_compile(struct transform_plan *plan, const struct transform_source *source,
	const struct transform_step *steps, size_t count, enum pixel_dtype dtype,
	enum pixel_layout layout, struct error_text *error)
{
	struct compiler compiler = {.plan = plan, .error = error};
	int r = begin(&compiler, source, dtype, layout);

	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_step(&compiler, &steps[i]);
	if (r != 0)
		return r;
	if (dtype == PIXEL_F32 && !compiler.to_tensor)
		return error_set(error, TRANSFORM_REFUSED,
			"dtype f32 needs ToTensor; add it or ask for dtype u8");
	if (!output_bounded(plan))
		return error_set(error, TRANSFORM_REFUSED,
			"the transforms make %u x %u pixels of the first sample, which is too large",
			plan->width, plan->height);
	if (!row_bytes_of(plan, &plan->row_bytes))
		return error_set(error, -EOVERFLOW, "samples of %u x %u pixels are too large",
			plan->width, plan->height);
	return 0;
}

/* Only a plan without operations, or with ones that leave the size to the samples, needs equal sizes. */
int transform_apply(const struct transform_plan *plan, struct image *image,
	struct image_ops_buffers *buffers, struct error_text *error)
{
	uint32_t width = image->width, height = image->height;
	int r = 0;

	if (plan->op_count > 0)
		r = image_ops_apply(plan->ops, plan->op_count, plan->width, plan->height, image,
			buffers, error);
	if (r != 0 || (image->width == plan->width && image->height == plan->height))
		return r;
	if (plan->op_count == 0)
		return error_set(error, TRANSFORM_BAD,
			"is %ux%u, but the first sample is %ux%u: bring all samples to one size, "
			"for example with Resize(256), CenterCrop(224)",
			width, height, plan->width, plan->height);
	return error_set(error, TRANSFORM_BAD,
		"is %ux%u and the transforms make %ux%u of it, but %ux%u of the first sample: bring "
		"all samples to one size, for example with Resize(256), CenterCrop(224)",
		width, height, image->width, image->height, plan->width, plan->height);
}

static bool ops_valid(const struct transform_plan *plan)
{
	uint32_t channels = plan->decode_channels;

	if (plan->op_count > IMAGE_OPS_MAX)
		return false;
	for (uint32_t i = 0; i < plan->op_count; i++) {
		if (!image_op_valid(&plan->ops[i], &channels))
			return false;
	}
	return channels == plan->image_channels && output_bounded(plan);
}

bool transform_plan_valid(const struct transform_plan *plan)
{
	uint64_t row_bytes;

	return plan->width != 0 && plan->height != 0 && channels_valid(plan->decode_channels) &&
	       channels_valid(plan->channels) && ops_valid(plan) &&
	       plan->channels >= plan->image_channels && dtype_valid(plan->dtype) &&
	       layout_valid(plan->layout) && row_bytes_of(plan, &row_bytes) &&
	       row_bytes == plan->row_bytes;
}
