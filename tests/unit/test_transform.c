/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/decode.h"
#include "daemon/image/transform.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

static const struct transform_source rgb_source = {.width = 5, .height = 3, .channels = 3};
static const struct random_key no_key;
static const struct transform_source l_source = {.width = 5, .height = 3, .channels = 1};

#define GRAYSCALE(n)                                                                               \
	{                                                                                          \
		.kind = TRANSFORM_GRAYSCALE, .channels = (n)                                       \
	}
#define TO_TENSOR                                                                                  \
	{                                                                                          \
		.kind = TRANSFORM_TO_TENSOR                                                        \
	}
#define NORMALIZE(n, ...)                                                                          \
	{                                                                                          \
		.kind = TRANSFORM_NORMALIZE, .values = (n), __VA_ARGS__                            \
	}
#define CROP(h, w)                                                                                 \
	{                                                                                          \
		.kind = TRANSFORM_CENTER_CROP,                                                     \
		.op = {.kind = IMAGE_OP_CENTER_CROP,                                               \
			.height = (h),                                                             \
			.width = (w) }                                                             \
	}
#define PAD(n, ...)                                                                                \
	{                                                                                          \
		.kind = TRANSFORM_PAD, .values = (n),                                              \
		.op = {.kind = IMAGE_OP_PAD,                                                       \
			.mode = WINDOW_CONSTANT,                                                   \
			.fill = {__VA_ARGS__} }                                                    \
	}
#define HALF NORMALIZE(1, .mean = {0.5f}, .std = {0.5f})

struct pipeline {
	const char *name;
	struct transform_step steps[5];
	size_t count;
	enum pixel_dtype dtype;
	uint32_t source_channels;
	/* expected: */
	uint32_t decode_channels, channels; /* when it is accepted */
	const char *says;                   /* when it is refused: the word that must be there */
};

/* clang-format off */
static const struct pipeline pipelines[] = {
	{"nothing, u8, RGB", {{0}}, 0, PIXEL_U8, 3, 3, 3, NULL},
	{"nothing, u8, L", {{0}}, 0, PIXEL_U8, 1, 1, 1, NULL},
	{"grey, u8", {GRAYSCALE(1)}, 1, PIXEL_U8, 3, 1, 1, NULL},
	{"grey as three, u8", {GRAYSCALE(3)}, 1, PIXEL_U8, 3, 1, 3, NULL},
	{"grey as three of L, u8", {GRAYSCALE(3)}, 1, PIXEL_U8, 1, 1, 3, NULL},
	{"three to grey again", {GRAYSCALE(3), GRAYSCALE(1)}, 2, PIXEL_U8, 3, 1, 1, NULL},
	{"tensor", {TO_TENSOR}, 1, PIXEL_F32, 3, 3, 3, NULL},
	{"the seed's", {GRAYSCALE(1), TO_TENSOR, HALF}, 3, PIXEL_F32, 3, 1, 1, NULL},
	{"one value for three channels", {TO_TENSOR, HALF}, 2, PIXEL_F32, 3, 3, 3, NULL},
	{"three values", {TO_TENSOR, NORMALIZE(3, .std = {1, 2, -3})}, 2, PIXEL_F32, 3, 3, 3, NULL},
	{"normalised twice", {TO_TENSOR, HALF, HALF}, 3, PIXEL_F32, 1, 1, 1, NULL},
	{"three of grey", {GRAYSCALE(3), TO_TENSOR, NORMALIZE(3, .std = {1, 2, 3})}, 3, PIXEL_F32, 3,
		1, 3, NULL},

	{"cropped", {CROP(3, 5)}, 1, PIXEL_U8, 3, 3, 3, NULL},
	{"cropped, then grey", {CROP(3, 5), GRAYSCALE(1), TO_TENSOR}, 3, PIXEL_F32, 3, 3, 1, NULL},
	{"grey, then cropped", {GRAYSCALE(3), CROP(3, 5), TO_TENSOR}, 3, PIXEL_F32, 3, 1, 3, NULL},
	{"padded by nothing", {PAD(3, 1, 2, 3)}, 1, PIXEL_U8, 3, 3, 3, NULL},
	{"a colour on grey", {GRAYSCALE(3), PAD(3, 1, 2, 3)}, 2, PIXEL_U8, 3, 1, 3, NULL},
	{"a colour on grey, greyed", {GRAYSCALE(3), PAD(3, 1, 2, 3), GRAYSCALE(1)}, 3, PIXEL_U8, 3, 1, 1,
		NULL},

	{"cropped behind ToTensor", {TO_TENSOR, CROP(3, 5)}, 2, PIXEL_F32, 3, 0, 0,
		"CenterCrop stands after ToTensor"},
	{"cropped to nothing", {CROP(0, 5)}, 1, PIXEL_U8, 3, 0, 0, "out of range"},
	{"cropped too large", {CROP(65535, 65535)}, 1, PIXEL_U8, 3, 0, 0, "65535 x 65535 pixels"},
	{"a colour on L", {GRAYSCALE(1), PAD(3, 1, 2, 3)}, 2, PIXEL_U8, 3, 0, 0, "fill of 3 values"},
	{"two fills", {PAD(2, 1, 2)}, 1, PIXEL_U8, 3, 0, 0, "fill of 2 values"},

	{"f32 without ToTensor", {{0}}, 0, PIXEL_F32, 3, 0, 0, "ToTensor"},
	{"f32, only grey", {GRAYSCALE(1)}, 1, PIXEL_F32, 3, 0, 0, "ToTensor"},
	{"two ToTensor", {TO_TENSOR, TO_TENSOR}, 2, PIXEL_F32, 3, 0, 0, "twice"},
	{"grey behind ToTensor", {TO_TENSOR, GRAYSCALE(1)}, 2, PIXEL_F32, 3, 0, 0, "Grayscale"},
	{"Normalize first", {HALF, TO_TENSOR}, 2, PIXEL_F32, 3, 0, 0, "before ToTensor"},
	{"u8 with ToTensor", {TO_TENSOR}, 1, PIXEL_U8, 3, 0, 0, "f32"},
	{"u8 with Normalize", {HALF}, 1, PIXEL_U8, 3, 0, 0, "f32"},
	{"two grey channels", {GRAYSCALE(2), TO_TENSOR}, 2, PIXEL_F32, 3, 0, 0, "num_output_channels=2"},
	{"no grey channel", {GRAYSCALE(0), TO_TENSOR}, 2, PIXEL_F32, 3, 0, 0, "num_output_channels=0"},
	{"no values", {TO_TENSOR, NORMALIZE(0, .std = {1})}, 2, PIXEL_F32, 3, 0, 0, "0 values"},
	{"two values", {TO_TENSOR, NORMALIZE(2, .std = {1, 1})}, 2, PIXEL_F32, 3, 0, 0, "1 or 3"},
	{"four values", {TO_TENSOR, NORMALIZE(4, .std = {1, 1, 1})}, 2, PIXEL_F32, 3, 0, 0, "4 values"},
	{"three values for L", {TO_TENSOR, NORMALIZE(3, .std = {1, 1, 1})}, 2, PIXEL_F32, 1, 0, 0,
		"1 channel;"},
	{"std 0", {TO_TENSOR, NORMALIZE(3, .std = {1, 0, 1})}, 2, PIXEL_F32, 3, 0, 0, "std is 0"},
	{"std -0", {TO_TENSOR, NORMALIZE(1, .std = {-0.0f})}, 2, PIXEL_F32, 3, 0, 0, "std is 0"},
	{"std infinite", {TO_TENSOR, NORMALIZE(1, .std = {1e39})}, 2, PIXEL_F32, 3, 0, 0, "finite"},
	{"mean not a number", {TO_TENSOR, NORMALIZE(1, .mean = {__builtin_nanf("")}, .std = {1})}, 2,
		PIXEL_F32, 3, 0, 0, "finite"},
	{"unknown step", {TO_TENSOR, {.kind = 99}}, 2, PIXEL_F32, 3, 0, 0, "99"},
	{"step 0", {{.kind = 0}}, 1, PIXEL_U8, 3, 0, 0, "unknown transform"},
	{"unknown dtype", {{0}}, 0, 6, 3, 0, 0, "dtype of number 6"},
	{"doubles", {TO_TENSOR}, 1, PIXEL_F64, 3, 0, 0, "dtype of number 5"},
	{"two source channels", {{0}}, 0, PIXEL_U8, 2, 0, 0, "2 channels"},
};
/* clang-format on */

static void every_rule(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(pipelines) / sizeof(pipelines[0]); i++) {
		const struct pipeline *p = &pipelines[i];
		struct transform_source source = {
			.width = 5, .height = 3, .channels = p->source_channels};
		struct error_text error = {.text = ""};
		struct transform_plan plan;
		int r = transform_compile(
			&plan, &source, p->steps, p->count, p->dtype, PIXEL_NHWC, &error);

		if (p->says != NULL) {
			if (r != TRANSFORM_REFUSED || strstr(error.text, p->says) == NULL)
				fail_msg("%s: %d '%s', not '%s'", p->name, r, error.text, p->says);
			continue;
		}
		if (r != 0)
			fail_msg("%s: %d '%s'", p->name, r, error.text);
		assert_int_equal(plan.width, 5);
		assert_int_equal(plan.height, 3);
		assert_int_equal(plan.decode_channels, p->decode_channels);
		assert_int_equal(plan.channels, p->channels);
		assert_int_equal(plan.dtype, p->dtype);
		assert_int_equal(plan.layout, PIXEL_NHWC);
		assert_int_equal(plan.row_bytes,
			15 * p->channels * (p->dtype == PIXEL_F32 ? sizeof(float) : 1));
		assert_true(transform_plan_valid(&plan));
	}
}

static void sizes_and_layouts(void **state)
{
	struct transform_source source = {.width = 0, .height = 3, .channels = 3};
	struct transform_plan plan;

	(void)state;
	assert_int_equal(transform_compile(&plan, &source, NULL, 0, PIXEL_U8, PIXEL_NCHW, NULL),
		TRANSFORM_REFUSED);
	source.width = 3, source.height = 0;
	assert_int_equal(transform_compile(&plan, &source, NULL, 0, PIXEL_U8, PIXEL_NCHW, NULL),
		TRANSFORM_REFUSED);
	source.height = 3;
	assert_int_equal(
		transform_compile(&plan, &source, NULL, 0, PIXEL_U8, 3, NULL), TRANSFORM_REFUSED);
	assert_int_equal(transform_compile(&plan, &source, NULL, 0, PIXEL_U8, PIXEL_NCHW, NULL), 0);
	source.width = source.height = UINT32_MAX;
	assert_int_equal(
		transform_compile(&plan, &source, NULL, 0, PIXEL_U8, PIXEL_NCHW, NULL), -EOVERFLOW);
}

/* Bit patterns made with torch 1.13: torchvision 0.14 ToTensor, then Normalize(mean, std). */
static void values_as_torch(void **state)
{
	static const struct transform_step steps[] = {TO_TENSOR,
		NORMALIZE(3, .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f})};
	static const struct {
		uint8_t value;
		uint32_t tensor, normalized[3];
	} known[] = {
		{0, 0x00000000, {0xc0078bbd, 0xc0024924, 0xbfe6f809}},
		{1, 0x3b808081, {0xc006732b, 0xc0012a4f, 0xbfe4bcea}},
		{2, 0x3c008081, {0xc0055a98, 0xc0000b79, 0xbfe281cc}},
		{63, 0x3e7cfcfd, {0xbf84ff69, 0xbf6eca37, 0xbf34d6f9}},
		{100, 0x3ec8c8c9, {0xbecf9456, 0xbe91ed5a, 0xbd7c019d}},
		{127, 0x3efefeff, {0x3d6939a6, 0x3e402de4, 0x3ed170bd}},
		{128, 0x3f008081, {0x3d97af32, 0x3e521b48, 0x3eda5d3c}},
		{200, 0x3f48c8c9, {0x3fa74d4f, 0x3fbb9b9c, 0x3fd737ef}},
		{254, 0x3f7efeff, {0x400ed58a, 0x401a4ee0, 0x4027d834}},
		{255, 0x3f800000, {0x400fee1d, 0x401b6db7, 0x4028f5c3}},
	};
	struct transform_plan tensor, normalized;

	(void)state;
	assert_int_equal(
		transform_compile(&tensor, &rgb_source, steps, 1, PIXEL_F32, PIXEL_NCHW, NULL), 0);
	assert_int_equal(
		transform_compile(&normalized, &rgb_source, steps, 2, PIXEL_F32, PIXEL_NCHW, NULL),
		0);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		for (int c = 0; c < 3; c++) {
			uint8_t v = known[i].value;

			assert_memory_equal(&tensor.table[c][v], &known[i].tensor, sizeof(float));
			assert_memory_equal(
				&normalized.table[c][v], &known[i].normalized[c], sizeof(float));
		}
}

/* Rounding after each operation, in memory, whatever the compiler would like to fuse. */
static float normalized(uint8_t value, float mean, float std)
{
	volatile float x = (float)value / 255.0f;

	x = x - mean;
	x = x / std;
	return x;
}

static void every_value(void **state)
{
	static const struct transform_step steps[] = {GRAYSCALE(3), TO_TENSOR, HALF,
		NORMALIZE(3, .mean = {-1, 0.1f, 7}, .std = {3, 0.3f, -9})};
	struct transform_plan plan;

	(void)state;
	assert_int_equal(
		transform_compile(&plan, &l_source, steps, 3, PIXEL_F32, PIXEL_NCHW, NULL), 0);
	for (int c = 0; c < 3; c++)
		for (int v = 0; v < 256; v++)
			assert_true(plan.table[c][v] == normalized((uint8_t)v, 0.5f, 0.5f));
	assert_int_equal(
		transform_compile(&plan, &l_source, steps, 4, PIXEL_F32, PIXEL_NCHW, NULL), 0);
	for (int v = 0; v < 256; v++) {
		volatile float x = normalized((uint8_t)v, 0.5f, 0.5f) - 0.1f;

		x = x / 0.3f;
		assert_true(plan.table[1][v] == x);
	}
}

/* One channel of pixel (y, x), different for all of them. */
static uint8_t sample(uint32_t y, uint32_t x, uint32_t c)
{
	return (uint8_t)(y * 37 + x * 11 + c * 101 + 5);
}

static float expected(const struct transform_plan *plan, uint32_t c, uint8_t v)
{
	static const float mean[3] = {0.1f, 0.2f, 0.3f}, std[3] = {0.4f, 0.5f, 0.6f};

	return plan->dtype == PIXEL_U8 ? v : normalized(v, mean[c], std[c]);
}

static void check_render(const struct transform_plan *plan)
{
	struct image image = IMAGE_NULL;
	size_t unit = plan->dtype == PIXEL_U8 ? 1 : sizeof(float);
	uint8_t *row = malloc(plan->row_bytes); /* exactly, for the sanitizer */

	assert_non_null(row);
	memset(row, 0xa5, plan->row_bytes);
	assert_int_equal(image_resize(&image, plan->width, plan->height, plan->decode_channels), 0);
	for (uint32_t y = 0; y < plan->height; y++)
		for (uint32_t x = 0; x < plan->width; x++)
			for (uint32_t c = 0; c < image.channels; c++)
				image.pixels[(y * plan->width + x) * image.channels + c] =
					sample(y, x, c);
	transform_render(plan, &no_key, &image, row);
	for (uint32_t y = 0; y < plan->height; y++)
		for (uint32_t x = 0; x < plan->width; x++)
			for (uint32_t c = 0; c < plan->channels; c++) {
				uint32_t planar = (c * plan->height + y) * plan->width + x;
				uint32_t interleaved = (y * plan->width + x) * plan->channels + c;
				size_t i = plan->layout == PIXEL_NCHW ? planar : interleaved;
				uint8_t v = sample(y, x, plan->decode_channels == 3 ? c : 0);
				float got;

				if (unit == 1)
					got = row[i];
				else
					memcpy(&got, row + i * unit, unit);
				assert_true(got == expected(plan, c, v));
			}
	image_finish(&image);
	free(row);
}

static void render_everything(void **state)
{
	static const uint32_t sizes[][2] = {{1, 1}, {5, 3}, {28, 28}, {67, 2}};
	static const struct transform_step repeat = GRAYSCALE(3);
	static const struct transform_step tensor[] = {
		TO_TENSOR, NORMALIZE(3, .mean = {0.1f, 0.2f, 0.3f}, .std = {0.4f, 0.5f, 0.6f})};
	static const struct transform_step tensor_l[] = {
		TO_TENSOR, NORMALIZE(1, .mean = {0.1f}, .std = {0.4f})};

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (int layout = PIXEL_NCHW; layout <= PIXEL_NHWC; layout++)
			for (int kind = 0; kind < 6; kind++) {
				/* kind: L, RGB, L as three; each as u8 and f32 */
				struct transform_source source = {.width = sizes[s][0],
					.height = sizes[s][1],
					.channels = kind % 3 == 0 ? 1 : 3};
				enum pixel_dtype dtype = kind < 3 ? PIXEL_U8 : PIXEL_F32;
				struct transform_step steps[3];
				struct transform_plan plan;
				size_t count = 0;

				if (kind % 3 == 2)
					steps[count++] = repeat;
				if (dtype == PIXEL_F32) {
					memcpy(steps + count, kind % 3 == 0 ? tensor_l : tensor,
						sizeof(tensor));
					count += 2;
				}
				assert_int_equal(transform_compile(&plan, &source, steps, count,
							 dtype, layout, NULL),
					0);
				check_render(&plan);
			}
}

/* A plan that crossed a socket: every change of one of its numbers must be noticed, unless it makes
 * another plan that could have been compiled. */
static void mutated_plans(void **state)
{
	static const struct transform_step steps[] = {GRAYSCALE(1), CROP(3, 5), TO_TENSOR};
	struct transform_plan plan, bad;

	(void)state;
	assert_int_equal(
		transform_compile(&plan, &rgb_source, steps, 3, PIXEL_F32, PIXEL_NCHW, NULL), 0);
	assert_true(transform_plan_valid(&plan));
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		bad = plan;                                                                        \
		bad.change;                                                                        \
		if (transform_plan_valid(&bad))                                                    \
			fail_msg("accepted: %s", #change);                                         \
	} while (0)
	REFUSED(width = 0);
	REFUSED(width = 6);
	REFUSED(width = UINT32_MAX);
	REFUSED(height = 0);
	REFUSED(height = 4);
	REFUSED(decode_flags = 4);
	REFUSED(max_pixels = 0);
	REFUSED(max_pixels = DECODE_MAX_PIXELS + 1);
	REFUSED(channels = 0);
	REFUSED(channels = 2);
	REFUSED(channels = 3); /* the row is too short for it */
	REFUSED(decode_channels = 0);
	REFUSED(decode_channels = 2);
	REFUSED(decode_channels = 3); /* three channels never become one */
	REFUSED(decode_channels = 4);
	REFUSED(dtype = 0);
	REFUSED(dtype = PIXEL_U8);
	REFUSED(dtype = 5);
	REFUSED(layout = 0);
	REFUSED(layout = 3);
	/* operations on the picture */
	REFUSED(op_count = 2);
	REFUSED(op_count = IMAGE_OPS_MAX + 1);
	REFUSED(image_channels = 3);
	REFUSED(ops[0].image.kind = 0);
	REFUSED(ops[0].image.width = 0);
	REFUSED(ops[0].image.height = IMAGE_OP_EDGE_MAX + 1);
	REFUSED(row_bytes = 0);
	REFUSED(row_bytes = plan.row_bytes - 1);
	REFUSED(row_bytes = plan.row_bytes + 1);
	REFUSED(row_bytes = UINT64_MAX);
#undef REFUSED
	/* width x height x channels x 4 is 0 in 64 bits */
	bad = plan;
	bad.width = bad.height = 0x80000000;
	bad.row_bytes = 0;
	assert_false(transform_plan_valid(&bad));
	memset(&bad, 0, sizeof(bad));
	assert_false(transform_plan_valid(&bad));
	memset(&bad, 0xff, sizeof(bad));
	assert_false(transform_plan_valid(&bad));
}

static void operations_are_bounded(void **state)
{
	struct transform_step steps[IMAGE_OPS_MAX + 1] = {CROP(2, 2)};
	struct transform_plan plan;
	struct error_text error;

	(void)state;
	for (int i = 1; i <= IMAGE_OPS_MAX; i++)
		steps[i] = steps[0];
	assert_int_equal(transform_compile(&plan, &rgb_source, steps, IMAGE_OPS_MAX, PIXEL_U8,
				 PIXEL_NCHW, &error),
		0);
	assert_int_equal(plan.width, 2);
	assert_true(transform_plan_valid(&plan));
	assert_int_equal(transform_compile(&plan, &rgb_source, steps, IMAGE_OPS_MAX + 1, PIXEL_U8,
				 PIXEL_NCHW, &error),
		TRANSFORM_REFUSED);
	assert_non_null(strstr(error.text, "more than 16 operations"));
}

/* A sample of another size is refused by the name of both sizes, unless the steps make one of them. */
static void sizes_of_samples(void **state)
{
	static const struct transform_step crop = CROP(2, 2);
	static const struct transform_step pad = PAD(1, 0);
	struct image_ops_buffers buffers = {.spare = IMAGE_NULL};
	struct image image = IMAGE_NULL;
	struct transform_plan plan;
	struct error_text error;

	(void)state;
	assert_int_equal(image_resize(&image, 6, 4, 3), 0);
	memset(image.pixels, 0, 72);
	assert_int_equal(
		transform_compile(&plan, &rgb_source, NULL, 0, PIXEL_U8, PIXEL_NCHW, NULL), 0);
	assert_int_equal(transform_apply(&plan, &no_key, &image, &buffers, &error), TRANSFORM_BAD);
	assert_non_null(strstr(error.text, "is 6x4, but the first sample is 5x3"));
	assert_non_null(strstr(error.text, "Resize(256), CenterCrop(224)"));

	assert_int_equal(
		transform_compile(&plan, &rgb_source, &pad, 1, PIXEL_U8, PIXEL_NCHW, NULL), 0);
	assert_int_equal(transform_apply(&plan, &no_key, &image, &buffers, &error), TRANSFORM_BAD);
	assert_non_null(strstr(error.text, "is 6x4 and the transforms make 6x4 of it, but 5x3"));

	assert_int_equal(
		transform_compile(&plan, &rgb_source, &crop, 1, PIXEL_U8, PIXEL_NCHW, NULL), 0);
	assert_int_equal(transform_apply(&plan, &no_key, &image, &buffers, &error), 0);
	assert_int_equal(image.width, 2);
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule),
		cmocka_unit_test(sizes_and_layouts),
		cmocka_unit_test(values_as_torch),
		cmocka_unit_test(every_value),
		cmocka_unit_test(render_everything),
		cmocka_unit_test(mutated_plans),
		cmocka_unit_test(operations_are_bounded),
		cmocka_unit_test(sizes_of_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
