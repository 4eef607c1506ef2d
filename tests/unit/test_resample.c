/* SPDX-License-Identifier: Apache-2.0 */
/* What Pillow 9.4 answers, and the limits. test_transforms.py has many more sizes. */
#include "daemon/image/op/image_op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* clang-format off */
static const uint8_t pixels[3][4] = {{0, 255, 10, 200}, {255, 0, 99, 3}, {7, 77, 250, 128}};

static const struct golden {
	enum resample_filter filter;
	uint32_t width, height;
	uint8_t pixels[15];
} goldens[] = {
	{RESAMPLE_NEAREST, 2, 2, {255, 200, 77, 128}},
	{RESAMPLE_NEAREST, 7, 2, {0, 0, 255, 255, 10, 200, 200, 7, 7, 77, 77, 250, 128, 128}},
	{RESAMPLE_NEAREST, 3, 5, {0, 10, 200, 0, 10, 200, 255, 99, 3, 7, 250, 128, 7, 250, 128}},
	{RESAMPLE_BILINEAR, 2, 2, {116, 95, 91, 125}},
	{RESAMPLE_BILINEAR, 7, 2, {96, 118, 155, 102, 50, 96, 126, 100, 82, 52, 121, 185, 121, 81}},
	{RESAMPLE_BILINEAR, 3, 5, {76, 133, 143, 117, 100, 99, 179, 50, 32, 88, 118, 112, 28, 164, 165}},
	{RESAMPLE_BICUBIC, 2, 2, {120, 90, 87, 128}},
	{RESAMPLE_BICUBIC, 7, 2, {99, 123, 164, 98, 35, 94, 135, 100, 79, 38, 125, 200, 120, 68}},
	{RESAMPLE_BICUBIC, 3, 5, {69, 142, 147, 123, 97, 95, 186, 44, 32, 79, 122, 116, 1, 180, 178}},
	{RESAMPLE_LANCZOS, 2, 2, {120, 86, 90, 125}},
	{RESAMPLE_LANCZOS, 7, 2, {106, 133, 164, 90, 30, 85, 143, 110, 73, 28, 126, 203, 124, 54}},
	{RESAMPLE_LANCZOS, 3, 5, {73, 152, 140, 138, 91, 84, 182, 40, 40, 73, 121, 121, 0, 194, 191}},
	{RESAMPLE_BOX, 2, 2, {128, 78, 42, 189}},
	{RESAMPLE_BOX, 7, 2, {128, 128, 128, 55, 55, 102, 102, 7, 7, 77, 250, 250, 128, 128}},
	{RESAMPLE_BOX, 3, 5, {0, 133, 200, 0, 133, 200, 255, 50, 3, 7, 164, 128, 7, 164, 128}},
	{RESAMPLE_HAMMING, 2, 2, {124, 94, 71, 147}},
	{RESAMPLE_HAMMING, 7, 2, {71, 94, 183, 110, 35, 123, 145, 76, 71, 56, 132, 207, 117, 93}},
	{RESAMPLE_HAMMING, 3, 5, {39, 133, 171, 89, 110, 128, 216, 50, 18, 73, 132, 111, 18, 164, 147}},
};
/* clang-format on */

static struct image make_image(uint32_t width, uint32_t height, uint32_t channels)
{
	struct image image = IMAGE_NULL;

	assert_int_equal(image_resize(&image, width, height, channels), 0);
	memset(image.pixels, 99, (size_t)width * height * channels);
	return image;
}

/* The golden picture in each channel; in green its negative. */
static struct image make_golden(uint32_t channels)
{
	struct image image = make_image(4, 3, channels);

	for (uint32_t i = 0; i < 12; i++)
		for (uint32_t c = 0; c < channels; c++)
			image.pixels[i * channels + c] =
				c == 1 ? 255 - pixels[i / 4][i % 4] : pixels[i / 4][i % 4];
	return image;
}

static void pillows_pixels(void **state)
{
	struct resampler resampler = {.rows = NULL};
	struct image in = make_golden(1), out = IMAGE_NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		const struct golden *golden = &goldens[i];
		struct resample_region all = {0, 0, golden->width, golden->height};
		size_t size = (size_t)golden->width * golden->height;

		assert_int_equal(resample(&resampler, &in, golden->width, golden->height,
					 golden->filter, &all, &out),
			0);
		if (memcmp(out.pixels, golden->pixels, size) != 0)
			fail_msg("filter %d, %ux%u", golden->filter, golden->width, golden->height);
	}
	resampler_finish(&resampler);
	image_finish(&in);
	image_finish(&out);
}

/* Each channel on its own, and each part as in the whole. */
static void channels_and_regions(void **state)
{
	struct resampler resampler = {.rows = NULL};
	struct image rgb = make_golden(3), l = make_golden(1), out = IMAGE_NULL, part = IMAGE_NULL;
	struct resample_region all = {0, 0, 7, 5}, some = {2, 1, 4, 3};

	(void)state;
	for (enum resample_filter filter = RESAMPLE_NEAREST; filter <= RESAMPLE_HAMMING; filter++) {
		assert_int_equal(resample(&resampler, &rgb, 7, 5, filter, &all, &out), 0);
		assert_int_equal(resample(&resampler, &rgb, 7, 5, filter, &some, &part), 0);
		assert_int_equal(part.width, 4);
		assert_int_equal(part.height, 3);
		for (uint32_t y = 0; y < 3; y++)
			assert_memory_equal(part.pixels + (size_t)y * 12,
				out.pixels + ((size_t)(y + 1) * 7 + 2) * 3, 12);
		assert_int_equal(resample(&resampler, &l, 7, 5, filter, &all, &part), 0);
		for (uint32_t i = 0; i < 35; i++)
			assert_true(out.pixels[3 * i] == part.pixels[i] &&
				    out.pixels[3 * i + 2] == part.pixels[i]);
	}
	resampler_finish(&resampler);
	image_finish(&rgb);
	image_finish(&l);
	image_finish(&out);
	image_finish(&part);
}

static void an_even_colour_stays(void **state)
{
	static const uint32_t edges[] = {1, 2, 3, 17, 200, 1000};
	struct resampler resampler = {.rows = NULL};
	struct image out = IMAGE_NULL;

	(void)state;
	for (size_t i = 0; i < 6; i++)
		for (size_t o = 0; o < 6; o++)
			for (enum resample_filter filter = RESAMPLE_NEAREST;
				filter <= RESAMPLE_HAMMING; filter++) {
				struct image in = make_image(edges[i], edges[5 - i], 1);
				struct resample_region all = {0, 0, edges[o], 3};

				assert_int_equal(
					resample(&resampler, &in, edges[o], 3, filter, &all, &out),
					0);
				for (uint32_t p = 0; p < edges[o] * 3; p++)
					assert_int_equal(out.pixels[p], 99);
				image_finish(&in);
			}
	resampler_finish(&resampler);
	image_finish(&out);
}

/* Memory is refused, not taken. */
static void limits(void **state)
{
	struct resampler resampler = {.rows = NULL};
	struct image wide = make_image(1 << 20, 1, 1), tall = make_image(1, 1 << 20, 1);
	struct image out = IMAGE_NULL;
	struct resample_region small = {0, 0, 8, 8}, broad = {0, 0, 1000, 1};

	(void)state;
	assert_int_equal(resample(&resampler, &wide, 8, 8, RESAMPLE_LANCZOS, &small, &out),
		RESAMPLE_TOO_LARGE);
	assert_int_equal(resample(&resampler, &tall, 8, 8, RESAMPLE_LANCZOS, &small, &out),
		RESAMPLE_TOO_LARGE);
	tall.height = 400000; /* weights fit; 400000 rows of 1000 bytes between the passes do not */
	assert_int_equal(resample(&resampler, &tall, 1000, 1, RESAMPLE_BILINEAR, &broad, &out),
		RESAMPLE_TOO_LARGE);
	assert_int_equal(resample(&resampler, &wide, 8, 8, RESAMPLE_NEAREST, &small, &out), 0);
	assert_int_equal(out.pixels[63], 99);
	resampler_finish(&resampler);
	image_finish(&wide);
	image_finish(&tall);
	image_finish(&out);
}

/* ---- operations on images ---- */

static void sizes_are_torchvisions(void **state)
{
	static const struct {
		uint32_t shorter, longer_max, width, height, new_width, new_height;
	} cases[] = {
		{256, 0, 500, 375, 341, 256},
		{256, 0, 375, 500, 256, 341},
		{256, 0, 7, 7, 256, 256},
		{1, 0, 1, 3, 1, 3},
		{100, 150, 10, 30, 50, 150},
		{100, 300, 10, 30, 100, 300},
		{100, 101, 1, 30, 3, 101},
		{2, 3, 1, 1000, 0, 0}, /* max_size leaves nothing of the shorter edge */
		{65535, 0, 1, 1000000, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct image_op op = {.kind = IMAGE_OP_RESIZE_SHORTER,
			.filter = RESAMPLE_BOX,
			.shorter = cases[i].shorter,
			.longer_max = cases[i].longer_max};
		uint32_t width = cases[i].width, height = cases[i].height, channels = 3;

		assert_true(image_op_valid(&op, &channels));
		assert_int_equal(image_op_size(&op, &width, &height), cases[i].new_width != 0);
		if (cases[i].new_width != 0) {
			assert_int_equal(width, cases[i].new_width);
			assert_int_equal(height, cases[i].new_height);
		}
	}
}

static void ranges(void **state)
{
	static const struct {
		struct image_op op;
		uint32_t channels;
		bool valid;
	} cases[] = {
		{{.kind = 0}, 3, false},
		{{.kind = 7}, 3, false},
		{{.kind = IMAGE_OP_RESIZE, .filter = 1, .width = 1, .height = 65535}, 3, true},
		{{.kind = IMAGE_OP_RESIZE, .filter = 0, .width = 1, .height = 1}, 3, false},
		{{.kind = IMAGE_OP_RESIZE, .filter = 7, .width = 1, .height = 1}, 3, false},
		{{.kind = IMAGE_OP_RESIZE, .filter = 6, .width = 0, .height = 1}, 3, false},
		{{.kind = IMAGE_OP_RESIZE, .filter = 6, .width = 1, .height = 65536}, 3, false},
		{{.kind = IMAGE_OP_RESIZE_SHORTER, .filter = 6, .shorter = 65534}, 1, true},
		{{.kind = IMAGE_OP_RESIZE_SHORTER, .filter = 6, .shorter = 0}, 1, false},
		{{.kind = IMAGE_OP_RESIZE_SHORTER, .filter = 6, .shorter = 5, .longer_max = 5}, 1,
			false},
		{{.kind = IMAGE_OP_CENTER_CROP, .width = 1, .height = 1}, 1, true},
		{{.kind = IMAGE_OP_CENTER_CROP, .width = 1, .height = 0}, 1, false},
		{{.kind = IMAGE_OP_PAD, .mode = WINDOW_EDGE}, 1, true},
		{{.kind = IMAGE_OP_PAD, .mode = 0}, 1, false},
		{{.kind = IMAGE_OP_PAD, .mode = 5}, 1, false},
		{{.kind = IMAGE_OP_PAD, .mode = 1, .bottom = 65536}, 1, false},
		{{.kind = IMAGE_OP_TO_L}, 3, true},
		{{.kind = IMAGE_OP_TO_L}, 1, false},
		{{.kind = IMAGE_OP_TO_RGB}, 1, true},
		{{.kind = IMAGE_OP_TO_RGB}, 3, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t channels = cases[i].channels;

		if (image_op_valid(&cases[i].op, &channels) != cases[i].valid)
			fail_msg("case %zu", i);
	}
}

static void intermediate_pictures_are_bounded(void **state)
{
	static const struct image_op ops[] = {
		{.kind = IMAGE_OP_RESIZE, .filter = RESAMPLE_BOX, .width = 4000, .height = 4000},
		{.kind = IMAGE_OP_PAD, .mode = WINDOW_CONSTANT},
		{.kind = IMAGE_OP_CENTER_CROP, .width = 2, .height = 2},
	};
	struct image_ops_buffers buffers = {.spare = IMAGE_NULL};
	struct image image = make_image(5, 5, 1);
	struct error_text error;

	(void)state;
	assert_int_equal(image_ops_apply(ops, 3, 2, 2, &image, &buffers, &error), IMAGE_OPS_BAD);
	assert_non_null(strstr(error.text, "is 5x5, and making 4000x4000 of it"));
	/* as large as the output may be */
	assert_int_equal(image_ops_apply(ops, 2, 4000, 4000, &image, &buffers, &error), 0);
	assert_int_equal(image.width, 4000);
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
}

/* What is usual with a large photograph: padded, or turned and grown, and then made small. */
static void large_pictures_may_grow(void **state)
{
	static const struct image_op ops[] = {
		{.kind = IMAGE_OP_PAD,
			.left = 4,
			.top = 4,
			.right = 4,
			.bottom = 4,
			.mode = WINDOW_CONSTANT},
		{.kind = IMAGE_OP_ROTATE, .filter = RESAMPLE_NEAREST, .angle = 45, .expand = 1},
		{.kind = IMAGE_OP_CENTER_CROP, .width = 2, .height = 2},
	};
	struct image_ops_buffers buffers = {.spare = IMAGE_NULL};
	struct image image = make_image(4000, 3000, 1);
	struct error_text error;

	(void)state;
	assert_int_equal(image_ops_apply(ops, 3, 2, 2, &image, &buffers, &error), 0);
	assert_int_equal(image.width, 2);
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pillows_pixels),
		cmocka_unit_test(channels_and_regions),
		cmocka_unit_test(an_even_colour_stays),
		cmocka_unit_test(limits),
		cmocka_unit_test(sizes_are_torchvisions),
		cmocka_unit_test(ranges),
		cmocka_unit_test(intermediate_pictures_are_bounded),
		cmocka_unit_test(large_pictures_may_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
