/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/transform.h"

#include "daemon/image/decode/decode.h"
#include "daemon/image/transform_plan.h"
#include "daemon/util/checked.h"
#include "proto/batch_layout.h"

#include <math.h>
#include <stddef.h>

enum { APPLIED_OPS_MAX = IMAGE_OPS_MAX * DRAWN_OPS_MAX };

/* The operations on one picture, with the numbers that were drawn for it. */
struct applied {
	struct image_op ops[APPLIED_OPS_MAX];
	size_t count;
	uint32_t width, height; /* what they make of the picture */
};

static int out_of_range(const struct applied *applied, struct error_text *error)
{
	return error_set(error, TRANSFORM_BAD,
		"is %ux%u before one of the transforms, which would make an edge of 0 or of more "
		"than %d pixels of it",
		applied->width, applied->height, INT32_MAX);
}

static int append(struct applied *applied, const struct image_op *op, struct error_text *error)
{
	if (!image_op_size(op, &applied->width, &applied->height))
		return out_of_range(applied, error);
	applied->ops[applied->count++] = *op;
	return 0;
}

/* Draw for a picture of width x height. `parameters` (or NULL) has DRAWN_PARAMETERS of each step. */
static int settle(const struct transform_plan *plan, const struct random_key *key, uint32_t width,
	uint32_t height, struct applied *applied, double *parameters, struct error_text *error)
{
	struct drawn drawn;
	int r = 0;

	applied->count = 0;
	applied->width = width;
	applied->height = height;
	for (uint32_t i = 0; i < plan->op_count && r == 0; i++) {
		const struct transform_op *op = &plan->ops[i];

		if (!op->is_random) {
			r = append(applied, &op->image, error);
			continue;
		}
		if (draw(&op->random, key, applied->width, applied->height, &drawn, error) != 0)
			return TRANSFORM_BAD;
		for (size_t k = 0; k < drawn.count && r == 0; k++)
			r = append(applied, &drawn.ops[k], error);
		for (int k = 0; k < DRAWN_PARAMETERS && parameters != NULL; k++)
			parameters[op->random.transform * DRAWN_PARAMETERS + k] =
				drawn.parameters[k];
	}
	return r;
}

void transform_plan_digests(
	struct transform_plan *plan, uint32_t channels, enum pixel_layout layout)
{
	*plan = (struct transform_plan){
		.rows = ROW_DIGESTS,
		.max_pixels = DECODE_MAX_PIXELS,
		.width = sizeof(struct batch_digest),
		.height = 1,
		.decode_channels = channels,
		.image_channels = channels,
		.channels = 1,
		.dtype = PIXEL_U8,
		.layout = layout,
		.row_bytes = sizeof(struct batch_digest),
	};
}

/* Only a plan without operations, or with ones that leave the size to the samples, needs equal sizes. */
int transform_apply(const struct transform_plan *plan, const struct random_key *key,
	struct image *image, struct image_ops_buffers *buffers, struct error_text *error)
{
	uint32_t width = image->width, height = image->height;
	struct applied applied;
	int r = 0;

	if (plan->op_count > 0) {
		r = settle(plan, key, width, height, &applied, NULL, error);
		if (r == 0)
			r = image_ops_apply(applied.ops, applied.count, plan->width, plan->height,
				image, buffers, error);
	}
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

int transform_parameters(const struct transform_plan *plan, const struct random_key *key,
	uint32_t width, uint32_t height, double *row, struct error_text *error)
{
	struct applied applied;

	for (uint32_t i = 0; i < plan->steps * DRAWN_PARAMETERS; i++)
		row[i] = NAN;
	for (uint32_t i = 0; i < plan->erase_count; i++) {
		const struct random_op *op = &plan->erases[i].op;
		struct random_source source = random_source_of(key, op->transform);

		draw_erasing(op, &source, plan->width, plan->height,
			row + op->transform * DRAWN_PARAMETERS);
	}
	return settle(plan, key, width, height, &applied, row, error);
}

void transform_row_shape(const struct transform_plan *plan, uint32_t shape[3])
{
	bool is_drawn = plan->rows == ROW_PARAMETERS;

	shape[0] = is_drawn ? 1 : plan->channels;
	shape[1] = is_drawn ? plan->steps : plan->height;
	shape[2] = is_drawn ? DRAWN_PARAMETERS : plan->width;
}

/* ---- is a plan one of ours? ---- */

bool transform_row_bytes(const struct transform_plan *plan, uint64_t *row_bytes)
{
	uint32_t shape[3];
	uint64_t bytes = element_bytes(plan->dtype);

	transform_row_shape(plan, shape);
	for (int i = 0; i < 3; i++) {
		if (!checked_mul(bytes, shape[i], &bytes))
			return false;
	}
	*row_bytes = bytes;
	return bytes <= PTRDIFF_MAX;
}

bool transform_output_bounded(const struct transform_plan *plan)
{
	return plan->op_count == 0 || (uint64_t)plan->width * plan->height <= DECODE_MAX_PIXELS;
}

static bool channels_valid(uint32_t channels)
{
	return channels == 1 || channels == 3;
}

static bool ops_valid(const struct transform_plan *plan)
{
	uint32_t channels = plan->decode_channels;

	if (plan->op_count > IMAGE_OPS_MAX)
		return false;
	for (uint32_t i = 0; i < plan->op_count; i++) {
		const struct transform_op *op = &plan->ops[i];

		if (op->is_random ? op->random.kind == RANDOM_ERASING ||
					    op->random.transform >= plan->steps ||
					    !random_op_valid(&op->random, channels)
				  : !image_op_valid(&op->image, &channels))
			return false;
	}
	return channels == plan->image_channels && transform_output_bounded(plan);
}

static bool erases_valid(const struct transform_plan *plan)
{
	if (plan->erase_count > TRANSFORM_ERASES_MAX || plan->map_count > TRANSFORM_MAPS_MAX)
		return false;
	for (uint32_t i = 0; i < plan->erase_count; i++) {
		const struct transform_erase *erase = &plan->erases[i];

		if (erase->op.kind != RANDOM_ERASING || erase->op.transform >= plan->steps ||
			!random_op_valid(&erase->op, plan->channels))
			return false;
	}
	for (uint32_t i = 0; i < plan->map_count; i++) {
		if (!element_map_valid(&plan->maps[i]))
			return false;
	}
	return true;
}

static bool dtype_valid(const struct transform_plan *plan)
{
	if (plan->rows == ROW_PARAMETERS)
		return plan->dtype == PIXEL_F64 && plan->steps > 0;
	return plan->rows == ROW_PIXELS && plan->dtype >= PIXEL_U8 && plan->dtype <= PIXEL_F32 &&
	       (plan->has_table || plan->dtype == PIXEL_U8);
}

bool transform_plan_valid(const struct transform_plan *plan)
{
	uint64_t row_bytes;

	if (plan->decode_flags > DECODE_FLAGS || plan->max_pixels < 1 ||
		plan->max_pixels > DECODE_MAX_PIXELS)
		return false;
	if (plan->rows == ROW_DIGESTS)
		return channels_valid(plan->decode_channels) && plan->op_count == 0 &&
		       plan->row_bytes == sizeof(struct batch_digest);
	return plan->width != 0 && plan->height != 0 && channels_valid(plan->decode_channels) &&
	       channels_valid(plan->channels) && plan->steps <= TRANSFORM_STEPS_MAX &&
	       ops_valid(plan) && plan->channels >= plan->image_channels && erases_valid(plan) &&
	       dtype_valid(plan) && (plan->layout == PIXEL_NCHW || plan->layout == PIXEL_NHWC) &&
	       transform_row_bytes(plan, &row_bytes) && row_bytes == plan->row_bytes;
}
