/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/image_op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct image_op crop = {
	.kind = IMAGE_OP_CROP, .width = 3, .height = 2, .left = 1, .top = 0};
static const struct image_op rotation = {.kind = IMAGE_OP_ROTATE,
	.filter = RESAMPLE_BILINEAR,
	.expand = 1,
	.has_centre = 1,
	.centre_x = -2.5,
	.centre_y = 7,
	.angle = 400};
static const struct image_op affine = {.kind = IMAGE_OP_AFFINE,
	.filter = RESAMPLE_BICUBIC,
	.has_centre = 1,
	.centre_x = 1,
	.centre_y = 1,
	.angle = -30,
	.translate_x = -4,
	.translate_y = 4,
	.scale = 1.5,
	.shear_x = 10,
	.shear_y = -10};
static const struct image_op jitter = {.kind = IMAGE_OP_BRIGHTNESS, .factor = 1.5};
static const struct image_op blur = {
	.kind = IMAGE_OP_BLUR, .kernel_width = 3, .kernel_height = 255, .sigma = 0.5};

static bool valid(const struct image_op *op)
{
	uint32_t channels[] = {1, 3};

	for (int i = 0; i < 2; i++) {
		uint32_t kept = channels[i];

		if (!image_op_valid(op, &channels[i]))
			return false;
		assert_int_equal(channels[i], kept);
	}
	return true;
}

#define ACCEPTED(op, change)                                                                       \
	do {                                                                                       \
		struct image_op changed = op;                                                      \
                                                                                                   \
		changed.change;                                                                    \
		if (!valid(&changed))                                                              \
			fail_msg("refused: %s with %s", #op, #change);                             \
	} while (0)
#define REFUSED(op, change)                                                                        \
	do {                                                                                       \
		struct image_op changed = op;                                                      \
                                                                                                   \
		changed.change;                                                                    \
		if (valid(&changed))                                                               \
			fail_msg("accepted: %s with %s", #op, #change);                            \
	} while (0)
#define REFUSED_BEYOND(op, number, most)                                                           \
	do {                                                                                       \
		ACCEPTED(op, number = most);                                                       \
		ACCEPTED(op, number = -most);                                                      \
		REFUSED(op, number = most + 1);                                                    \
		REFUSED(op, number = -most - 1);                                                   \
	} while (0)
#define REFUSED_UNLESS_FINITE(op, number)                                                          \
	do {                                                                                       \
		REFUSED(op, number = NAN);                                                         \
		REFUSED(op, number = INFINITY);                                                    \
		REFUSED(op, number = -INFINITY);                                                   \
	} while (0)

static void numbers_of_crops(void **state)
{
	(void)state;
	ACCEPTED(crop, left = 0);
	ACCEPTED(crop, left = IMAGE_OP_PLACE_MAX);
	REFUSED(crop, left = IMAGE_OP_PLACE_MAX + 1);
	REFUSED(crop, top = UINT32_MAX);
	REFUSED(crop, width = 0);
	REFUSED(crop, height = 0);
	REFUSED(crop, width = IMAGE_OP_PLACE_MAX + 1);
	REFUSED(crop, height = UINT32_MAX);
}

static void numbers_of_rotations(void **state)
{
	(void)state;
	ACCEPTED(rotation, angle = -1e300);
	ACCEPTED(rotation, filter = RESAMPLE_NEAREST);
	ACCEPTED(rotation, filter = RESAMPLE_BICUBIC);
	REFUSED(rotation, filter = 0);
	REFUSED(rotation, filter = RESAMPLE_LANCZOS);
	REFUSED(rotation, filter = RESAMPLE_HAMMING);
	REFUSED(rotation, expand = 2);
	REFUSED(rotation, has_centre = 2);
	REFUSED_UNLESS_FINITE(rotation, angle);
	REFUSED_UNLESS_FINITE(rotation, centre_x);
	REFUSED_UNLESS_FINITE(rotation, centre_y);
	REFUSED_BEYOND(rotation, centre_x, IMAGE_OP_PLACE_MAX);
	REFUSED_BEYOND(rotation, centre_y, IMAGE_OP_PLACE_MAX);
}

static void numbers_of_affines(void **state)
{
	(void)state;
	ACCEPTED(affine, expand = 7); /* is not looked at */
	ACCEPTED(affine, shear_x = 90);
	ACCEPTED(affine, scale = IMAGE_OP_RATIO_MIN);
	ACCEPTED(affine, scale = IMAGE_OP_RATIO_MAX);
	REFUSED(affine, scale = 0);
	REFUSED(affine, scale = -1);
	REFUSED(affine, scale = IMAGE_OP_RATIO_MIN / 2);
	REFUSED(affine, scale = IMAGE_OP_RATIO_MAX * 2);
	REFUSED(affine, filter = RESAMPLE_BOX);
	REFUSED(affine, has_centre = UINT32_MAX);
	REFUSED(affine, translate_x = INT32_MIN);
	REFUSED(affine, translate_y = INT32_MAX);
	REFUSED_UNLESS_FINITE(affine, angle);
	REFUSED_UNLESS_FINITE(affine, scale);
	REFUSED_UNLESS_FINITE(affine, shear_x);
	REFUSED_UNLESS_FINITE(affine, shear_y);
	REFUSED_UNLESS_FINITE(affine, centre_x);
	REFUSED_BEYOND(affine, centre_y, IMAGE_OP_PLACE_MAX);
	REFUSED_BEYOND(affine, translate_x, IMAGE_OP_PLACE_MAX);
	REFUSED_BEYOND(affine, translate_y, IMAGE_OP_PLACE_MAX);
}

static void numbers_of_colours(void **state)
{
	(void)state;
	for (uint32_t kind = IMAGE_OP_BRIGHTNESS; kind <= IMAGE_OP_HUE; kind++) {
		struct image_op op = jitter;

		op.kind = kind;
		ACCEPTED(op, factor = 0);
		REFUSED_UNLESS_FINITE(op, factor);
		REFUSED_BEYOND(op, factor, (kind == IMAGE_OP_HUE ? 0.5 : IMAGE_OP_RATIO_MAX));
	}
	ACCEPTED(jitter, kind = IMAGE_OP_GREY);
	ACCEPTED(jitter, kind = IMAGE_OP_FLIP_HORIZONTAL);
	ACCEPTED(jitter, kind = IMAGE_OP_FLIP_VERTICAL);
	REFUSED(jitter, kind = 0);
	REFUSED(jitter, kind = IMAGE_OP_BLUR + 1);
}

static void numbers_of_blurs(void **state)
{
	(void)state;
	ACCEPTED(blur, kernel_width = 1);
	REFUSED(blur, kernel_width = 0);
	REFUSED(blur, kernel_width = 4);
	REFUSED(blur, kernel_height = IMAGE_OP_KERNEL_MAX + 2);
	REFUSED(blur, kernel_height = UINT32_MAX);
	ACCEPTED(blur, sigma = IMAGE_OP_RATIO_MIN);
	ACCEPTED(blur, sigma = IMAGE_OP_RATIO_MAX);
	REFUSED(blur, sigma = 0);
	REFUSED(blur, sigma = -1);
	REFUSED(blur, sigma = IMAGE_OP_RATIO_MIN / 2);
	REFUSED(blur, sigma = IMAGE_OP_RATIO_MAX * 2);
	REFUSED_UNLESS_FINITE(blur, sigma);
}

static void size_is(const struct image_op *op, uint32_t width, uint32_t height, uint32_t made_width,
	uint32_t made_height)
{
	assert_true(image_op_size(op, &width, &height));
	assert_int_equal(width, made_width);
	assert_int_equal(height, made_height);
}

static void sizes(void **state)
{
	struct image_op turn = {
		.kind = IMAGE_OP_ROTATE, .filter = RESAMPLE_NEAREST, .angle = 90, .expand = 1};
	uint32_t width = INT32_MAX, height = INT32_MAX;

	(void)state;
	size_is(&crop, 100, 1, 3, 2);
	size_is(&affine, 100, 50, 100, 50);
	size_is(&blur, 100, 50, 100, 50);
	size_is(&turn, 100, 50, 50, 100);
	turn.angle = 45;
	size_is(&turn, 100, 100, 142, 142);
	assert_false(image_op_size(&turn, &width, &height));
	turn.expand = 0;
	size_is(&turn, 100, 50, 100, 50);
}

/* Each operation, with the most and least of its numbers, on pictures of one pixel. */
static void extremes_do_no_harm(void **state)
{
	static const double places[] = {
		-IMAGE_OP_PLACE_MAX, -1e9 / 7, -0.0, 1e-300, 0.5, IMAGE_OP_PLACE_MAX};
	static const double angles[] = {-1e308, -90, -1e-300, 0, 89.9999999, 90, 1e308};
	static const double scales[] = {IMAGE_OP_RATIO_MIN, 1, IMAGE_OP_RATIO_MAX};
	struct image_ops_buffers buffers = {.spare = IMAGE_NULL};
	struct image image = IMAGE_NULL;

	(void)state;
	for (uint32_t i = 0; i < 6 * 7 * 7 * 3 * 3; i++) {
		struct image_op op = affine;
		uint32_t channels = i % 2 ? 1 : 3, width = 1 + i % 3, height = 1 + i % 5;

		op.filter = 1 + i % 3;
		op.scale = scales[i / 3 % 3];
		op.angle = angles[i / 9 % 7];
		op.shear_x = op.shear_y = angles[i / 63 % 7];
		op.centre_x = places[i / 441];
		op.centre_y = places[(i / 441 + i) % 6];
		op.translate_x = (int32_t)places[i % 6];
		assert_true(valid(&op));
		assert_int_equal(image_resize(&image, width, height, channels), 0);
		memset(image.pixels, 200, width * height * channels);
		assert_int_equal(image_ops_apply(&op, 1, width, height, &image, &buffers, NULL), 0);
		op.kind = IMAGE_OP_ROTATE;
		op.expand = i / 2 % 2;
		if (image_op_size(&op, &width, &height) && width < 100 && height < 100)
			assert_int_equal(
				image_ops_apply(&op, 1, width, height, &image, &buffers, NULL), 0);
	}
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_crops),
		cmocka_unit_test(numbers_of_rotations),
		cmocka_unit_test(numbers_of_affines),
		cmocka_unit_test(numbers_of_colours),
		cmocka_unit_test(numbers_of_blurs),
		cmocka_unit_test(sizes),
		cmocka_unit_test(extremes_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
