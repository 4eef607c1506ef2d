/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/transform.h"

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

static int add_grayscale(struct compiler *compiler, const struct transform_step *step)
{
	if (compiler->to_tensor)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Grayscale stands after ToTensor; put it before");
	if (!channels_valid(step->channels))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Grayscale(num_output_channels=%u): only 1 and 3 exist", step->channels);
	compiler->plan->decode_channels = 1;
	compiler->plan->channels = step->channels;
	return 0;
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
	if (!row_bytes_of(plan, &plan->row_bytes))
		return error_set(error, -EOVERFLOW, "samples of %u x %u pixels are too large",
			plan->width, plan->height);
	return 0;
}

bool transform_plan_valid(const struct transform_plan *plan)
{
	uint64_t row_bytes;

	return plan->width != 0 && plan->height != 0 && channels_valid(plan->decode_channels) &&
	       channels_valid(plan->channels) && plan->channels >= plan->decode_channels &&
	       dtype_valid(plan->dtype) && layout_valid(plan->layout) &&
	       row_bytes_of(plan, &row_bytes) && row_bytes == plan->row_bytes;
}
