/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/decode.h"
#include "daemon/image/tensor_compile.h"
#include "daemon/image/transform_plan.h"

#include <errno.h>

static int add_op(struct compiler *compiler, const struct image_op *op)
{
	struct transform_plan *plan = compiler->plan;
	uint32_t width = plan->width, height = plan->height;

	if (plan->op_count == IMAGE_OPS_MAX)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"more than %d operations on the picture before ToTensor", IMAGE_OPS_MAX);
	if (!image_op_valid(op, &plan->image_channels))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"a number of Resize, CenterCrop or Pad is out of range");
	if (image_op_size(op, &width, &height)) {
		plan->width = width;
		plan->height = height;
	} else if (!compiler->is_any_size) {
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Resize or Pad would make an edge of 0 or of more than %d pixels of the "
			"first sample",
			INT32_MAX);
	}
	if (op->kind == IMAGE_OP_RESIZE || op->kind == IMAGE_OP_CENTER_CROP)
		compiler->is_any_size = false;
	plan->ops[plan->op_count++] = (struct transform_op){.image = *op};
	return 0;
}

/* The fill of a transform: one value for all channels, or one for each. A colour on a grey picture
 * makes it RGB. */
static int settle_fill(
	struct compiler *compiler, const char *name, uint32_t values, uint8_t fill[4])
{
	struct transform_plan *plan = compiler->plan;

	if (values != 1 && values != plan->channels)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"%s has a fill of %u values for pictures of %u channel%s; give 1%s", name,
			values, plan->channels, plan->channels == 1 ? "" : "s",
			plan->channels == 1 ? "" : " or 3");
	if (values == 1)
		fill[1] = fill[2] = fill[0];
	if (plan->image_channels == 1 && (fill[1] != fill[0] || fill[2] != fill[0]))
		return add_op(compiler, &(struct image_op){.kind = IMAGE_OP_TO_RGB});
	return 0;
}

static int need_picture(const struct compiler *compiler, const char *name)
{
	if (compiler->tensor == 0)
		return 0;
	return error_set(compiler->error, TRANSFORM_REFUSED, "%s stands after %s; put it before",
		name, compiler->to_tensor);
}

static int add_geometry(struct compiler *compiler, const struct transform_step *step)
{
	static const char *const names[] = {
		[TRANSFORM_RESIZE] = "Resize",
		[TRANSFORM_CENTER_CROP] = "CenterCrop",
		[TRANSFORM_PAD] = "Pad",
	};
	struct image_op op = step->op;
	int r = need_picture(compiler, names[step->kind]);

	if (r == 0 && step->kind == TRANSFORM_PAD)
		r = settle_fill(compiler, "Pad", step->values, op.fill);
	return r == 0 ? add_op(compiler, &op) : r;
}

static int add_grayscale(struct compiler *compiler, const struct transform_step *step)
{
	struct transform_plan *plan = compiler->plan;
	int r = need_picture(compiler, "Grayscale");

	if (r != 0)
		return r;
	if (step->channels != 1 && step->channels != 3)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Grayscale(num_output_channels=%u): only 1 and 3 exist", step->channels);
	if (plan->op_count == 0)
		plan->decode_channels = plan->image_channels = 1;
	plan->channels = step->channels;
	if (plan->image_channels == 1)
		return 0;
	return add_op(compiler, &(struct image_op){.kind = IMAGE_OP_TO_L});
}

static void note_size(struct compiler *compiler, const struct random_op *random)
{
	if (random->kind == RANDOM_CROP || random->kind == RANDOM_RESIZED_CROP) {
		compiler->plan->width = random->width;
		compiler->plan->height = random->height;
		compiler->is_any_size = false;
	}
	if (random->kind == RANDOM_ROTATION && random->expand)
		compiler->is_any_size = true;
}

static int add_random(struct compiler *compiler, const struct transform_step *step, uint32_t place)
{
	struct transform_plan *plan = compiler->plan;
	struct random_op random = step->random;
	const char *name = random_op_name(random.kind);
	int r;

	if (name == NULL)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"unknown random transform (number %u)", random.kind);
	random.transform = place;
	if (random.kind == RANDOM_ERASING)
		return compile_erasing(compiler, &random);
	r = need_picture(compiler, name);
	if (r == 0 && !random_op_valid(&random, plan->channels))
		r = error_set(
			compiler->error, TRANSFORM_REFUSED, "a number of %s is out of range", name);
	if (r == 0 && (random.kind == RANDOM_CROP || random.kind == RANDOM_ROTATION ||
			      random.kind == RANDOM_AFFINE))
		r = settle_fill(compiler, name, step->values == 0 ? 1 : step->values, random.fill);
	if (r != 0)
		return r;
	if (plan->op_count == IMAGE_OPS_MAX)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"more than %d operations on the picture before ToTensor", IMAGE_OPS_MAX);
	note_size(compiler, &random);
	plan->ops[plan->op_count++] = (struct transform_op){.is_random = 1, .random = random};
	return 0;
}

static int add_step(struct compiler *compiler, const struct transform_step *step, uint32_t place)
{
	switch (step->kind) {
	case TRANSFORM_GRAYSCALE: return add_grayscale(compiler, step);
	case TRANSFORM_RESIZE:
	case TRANSFORM_CENTER_CROP:
	case TRANSFORM_PAD: return add_geometry(compiler, step);
	case TRANSFORM_RANDOM: return add_random(compiler, step, place);
	case TRANSFORM_TO_TENSOR: return compile_to_tensor(compiler, "ToTensor", PIXEL_F32);
	case TRANSFORM_PIL_TO_TENSOR: return compile_to_tensor(compiler, "PILToTensor", PIXEL_U8);
	case TRANSFORM_CONVERT_IMAGE_DTYPE: return compile_convert(compiler, step->dtype);
	case TRANSFORM_NORMALIZE: return compile_normalize(compiler, step);
	}
	return error_set(compiler->error, TRANSFORM_REFUSED, "unknown transform (number %u)",
		(unsigned int)step->kind);
}

static int begin(
	struct compiler *compiler, const struct transform_source *source, enum pixel_layout layout)
{
	if (source->width == 0 || source->height == 0 ||
		(source->channels != 1 && source->channels != 3))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"samples of %u x %u pixels and %u channels cannot be transformed",
			source->width, source->height, source->channels);
	if (layout != PIXEL_NCHW && layout != PIXEL_NHWC)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"unknown layout (number %u); NCHW and NHWC exist", (unsigned int)layout);
	*compiler->plan = (struct transform_plan){
		.max_pixels = DECODE_MAX_PIXELS,
		.width = source->width,
		.height = source->height,
		.decode_channels = source->channels,
		.image_channels = source->channels,
		.channels = source->channels,
		.layout = layout,
	};
	return 0;
}

/* The steps, and everything about the plan that does not depend on what its rows hold. */
static int compile_steps(struct compiler *compiler, const struct transform_source *source,
	const struct transform_step *steps, size_t count, enum pixel_layout layout)
{
	struct transform_plan *plan = compiler->plan;
	int r = begin(compiler, source, layout);

	if (r == 0 && count > TRANSFORM_STEPS_MAX)
		r = error_set(compiler->error, TRANSFORM_REFUSED,
			"%zu transforms; at most %d are taken", count, TRANSFORM_STEPS_MAX);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_step(compiler, &steps[i], (uint32_t)i);
	if (r != 0)
		return r;
	plan->steps = (uint32_t)count;
	if (compiler->is_any_size)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"RandomRotation(expand=True) makes pictures of many sizes: put CenterCrop, "
			"RandomCrop, RandomResizedCrop or Resize((height, width)) behind it");
	if (!transform_output_bounded(plan))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"the transforms make %u x %u pixels of the first sample, which is too large",
			plan->width, plan->height);
	return 0;
}

static int set_row_bytes(struct transform_plan *plan, struct error_text *error)
{
	if (transform_row_bytes(plan, &plan->row_bytes))
		return 0;
	return error_set(error, -EOVERFLOW, "samples of %u x %u pixels are too large", plan->width,
		plan->height);
}

int transform_compile(struct transform_plan *plan, const struct transform_source *source,
	const struct transform_step *steps, size_t count, enum pixel_dtype dtype,
	enum pixel_layout layout, struct error_text *error)
{
	struct compiler compiler = {.plan = plan, .error = error};
	int r;

	if (dtype < PIXEL_U8 || dtype > PIXEL_F32)
		return error_set(error, TRANSFORM_REFUSED,
			"pixels have no dtype of number %u; u8, f16, bf16 and f32 exist",
			(unsigned int)dtype);
	r = compile_steps(&compiler, source, steps, count, layout);
	if (r == 0)
		r = compile_output(&compiler, dtype);
	return r == 0 ? set_row_bytes(plan, error) : r;
}

int transform_compile_parameters(struct transform_plan *plan, const struct transform_source *source,
	const struct transform_step *steps, size_t count, enum pixel_layout layout,
	struct error_text *error)
{
	struct compiler compiler = {.plan = plan, .error = error};
	int r = compile_steps(&compiler, source, steps, count, layout);

	if (r == 0 && count == 0)
		r = error_set(error, TRANSFORM_REFUSED,
			"without transforms there are no parameters to tell");
	plan->rows = ROW_PARAMETERS;
	plan->dtype = PIXEL_F64;
	return r == 0 ? set_row_bytes(plan, error) : r;
}
