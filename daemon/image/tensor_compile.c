/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/tensor_compile.h"

#include <math.h>
#include <string.h>

static const char *dtype_name(uint32_t dtype)
{
	static const char *const names[] = {
		[PIXEL_U8] = "u8",
		[PIXEL_F16] = "f16",
		[PIXEL_BF16] = "bf16",
		[PIXEL_F32] = "f32",
	};

	return names[dtype];
}

int compile_to_tensor(struct compiler *compiler, const char *name, enum pixel_dtype dtype)
{
	const struct element_map convert = {ELEMENT_CONVERT, PIXEL_U8, dtype, {0}, {0}};

	if (compiler->tensor != 0 && strcmp(compiler->to_tensor, name) == 0)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"%s is there twice; leave one out", name);
	if (compiler->tensor != 0)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"%s stands after %s; leave one of them out", name, compiler->to_tensor);
	compiler->tensor = dtype;
	compiler->to_tensor = name;
	for (uint32_t c = 0; c < compiler->plan->channels; c++)
		for (int v = 0; v < 256; v++)
			compiler->values[c][v] = element_map_apply(&convert, c, (float)v);
	return 0;
}

static int need_tensor(const struct compiler *compiler, const char *name)
{
	if (compiler->tensor != 0)
		return 0;
	return error_set(compiler->error, TRANSFORM_REFUSED,
		"%s stands before ToTensor; put ToTensor in front of it, and ask for a dtype of "
		"floats (f32)",
		name);
}

/* What a byte cannot hold is NAN behind a map to U8. */
static bool map_values(const struct element_map *map, uint32_t channel, float *values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		values[i] = element_map_apply(map, channel, values[i]);
		if (map->kind == ELEMENT_CONVERT && map->to == PIXEL_U8 && isnan(values[i]))
			return false;
	}
	return true;
}

/* Carry everything through a step: the values of the bytes, and of what was erased so far. */
static int apply_map(struct compiler *compiler, const struct element_map *map)
{
	struct transform_plan *plan = compiler->plan;
	bool fits = true;

	for (uint32_t c = 0; c < plan->channels; c++) {
		fits = fits && map_values(map, c, compiler->values[c], 256);
		for (uint32_t i = 0; i < plan->erase_count; i++)
			fits = fits && map_values(map, c, &plan->erases[i].value[c], 1);
	}
	if (!fits)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"ConvertImageDtype(torch.uint8) would meet values outside of 0 .. 1, or white "
			"in %s, which torch makes no sensible bytes of: put it right behind ToTensor",
			dtype_name(map->from));
	if (!compiler->has_random_values)
		return 0;
	if (plan->map_count == TRANSFORM_MAPS_MAX)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"more than %d transforms behind RandomErasing(value='random'): put it last",
			TRANSFORM_MAPS_MAX);
	plan->maps[plan->map_count++] = *map;
	return 0;
}

int compile_convert(struct compiler *compiler, enum pixel_dtype dtype)
{
	const struct element_map convert = {ELEMENT_CONVERT, compiler->tensor, dtype, {0}, {0}};
	int r = need_tensor(compiler, "ConvertImageDtype");

	if (r != 0)
		return r;
	if (!element_map_valid(&convert))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"ConvertImageDtype: of dtypes there are uint8, float16, bfloat16 and "
			"float32");
	if (dtype == compiler->tensor)
		return 0;
	if (dtype == PIXEL_U8 && compiler->has_random_values)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"ConvertImageDtype(torch.uint8) stands behind RandomErasing(value='random'), "
			"whose values lie outside of 0 .. 1: leave it out, or give RandomErasing "
			"numbers");
	compiler->tensor = dtype;
	return apply_map(compiler, &convert);
}

static int check_normalize(const struct compiler *compiler, const struct transform_step *step)
{
	const struct transform_plan *plan = compiler->plan;
	int r = need_tensor(compiler, "Normalize");

	if (r != 0)
		return r;
	if (compiler->tensor == PIXEL_U8)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Normalize needs floats and gets bytes: put ConvertImageDtype(torch.float32) "
			"in front of it, or ToTensor in place of PILToTensor");
	if (step->values != 1 && step->values != plan->channels)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"Normalize has %u values of mean and std for pictures of %u channel%s; give 1%s",
			step->values, plan->channels, plan->channels == 1 ? "" : "s",
			plan->channels == 1 ? "" : " or 3");
	return 0;
}

int compile_normalize(struct compiler *compiler, const struct transform_step *step)
{
	struct element_map normalize = {.kind = ELEMENT_NORMALIZE, .to = compiler->tensor};
	int r = check_normalize(compiler, step);

	if (r != 0)
		return r;
	for (uint32_t c = 0; c < compiler->plan->channels; c++) {
		uint32_t i = step->values == 1 ? 0 : c;

		normalize.mean[c] = element_round(compiler->tensor, step->mean[i]);
		normalize.std[c] = element_round(compiler->tensor, step->std[i]);
		if (!isfinite(normalize.mean[c]) || !isfinite(normalize.std[c]))
			return error_set(compiler->error, TRANSFORM_REFUSED,
				"Normalize: mean and std must be finite numbers");
		if (normalize.std[c] == 0)
			return error_set(compiler->error, TRANSFORM_REFUSED,
				"Normalize: std is 0%s%s, which would divide by zero",
				step->std[i] != 0 ? " in " : "",
				step->std[i] != 0 ? dtype_name(compiler->tensor) : "");
	}
	return apply_map(compiler, &normalize);
}

/* Bytes take the integer part of a value. */
static int set_erased_values(
	struct compiler *compiler, const struct random_op *op, struct transform_erase *erase)
{
	for (uint32_t c = 0; c < compiler->plan->channels; c++) {
		float value = (float)op->value[op->values == 1 ? 0 : c];

		if (compiler->tensor == PIXEL_U8 && !(value > -1 && value < 256))
			return error_set(compiler->error, TRANSFORM_REFUSED,
				"RandomErasing: value %g does not fit into the bytes of PILToTensor; "
				"give 0 to 255",
				(double)value);
		erase->value[c] = element_round(compiler->tensor, value);
	}
	return 0;
}

int compile_erasing(struct compiler *compiler, const struct random_op *op)
{
	struct transform_plan *plan = compiler->plan;
	struct transform_erase *erase = &plan->erases[plan->erase_count];

	if (compiler->tensor == 0)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"RandomErasing stands before ToTensor; it works on tensors: put it behind");
	if (plan->erase_count == TRANSFORM_ERASES_MAX)
		return error_set(compiler->error, TRANSFORM_REFUSED, "more than %d RandomErasing",
			TRANSFORM_ERASES_MAX);
	if (!op->random_value && op->values != 1 && op->values != plan->channels)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"RandomErasing has %u values for %u channel%s; give 1%s", op->values,
			plan->channels, plan->channels == 1 ? "" : "s",
			plan->channels == 1 ? "" : " or 3");
	if (op->random_value && compiler->tensor == PIXEL_U8)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"RandomErasing(value='random') needs floats and gets bytes: put "
			"ConvertImageDtype(torch.float32) in front of it");
	*erase = (struct transform_erase){
		.op = *op, .first_map = plan->map_count, .dtype = compiler->tensor};
	if (op->random_value)
		erase->op.values = 1;
	if (!random_op_valid(&erase->op, plan->channels))
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"a number of RandomErasing is out of range");
	plan->erase_count++;
	if (!op->random_value)
		return set_erased_values(compiler, op, erase);
	compiler->has_random_values = true;
	return 0;
}

static int check_output(const struct compiler *compiler, enum pixel_dtype dtype)
{
	bool is_float = compiler->tensor != 0 && compiler->tensor != PIXEL_U8;

	if (dtype == PIXEL_U8 && is_float)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"dtype u8 was asked for, and the transforms end in floats: leave %s out, or "
			"ask for dtype f32",
			compiler->to_tensor);
	if (dtype != PIXEL_U8 && compiler->tensor == 0)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"dtype %s needs ToTensor; add it or ask for dtype u8", dtype_name(dtype));
	if (dtype != PIXEL_U8 && !is_float)
		return error_set(compiler->error, TRANSFORM_REFUSED,
			"dtype %s was asked for, and the transforms end in bytes: add "
			"ConvertImageDtype(torch.float32), or ask for dtype u8",
			dtype_name(dtype));
	return 0;
}

static void fill_table(struct compiler *compiler)
{
	struct transform_plan *plan = compiler->plan;

	for (uint32_t c = 0; c < plan->channels; c++) {
		for (int v = 0; v < 256; v++) {
			float value = compiler->values[c][v];

			if (plan->dtype == PIXEL_F32)
				plan->table[c][v] = value;
			else if (plan->dtype == PIXEL_U8)
				element_store(PIXEL_U8, value, &plan->table8[c][v]);
			else
				element_store(plan->dtype, value, &plan->table16[c][v]);
		}
	}
}

static bool changes_bytes(const struct compiler *compiler)
{
	for (uint32_t c = 0; compiler->tensor != 0 && c < compiler->plan->channels; c++)
		for (int v = 0; v < 256; v++)
			if (compiler->values[c][v] != (float)v)
				return true;
	return false;
}

int compile_output(struct compiler *compiler, enum pixel_dtype dtype)
{
	struct transform_plan *plan = compiler->plan;
	int r = check_output(compiler, dtype);

	if (r != 0)
		return r;
	plan->dtype = dtype;
	plan->has_table = dtype != PIXEL_U8 || changes_bytes(compiler);
	if (plan->has_table)
		fill_table(compiler);
	return 0;
}
