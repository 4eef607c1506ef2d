/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with random operations, erasing and tensors of other dtypes: what is accepted, what each sample
 * gets, and that a plan from a socket is not trusted. */
#include "daemon/image/transform.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

static const struct transform_source rgb_source = {.width = 12, .height = 10, .channels = 3};
static const struct transform_source l_source = {.width = 12, .height = 10, .channels = 1};

#define STEP(name, ...) static const struct transform_step name = {__VA_ARGS__}

STEP(to_tensor, .kind = TRANSFORM_TO_TENSOR);
STEP(pil_to_tensor, .kind = TRANSFORM_PIL_TO_TENSOR);
STEP(to_u8, .kind = TRANSFORM_CONVERT_IMAGE_DTYPE, .dtype = PIXEL_U8);
STEP(to_f16, .kind = TRANSFORM_CONVERT_IMAGE_DTYPE, .dtype = PIXEL_F16);
STEP(to_f64, .kind = TRANSFORM_CONVERT_IMAGE_DTYPE, .dtype = PIXEL_F64);
STEP(half, .kind = TRANSFORM_NORMALIZE, .values = 1, .mean = {0.5f}, .std = {0.5f});
STEP(grey, .kind = TRANSFORM_GRAYSCALE, .channels = 3);
STEP(center_crop, .kind = TRANSFORM_CENTER_CROP,
	.op = {.kind = IMAGE_OP_CENTER_CROP, .width = 9, .height = 7});
STEP(crop, .kind = TRANSFORM_RANDOM, .values = 1,
	.random = {.kind = RANDOM_CROP, .width = 6, .height = 4, .mode = WINDOW_CONSTANT});
STEP(coloured_crop, .kind = TRANSFORM_RANDOM, .values = 3,
	.random = {.kind = RANDOM_CROP,
		.width = 6,
		.height = 4,
		.pad_if_needed = 1,
		.mode = WINDOW_CONSTANT,
		.fill = {1, 2, 3}});
STEP(flip, .kind = TRANSFORM_RANDOM, .random = {.kind = RANDOM_FLIP_VERTICAL, .p = 0.5});
STEP(flip_oddly, .kind = TRANSFORM_RANDOM, .random = {.kind = RANDOM_FLIP_VERTICAL, .p = 1.5});
STEP(rotation, .kind = TRANSFORM_RANDOM, .values = 1,
	.random = {.kind = RANDOM_ROTATION, .filter = RESAMPLE_NEAREST, .expand = 1});
STEP(erasing, .kind = TRANSFORM_RANDOM,
	.random = {.kind = RANDOM_ERASING,
		.p = 1,
		.scale = {0.1, 0.4},
		.ratio = {0.5, 2},
		.values = 1,
		.value = {0.25}});
STEP(noise, .kind = TRANSFORM_RANDOM,
	.random = {.kind = RANDOM_ERASING,
		.p = 1,
		.scale = {0.1, 0.4},
		.ratio = {0.5, 2},
		.random_value = 1});
STEP(unknown, .kind = TRANSFORM_RANDOM, .random = {.kind = 11});

enum { STEPS = 6 };

struct pipeline {
	const struct transform_step *steps[STEPS];
	const struct transform_source *source;
	enum pixel_dtype dtype;
	const char *says; /* NULL: it is accepted */
};

static int compile(
	const struct pipeline *pipeline, struct transform_plan *plan, struct error_text *error)
{
	struct transform_step steps[STEPS];
	size_t count = 0;

	for (; count < STEPS && pipeline->steps[count] != NULL; count++)
		steps[count] = *pipeline->steps[count];
	if (pipeline->dtype == PIXEL_F64)
		return transform_compile_parameters(
			plan, pipeline->source, steps, count, PIXEL_NCHW, error);
	return transform_compile(
		plan, pipeline->source, steps, count, pipeline->dtype, PIXEL_NCHW, error);
}

/* clang-format off */
static const struct pipeline pipelines[] = {
	{{&crop}, &rgb_source, PIXEL_U8, NULL},
	{{&crop, &to_tensor}, &rgb_source, PIXEL_BF16, NULL},
	{{&crop}, &rgb_source, PIXEL_F16, "f16 needs ToTensor"},
	{{&to_tensor, &crop}, &rgb_source, PIXEL_F32, "RandomCrop stands after ToTensor"},
	{{&pil_to_tensor, &flip}, &rgb_source, PIXEL_U8, "RandomVerticalFlip stands after PILToTensor"},
	{{&flip_oddly}, &rgb_source, PIXEL_U8, "a number of RandomVerticalFlip is out of range"},
	{{&unknown}, &rgb_source, PIXEL_U8, "unknown random transform (number 11)"},
	{{&coloured_crop}, &l_source, PIXEL_U8, "RandomCrop has a fill of 3 values"},
	{{&grey, &coloured_crop}, &l_source, PIXEL_U8, NULL},
	{{&rotation}, &rgb_source, PIXEL_U8, "many sizes"},
	{{&rotation, &flip}, &rgb_source, PIXEL_U8, "put CenterCrop"},
	{{&rotation, &center_crop}, &rgb_source, PIXEL_U8, NULL},
	{{&rotation, &crop}, &rgb_source, PIXEL_U8, NULL},
	{{&crop, &rotation}, &rgb_source, PIXEL_U8, "many sizes"},
	{{&erasing}, &rgb_source, PIXEL_U8, "RandomErasing stands before ToTensor"},
	{{&to_tensor, &erasing}, &rgb_source, PIXEL_F32, NULL},
	{{&pil_to_tensor, &erasing}, &rgb_source, PIXEL_U8, NULL},
	{{&pil_to_tensor, &noise}, &rgb_source, PIXEL_U8, "needs floats and gets bytes"},
	{{&to_tensor, &noise, &half, &to_f16, &half}, &rgb_source, PIXEL_F32, NULL},
	{{&to_tensor, &noise, &to_u8}, &rgb_source, PIXEL_U8, "leave it out, or give RandomErasing numbers"},
	{{&to_tensor, &erasing, &erasing, &erasing, &erasing}, &rgb_source, PIXEL_F32, NULL},
	{{&to_tensor, &erasing, &erasing, &erasing, &erasing, &erasing}, &rgb_source, PIXEL_F32,
		"more than 4 RandomErasing"},
	{{&pil_to_tensor}, &rgb_source, PIXEL_U8, NULL},
	{{&pil_to_tensor}, &rgb_source, PIXEL_F32, "end in bytes"},
	{{&pil_to_tensor, &half}, &rgb_source, PIXEL_F32, "Normalize needs floats"},
	{{&pil_to_tensor, &to_f16, &half}, &rgb_source, PIXEL_F16, NULL},
	{{&pil_to_tensor, &to_tensor}, &rgb_source, PIXEL_F32, "ToTensor stands after PILToTensor"},
	{{&pil_to_tensor, &pil_to_tensor}, &rgb_source, PIXEL_U8, "PILToTensor is there twice"},
	{{&to_f16}, &rgb_source, PIXEL_F16, "ConvertImageDtype stands before ToTensor"},
	{{&to_tensor, &to_f64}, &rgb_source, PIXEL_F32, "float16, bfloat16 and float32"},
	{{&to_tensor, &half, &to_u8}, &rgb_source, PIXEL_U8, "put it right behind ToTensor"},
	{{&to_tensor, &to_u8}, &rgb_source, PIXEL_U8, NULL},
	{{&to_tensor, &to_u8}, &rgb_source, PIXEL_F16, "end in bytes"},
	{{&to_tensor, &to_f16}, &rgb_source, PIXEL_U8, "leave ToTensor out"},
	{{&crop, &to_tensor, &erasing}, &rgb_source, PIXEL_F64, NULL},
	{{&pil_to_tensor}, &rgb_source, PIXEL_F64, NULL},
	{{NULL}, &rgb_source, PIXEL_F64, "no parameters"},
	{{&rotation}, &rgb_source, PIXEL_F64, "many sizes"},
};
/* clang-format on */

static void every_rule(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(pipelines) / sizeof(pipelines[0]); i++) {
		const struct pipeline *pipeline = &pipelines[i];
		struct error_text error = {""};
		struct transform_plan plan;
		int r = compile(pipeline, &plan, &error);

		if (pipeline->says == NULL && r != 0)
			fail_msg("pipeline %zu: %s", i, error.text);
		if (pipeline->says == NULL) {
			assert_int_equal(plan.dtype, pipeline->dtype);
			assert_true(transform_plan_valid(&plan));
		} else if (r != TRANSFORM_REFUSED || strstr(error.text, pipeline->says) == NULL) {
			fail_msg("pipeline %zu: %d, no \"%s\" in: %s", i, r, pipeline->says,
				error.text);
		}
	}
}

static struct transform_plan plan_of(const struct pipeline *pipeline)
{
	struct error_text error = {""};
	struct transform_plan plan;

	if (compile(pipeline, &plan, &error) != 0)
		fail_msg("%s", error.text);
	return plan;
}

static void shapes(void **state)
{
	struct transform_plan plan =
		plan_of(&(struct pipeline){{&crop, &to_tensor}, &rgb_source, PIXEL_BF16, NULL});
	uint32_t shape[3];

	(void)state;
	transform_row_shape(&plan, shape);
	assert_memory_equal(shape, ((uint32_t[]){3, 4, 6}), sizeof(shape));
	assert_int_equal(plan.row_bytes, 3 * 4 * 6 * 2);
	plan = plan_of(&(struct pipeline){{&crop, &to_tensor}, &rgb_source, PIXEL_F64, NULL});
	transform_row_shape(&plan, shape);
	assert_memory_equal(shape, ((uint32_t[]){1, 2, DRAWN_PARAMETERS}), sizeof(shape));
	assert_int_equal(plan.row_bytes, 2 * DRAWN_PARAMETERS * sizeof(double));
}

/* Each transform draws under its own place in the pipeline: two flips do not always agree. */
static void places_are_told_apart(void **state)
{
	struct transform_plan plan = plan_of(&(struct pipeline){
		{&flip, &to_tensor, &erasing, &half, &erasing}, &rgb_source, PIXEL_F64, NULL});
	struct transform_plan flips =
		plan_of(&(struct pipeline){{&flip, &flip}, &rgb_source, PIXEL_F64, NULL});
	double row[5 * DRAWN_PARAMETERS];
	unsigned agree = 0;

	(void)state;
	assert_int_equal(plan.ops[0].random.transform, 0);
	assert_int_equal(plan.erases[0].op.transform, 2);
	assert_int_equal(plan.erases[1].op.transform, 4);
	for (uint64_t sample = 0; sample < 1000; sample++) {
		const struct random_key key = {.seed = 4, .epoch = 5, .sample = sample};

		assert_int_equal(transform_parameters(&flips, &key, 12, 10, row, NULL), 0);
		assert_true(row[0] == RANDOM_FLIP_VERTICAL);
		agree += row[1] == row[DRAWN_PARAMETERS + 1];
		assert_int_equal(transform_parameters(&plan, &key, 12, 10, row, NULL), 0);
		assert_true(isnan(row[DRAWN_PARAMETERS]) && isnan(row[3 * DRAWN_PARAMETERS]));
		assert_true(row[2 * DRAWN_PARAMETERS] == RANDOM_ERASING);
		assert_true(row[4 * DRAWN_PARAMETERS] == RANDOM_ERASING);
	}
	assert_in_range(agree, 440, 560);
}

/* The rectangle of a row, in each dtype and layout, and nothing beside it. */
static void check_erased(
	const struct transform_plan *plan, uint64_t sample, const void *value, size_t unit)
{
	const struct random_key key = {.seed = 1, .epoch = 0, .sample = sample};
	struct image image = IMAGE_NULL;
	double parameters[3 * DRAWN_PARAMETERS], *region = parameters + DRAWN_PARAMETERS;
	struct transform_plan drawn = *plan, plain = *plan;
	uint8_t *row = malloc(plan->row_bytes), *other = malloc(plan->row_bytes);

	assert_int_equal(image_resize(&image, 12, 10, 3), 0);
	for (int i = 0; i < 360; i++)
		image.pixels[i] = (uint8_t)(100 + i % 150);
	drawn.rows = ROW_PARAMETERS;
	plain.erase_count = 0;
	assert_int_equal(transform_parameters(&drawn, &key, 12, 10, parameters, NULL), 0);
	assert_true(region[1] == 1);
	transform_render(plan, &key, &image, row);
	transform_render(&plain, &key, &image, other);
	for (uint32_t y = 0; y < 10; y++)
		for (uint32_t x = 0; x < 12; x++)
			for (uint32_t c = 0; c < 3; c++) {
				size_t at = plan->layout == PIXEL_NCHW ? (c * 10 + y) * 12 + x
								       : (y * 12 + x) * 3 + c;
				bool inside = y >= region[2] && y < region[2] + region[4] &&
					      x >= region[3] && x < region[3] + region[5];

				assert_memory_equal(row + at * unit,
					inside ? (const uint8_t *)value : other + at * unit, unit);
			}
	image_finish(&image);
	free(row);
	free(other);
}

static void rectangles(void **state)
{
	static const float f32 = -0.5f, f32_plain = 0.25f;
	static const uint16_t f16 = 0xb800, bf16 = 0xbf00;
	static const uint8_t u8 = 0;
	static const struct {
		struct pipeline pipeline;
		const void *value;
		size_t unit;
	} cases[] = {
		{{{&to_tensor, &erasing}, &rgb_source, PIXEL_F32, NULL}, &f32_plain, 4},
		{{{&to_tensor, &erasing, &half}, &rgb_source, PIXEL_F32, NULL}, &f32, 4},
		{{{&to_tensor, &erasing, &half}, &rgb_source, PIXEL_F16, NULL}, &f16, 2},
		{{{&to_tensor, &erasing, &half}, &rgb_source, PIXEL_BF16, NULL}, &bf16, 2},
		{{{&pil_to_tensor, &erasing}, &rgb_source, PIXEL_U8, NULL}, &u8, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transform_plan plan = plan_of(&cases[i].pipeline);

		for (uint64_t sample = 0; sample < 50; sample++) {
			plan.layout = sample % 2 == 0 ? PIXEL_NCHW : PIXEL_NHWC;
			check_erased(&plan, sample, cases[i].value, cases[i].unit);
		}
	}
}

/* A colour needs RGB pixels, also where the decoder delivers grey ones. */
static void a_coloured_fill(void **state)
{
	struct transform_plan plan =
		plan_of(&(struct pipeline){{&grey, &coloured_crop}, &l_source, PIXEL_U8, NULL});

	(void)state;
	assert_int_equal(plan.op_count, 2);
	assert_int_equal(plan.ops[0].image.kind, IMAGE_OP_TO_RGB);
	assert_true(plan.ops[1].is_random);
	assert_int_equal(plan.image_channels, 3);
}

static void parameters_of_pictures_that_do_not_fit(void **state)
{
	struct transform_plan plan =
		plan_of(&(struct pipeline){{&crop}, &rgb_source, PIXEL_F64, NULL});
	const struct random_key key = {0};
	double row[DRAWN_PARAMETERS];
	struct error_text error;

	(void)state;
	assert_int_equal(transform_parameters(&plan, &key, 5, 10, row, &error), TRANSFORM_BAD);
	assert_non_null(strstr(error.text, "is 5x10 where RandomCrop takes 6x4"));
}

static void mutated_plans(void **state)
{
	struct transform_plan plan = plan_of(&(struct pipeline){
		{&crop, &to_tensor, &noise, &half, &erasing}, &rgb_source, PIXEL_F32, NULL});
	struct transform_plan drawn =
		plan_of(&(struct pipeline){{&crop, &to_tensor}, &rgb_source, PIXEL_F64, NULL});
	struct transform_plan bad;

	(void)state;
	assert_int_equal(plan.erase_count, 2);
	assert_int_equal(plan.map_count, 1);
	assert_int_equal(plan.erases[0].first_map, 0);
	assert_true(plan.erases[1].value[2] == 0.25f);
#define REFUSED(good, change)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.change;                                                                        \
		if (transform_plan_valid(&bad))                                                    \
			fail_msg("accepted: %s of %s", #change, #good);                            \
	} while (0)
	REFUSED(plan, ops[0].random.kind = RANDOM_ERASING);
	REFUSED(plan, ops[0].random.kind = 0);
	REFUSED(plan, ops[0].random.width = 0);
	REFUSED(plan, ops[0].random.transform = 5);
	REFUSED(plan, ops[0].is_random = 0);
	REFUSED(plan, steps = 4);
	REFUSED(plan, steps = TRANSFORM_STEPS_MAX + 1);
	REFUSED(plan, erase_count = TRANSFORM_ERASES_MAX + 1);
	REFUSED(plan, erases[1].op.kind = RANDOM_CROP);
	REFUSED(plan, erases[1].op.transform = 5);
	REFUSED(plan, erases[0].op.scale[1] = 2);
	REFUSED(plan, erases[0].op.ratio[0] = NAN);
	REFUSED(plan, map_count = TRANSFORM_MAPS_MAX + 1);
	REFUSED(plan, map_count = 2);
	REFUSED(plan, maps[0].kind = 0);
	REFUSED(plan, maps[0].to = PIXEL_U8);
	REFUSED(plan, has_table = 0);
	REFUSED(plan, dtype = PIXEL_F64);
	REFUSED(plan, dtype = PIXEL_F16);
	REFUSED(plan, rows = ROW_PARAMETERS);
	REFUSED(plan, rows = 3);
	REFUSED(drawn, rows = ROW_PIXELS);
	REFUSED(drawn, dtype = PIXEL_F32);
	REFUSED(drawn, steps = 0);
	REFUSED(drawn, steps = 3);
	REFUSED(drawn, row_bytes = 8);
#undef REFUSED
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule),
		cmocka_unit_test(shapes),
		cmocka_unit_test(places_are_told_apart),
		cmocka_unit_test(rectangles),
		cmocka_unit_test(a_coloured_fill),
		cmocka_unit_test(parameters_of_pictures_that_do_not_fit),
		cmocka_unit_test(mutated_plans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
