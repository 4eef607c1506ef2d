/* SPDX-License-Identifier: Apache-2.0 */
/* A random operation that crossed a socket: every number out of its range is noticed. */
#include "daemon/image/draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

static const struct random_op crop = {
	.kind = RANDOM_CROP, .width = 8, .height = 6, .mode = WINDOW_CONSTANT};

static const struct random_op resized_crop = {.kind = RANDOM_RESIZED_CROP,
	.width = 22,
	.height = 11,
	.filter = RESAMPLE_BICUBIC,
	.scale = {0.08, 1},
	.ratio = {3. / 4, 4. / 3}};

static void numbers_out_of_range(void **state)
{
	const struct random_op affine = {.kind = RANDOM_AFFINE,
		.filter = RESAMPLE_NEAREST,
		.scale = {1, 1},
		.degrees = {-1, 1}};
	const struct random_op jittered = {.kind = RANDOM_COLOUR_JITTER, .jitter = 15};
	const struct random_op blurred = {
		.kind = RANDOM_BLUR, .kernel_width = 3, .kernel_height = 3, .sigma = {1, 1}};
	const struct random_op flip = {.kind = RANDOM_FLIP_VERTICAL, .p = 0.5};
	const struct random_op erase = {
		.kind = RANDOM_ERASING, .p = 0.5, .scale = {0, 1}, .ratio = {1, 1}, .values = 3};
	struct random_op bad;

	(void)state;
#define REFUSED(good, change)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		assert_true(random_op_valid(&bad, 3));                                             \
		bad.change;                                                                        \
		if (random_op_valid(&bad, 3))                                                      \
			fail_msg("accepted: %s of %s", #change, #good);                            \
	} while (0)
	REFUSED(crop, width = 0);
	REFUSED(crop, height = 65536);
	REFUSED(crop, left = 65536);
	REFUSED(crop, bottom = UINT32_MAX);
	REFUSED(crop, mode = 0);
	REFUSED(crop, mode = 5);
	REFUSED(crop, pad_if_needed = 2);
	REFUSED(crop, transform = 32);
	REFUSED(crop, kind = 0);
	REFUSED(crop, kind = 11);
	REFUSED(resized_crop, width = 0);
	REFUSED(resized_crop, filter = 7);
	REFUSED(resized_crop, scale[0] = -0.1);
	REFUSED(resized_crop, scale[0] = 2);
	REFUSED(resized_crop, scale[1] = INFINITY);
	REFUSED(resized_crop, ratio[0] = 0);
	REFUSED(resized_crop, ratio[1] = NAN);
	REFUSED(flip, p = -0.1);
	REFUSED(flip, p = 1.1);
	REFUSED(flip, p = NAN);
	REFUSED(affine, degrees[0] = 2);
	REFUSED(affine, degrees[1] = INFINITY);
	REFUSED(affine, translate[0] = 1.5);
	REFUSED(affine, translate[1] = NAN);
	REFUSED(affine, scale[0] = 0);
	REFUSED(affine, shear_x[0] = 1);
	REFUSED(affine, shear_y[1] = NAN);
	REFUSED(affine, filter = RESAMPLE_LANCZOS);
	REFUSED(affine, has_centre = 2);
	REFUSED(affine, centre_x = 1e30);
	REFUSED(affine, centre_y = NAN);
	REFUSED(jittered, jitter = 16);
	REFUSED(jittered, brightness[0] = -1);
	REFUSED(jittered, contrast[1] = -1);
	REFUSED(jittered, saturation[0] = 1);
	REFUSED(jittered, hue[0] = -0.6);
	REFUSED(jittered, hue[1] = 0.6);
	REFUSED(blurred, kernel_width = 2);
	REFUSED(blurred, kernel_height = 257);
	REFUSED(blurred, sigma[0] = 0);
	REFUSED(blurred, sigma[1] = NAN);
	REFUSED(erase, values = 2);
	REFUSED(erase, values = 0);
	REFUSED(erase, random_value = 2);
	REFUSED(erase, scale[1] = 1.1);
	REFUSED(erase, ratio[0] = 0);
	REFUSED(erase, value[2] = NAN);
	REFUSED(erase, value[0] = 1e39);
	REFUSED(erase, p = 2);
#undef REFUSED
	assert_true(random_op_valid(&erase, 3));
	assert_false(random_op_valid(&erase, 1));
}

static void names(void **state)
{
	(void)state;
	for (uint32_t kind = RANDOM_CROP; kind <= RANDOM_ERASING; kind++)
		assert_non_null(random_op_name(kind));
	assert_null(random_op_name(0));
	assert_null(random_op_name(11));
	assert_null(random_op_name(UINT32_MAX));
	assert_string_equal(random_op_name(RANDOM_COLOUR_JITTER), "ColorJitter");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_out_of_range),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
