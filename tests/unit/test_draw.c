/* SPDX-License-Identifier: Apache-2.0 */
/* What is drawn for a sample: torchvision's edge cases, ranges and distributions. That the latter are
 * torchvision's own is for test_random_transforms.py. */
#include "daemon/image/draw.h"

#include "tests/unit/statistics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

enum { DRAWS = 20000 };

static struct drawn drawn_for(
	const struct random_op *op, uint64_t sample, uint32_t width, uint32_t height)
{
	const struct random_key key = {.seed = 1, .epoch = 2, .sample = sample};
	struct error_text error = {""};
	struct drawn drawn;

	assert_true(random_op_valid(op, 3));
	if (draw(op, &key, width, height, &drawn, &error) != 0)
		fail_msg("%s", error.text);
	assert_true(drawn.parameters[0] == op->kind);
	return drawn;
}

static void check_refused(
	const struct random_op *op, uint32_t width, uint32_t height, const char *says)
{
	const struct random_key key = {.seed = 1};
	struct error_text error = {""};
	struct drawn drawn;

	assert_int_equal(draw(op, &key, width, height, &drawn, &error), DRAW_BAD);
	if (strstr(error.text, says) == NULL)
		fail_msg("no \"%s\" in: %s", says, error.text);
}

static void check_crop(
	const struct image_op *op, uint32_t left, uint32_t top, uint32_t width, uint32_t height)
{
	assert_int_equal(op->kind, IMAGE_OP_CROP);
	assert_int_equal(op->left, left);
	assert_int_equal(op->top, top);
	assert_int_equal(op->width, width);
	assert_int_equal(op->height, height);
}

static const struct random_op crop = {
	.kind = RANDOM_CROP, .width = 8, .height = 6, .mode = WINDOW_CONSTANT};

static void a_crop_falls_anywhere(void **state)
{
	unsigned places[5 * 3] = {0};

	(void)state;
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct drawn drawn = drawn_for(&crop, i, 12, 8);
		uint32_t top = (uint32_t)drawn.parameters[1], left = (uint32_t)drawn.parameters[2];

		assert_int_equal(drawn.count, 1);
		check_crop(&drawn.ops[0], left, top, 8, 6);
		assert_true(drawn.parameters[3] == 6 && drawn.parameters[4] == 8);
		assert_true(isnan(drawn.parameters[5]));
		places[top * 5 + left]++;
	}
	assert_true(chi_square(places, 15, DRAWS) < chi_square_bound(15));
}

static void crops_that_fit_and_do_not(void **state)
{
	struct random_op padded = crop;
	struct drawn drawn = drawn_for(&crop, 0, 8, 6);

	(void)state;
	check_crop(&drawn.ops[0], 0, 0, 8, 6);
	check_refused(&crop, 7, 6, "is 7x6 where RandomCrop takes 8x6 of it");
	check_refused(&crop, 8, 5, "pad_if_needed=True");
	padded.left = 1;
	drawn = drawn_for(&padded, 0, 7, 6);
	assert_int_equal(drawn.count, 2);
	assert_int_equal(drawn.ops[0].kind, IMAGE_OP_PAD);
	assert_int_equal(drawn.ops[0].left, 1);
	assert_int_equal(drawn.ops[0].right, 0);
	check_crop(&drawn.ops[1], 0, 0, 8, 6);
	check_refused(&padded, 6, 6, "is 7x6");
}

/* What is missing is added on both sides. */
static void padding_if_needed(void **state)
{
	struct random_op padded = crop;
	unsigned tops[5] = {0}, lefts[4] = {0};

	(void)state;
	padded.pad_if_needed = 1;
	padded.top = 1;
	memset(padded.fill, 9, 3);
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct drawn drawn = drawn_for(&padded, i, 5, 1);

		assert_int_equal(drawn.count, 4);
		assert_int_equal(drawn.ops[0].top, 1);
		assert_int_equal(drawn.ops[1].left, 3);
		assert_int_equal(drawn.ops[1].right, 3);
		assert_int_equal(drawn.ops[1].top, 0);
		assert_int_equal(drawn.ops[2].top, 4);
		assert_int_equal(drawn.ops[2].bottom, 4);
		assert_int_equal(drawn.ops[2].fill[2], 9);
		tops[drawn.ops[3].top]++;
		lefts[drawn.ops[3].left]++;
	}
	assert_true(chi_square(tops, 5, DRAWS) < chi_square_bound(5));
	assert_true(chi_square(lefts, 4, DRAWS) < chi_square_bound(4));
}

static const struct random_op resized_crop = {.kind = RANDOM_RESIZED_CROP,
	.width = 22,
	.height = 11,
	.filter = RESAMPLE_BICUBIC,
	.scale = {0.08, 1},
	.ratio = {3. / 4, 4. / 3}};

static void resized_crops(void **state)
{
	static double areas[DRAWS], ratios[DRAWS];
	struct random_op op = resized_crop;

	(void)state;
	/* of a picture so large that rounding does not count, and all crops fit */
	op.scale[1] = 0.5;
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct drawn drawn = drawn_for(&op, i, 40000, 40000);
		double height = drawn.parameters[3], width = drawn.parameters[4];

		assert_int_equal(drawn.count, 2);
		check_crop(&drawn.ops[0], (uint32_t)drawn.parameters[2],
			(uint32_t)drawn.parameters[1], (uint32_t)width, (uint32_t)height);
		assert_true(drawn.ops[0].left + width <= 40000);
		assert_true(drawn.ops[0].top + height <= 40000);
		assert_int_equal(drawn.ops[1].kind, IMAGE_OP_RESIZE);
		assert_int_equal(drawn.ops[1].width, 22);
		assert_int_equal(drawn.ops[1].height, 11);
		assert_int_equal(drawn.ops[1].filter, RESAMPLE_BICUBIC);
		areas[i] = (width * height / 1.6e9 - 0.08) / (0.5 - 0.08);
		ratios[i] = (log(width / height) - log(3. / 4)) / (log(4. / 3) - log(3. / 4));
	}
	assert_true(kolmogorov_smirnov(areas, DRAWS) < KOLMOGOROV_SMIRNOV_BOUND);
	assert_true(kolmogorov_smirnov(ratios, DRAWS) < KOLMOGOROV_SMIRNOV_BOUND);
}

/* No crop of this area fits: the largest in the middle that keeps to the ratio, rounded as Python
 * rounds. */
static void central_crops(void **state)
{
	static const struct {
		uint32_t width, height, crop[4]; /* left, top, width, height */
		double ratio[2];
	} cases[] = {
		{10, 10, {0, 0, 10, 10}, {3. / 4, 4. / 3}},
		{100, 10, {45, 0, 10, 10}, {1, 1}},
		{100, 10, {43, 0, 13, 10}, {3. / 4, 4. / 3}},
		{10, 101, {0, 44, 10, 13}, {3. / 4, 4. / 3}},
		{50, 5, {24, 0, 2, 5}, {0.5, 0.5}}, /* 2.5 */
		{50, 7, {23, 0, 4, 7}, {0.5, 0.5}}, /* 3.5 */
		{5, 50, {0, 24, 5, 2}, {2, 2}},     /* 2.5 */
		{7, 50, {0, 23, 7, 4}, {2, 2}},     /* 3.5 */
		{1, 1, {0, 0, 1, 1}, {0.5, 2}},
	};
	struct random_op op = resized_crop;

	(void)state;
	op.scale[0] = op.scale[1] = 1000;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint32_t *wanted = cases[i].crop;
		struct drawn drawn;

		memcpy(op.ratio, cases[i].ratio, sizeof(op.ratio));
		drawn = drawn_for(&op, i, cases[i].width, cases[i].height);
		check_crop(&drawn.ops[0], wanted[0], wanted[1], wanted[2], wanted[3]);
	}
	op.ratio[0] = op.ratio[1] = 1e5;
	check_refused(&op, 5, 500, "no part of it has a ratio");
	op.ratio[0] = op.ratio[1] = 1e-5;
	check_refused(&op, 500, 5, "is 500x5");
	/* nothing is drawn of no area either */
	op = resized_crop;
	op.scale[0] = op.scale[1] = 0;
	check_crop(&drawn_for(&op, 0, 9, 9).ops[0], 0, 0, 9, 9);
}

static void chances(void **state)
{
	static const struct {
		uint32_t kind, makes;
	} kinds[] = {{RANDOM_FLIP_HORIZONTAL, IMAGE_OP_FLIP_HORIZONTAL},
		{RANDOM_FLIP_VERTICAL, IMAGE_OP_FLIP_VERTICAL}, {RANDOM_GREY, IMAGE_OP_GREY}};
	static const double chances[] = {0, 0.1, 0.5, 1};

	(void)state;
	for (int k = 0; k < 3; k++) {
		for (int p = 0; p < 4; p++) {
			struct random_op op = {
				.kind = kinds[k].kind, .transform = (uint32_t)k, .p = chances[p]};
			double most = 4 * sqrt(DRAWS * chances[p] * (1 - chances[p]));
			unsigned done = 0;

			for (uint64_t i = 0; i < DRAWS; i++) {
				struct drawn drawn = drawn_for(&op, i, 5, 5);

				assert_true(drawn.parameters[1] == (double)drawn.count);
				done += drawn.count == 1;
				if (drawn.count == 1)
					assert_int_equal(drawn.ops[0].kind, kinds[k].makes);
			}
			assert_true(fabs(done - DRAWS * chances[p]) <= most);
		}
	}
}

static void check_uniform(double *values, double least, double most)
{
	for (int i = 0; i < DRAWS; i++) {
		assert_true(values[i] >= least && values[i] < most);
		values[i] = (values[i] - least) / (most - least);
	}
	assert_true(kolmogorov_smirnov(values, DRAWS) < KOLMOGOROV_SMIRNOV_BOUND);
}

static void turns(void **state)
{
	static const struct random_op rotation = {.kind = RANDOM_ROTATION,
		.filter = RESAMPLE_BILINEAR,
		.degrees = {-30, 70},
		.expand = 1,
		.has_centre = 1,
		.centre_x = 4,
		.fill = {1, 2, 3}};
	static const struct random_op affine = {.kind = RANDOM_AFFINE,
		.filter = RESAMPLE_NEAREST,
		.degrees = {5, 6},
		.translate = {0.1, 0.5},
		.scale = {0.5, 2},
		.shear_x = {-9, 9},
		.shear_y = {1, 2}};
	static double angles[DRAWS], scales[DRAWS], shears[2][DRAWS];
	unsigned lefts[21] = {0};

	(void)state;
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct drawn drawn = drawn_for(&rotation, i, 50, 50);
		const struct image_op *op = &drawn.ops[0];

		assert_int_equal(op->kind, IMAGE_OP_ROTATE);
		assert_true(op->expand && op->has_centre && op->centre_x == 4);
		assert_int_equal(op->fill[2], 3);
		assert_int_equal(op->filter, RESAMPLE_BILINEAR);
		assert_true(op->angle == drawn.parameters[1]);
		angles[i] = op->angle;

		drawn = drawn_for(&affine, i, 100, 4);
		assert_int_equal(op->kind, IMAGE_OP_AFFINE);
		assert_true(op->angle >= 5 && op->angle < 6 && op->angle == drawn.parameters[1]);
		assert_true(op->translate_x == drawn.parameters[2] && abs(op->translate_x) <= 10);
		assert_true(op->translate_y == drawn.parameters[3] && abs(op->translate_y) <= 2);
		lefts[op->translate_x + 10]++;
		scales[i] = op->scale;
		shears[0][i] = op->shear_x;
		shears[1][i] = op->shear_y;
		assert_true(op->scale == drawn.parameters[4]);
		assert_true(op->shear_x == drawn.parameters[5]);
		assert_true(op->shear_y == drawn.parameters[6]);
	}
	check_uniform(angles, -30, 70);
	check_uniform(scales, 0.5, 2);
	check_uniform(shears[0], -9, 9);
	check_uniform(shears[1], 1, 2);
	/* rounding leaves half as much for each of the outermost: together they are one more */
	lefts[0] += lefts[20];
	assert_true(chi_square(lefts, 20, DRAWS) < chi_square_bound(20));
}

/* Which of 24 orders. */
static unsigned order_of(const double *order)
{
	unsigned rank = 0;

	for (int i = 0; i < 4; i++) {
		unsigned smaller = 0;

		for (int k = i + 1; k < 4; k++)
			smaller += order[k] < order[i];
		rank = rank * (unsigned)(4 - i) + smaller;
	}
	return rank;
}

static void jitter(void **state)
{
	struct random_op op = {.kind = RANDOM_COLOUR_JITTER,
		.jitter = JITTER_BRIGHTNESS | JITTER_CONTRAST | JITTER_SATURATION | JITTER_HUE,
		.brightness = {0.5, 1.5},
		.contrast = {0, 2},
		.saturation = {1, 3},
		.hue = {-0.5, 0.25}};
	static double factors[4][DRAWS];
	unsigned orders[24] = {0};

	(void)state;
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct drawn drawn = drawn_for(&op, i, 5, 5);

		assert_int_equal(drawn.count, 4);
		orders[order_of(drawn.parameters + 1)]++;
		for (int k = 0; k < 4; k++) {
			int which = (int)drawn.parameters[1 + k];

			assert_int_equal(drawn.ops[k].kind, IMAGE_OP_BRIGHTNESS + which);
			assert_true(drawn.ops[k].factor == drawn.parameters[5 + which]);
			factors[k][i] = drawn.parameters[5 + k];
		}
	}
	assert_true(chi_square(orders, 24, DRAWS) < chi_square_bound(24));
	check_uniform(factors[0], 0.5, 1.5);
	check_uniform(factors[1], 0, 2);
	check_uniform(factors[2], 1, 3);
	check_uniform(factors[3], -0.5, 0.25);
}

static void jitter_of_some(void **state)
{
	struct random_op all = {.kind = RANDOM_COLOUR_JITTER,
		.jitter = 15,
		.brightness = {0.5, 1.5},
		.contrast = {0, 2},
		.saturation = {1, 3},
		.hue = {-0.5, 0.25}};

	(void)state;
	for (uint32_t bits = 0; bits < 15; bits++) {
		struct random_op some = all;
		struct drawn one, other;

		some.jitter = bits;
		one = drawn_for(&all, bits, 5, 5);
		other = drawn_for(&some, bits, 5, 5);
		assert_int_equal(other.count, __builtin_popcount(bits));
		assert_memory_equal(one.parameters + 1, other.parameters + 1, 4 * sizeof(double));
		for (int i = 0; i < 4; i++)
			assert_true(bits >> i & 1 ? one.parameters[5 + i] == other.parameters[5 + i]
						  : isnan(other.parameters[5 + i]));
	}
}

static void blurs(void **state)
{
	static const struct random_op op = {
		.kind = RANDOM_BLUR, .kernel_width = 5, .kernel_height = 3, .sigma = {0.1, 2}};
	static double sigmas[DRAWS];

	(void)state;
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct drawn drawn = drawn_for(&op, i, 9, 9);

		assert_int_equal(drawn.ops[0].kind, IMAGE_OP_BLUR);
		assert_int_equal(drawn.ops[0].kernel_width, 5);
		assert_int_equal(drawn.ops[0].kernel_height, 3);
		assert_true(drawn.ops[0].sigma == drawn.parameters[1]);
		sigmas[i] = drawn.parameters[1];
	}
	check_uniform(sigmas, 0.1, 2);
}

static struct erased_region erased(
	const struct random_op *op, uint64_t sample, double parameters[DRAWN_PARAMETERS])
{
	const struct random_key key = {.seed = 1, .epoch = 2, .sample = sample};
	struct random_source source = random_source_of(&key, op->transform);

	assert_true(random_op_valid(op, 3));
	return draw_erasing(op, &source, 40, 30, parameters);
}

static void erasing(void **state)
{
	struct random_op op = {.kind = RANDOM_ERASING,
		.p = 0.25,
		.scale = {0.02, 0.33},
		.ratio = {0.3, 3.3},
		.values = 1};
	double parameters[DRAWN_PARAMETERS];
	unsigned done = 0;

	(void)state;
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct erased_region region = erased(&op, i, parameters);
		bool is_erased = parameters[1] == 1;

		assert_true(region.width < 40 && region.left + region.width <= 40);
		assert_true(region.height < 30 && region.top + region.height <= 30);
		assert_true(is_erased ? parameters[2] == region.top : isnan(parameters[2]));
		assert_true(is_erased ? parameters[5] == region.width : isnan(parameters[5]));
		assert_true(is_erased == (region.width > 0));
		done += is_erased;
	}
	assert_true(fabs(done - DRAWS * 0.25) < 4 * sqrt(DRAWS * 0.25 * 0.75));
	/* the whole picture is no rectangle in it, in ten tries */
	op = (struct random_op){.kind = RANDOM_ERASING,
		.p = 1,
		.scale = {1, 1},
		.ratio = {0.75, 0.75},
		.values = 1};
	assert_int_equal(erased(&op, 3, parameters).width, 0);
	assert_true(parameters[1] == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_crop_falls_anywhere),
		cmocka_unit_test(crops_that_fit_and_do_not),
		cmocka_unit_test(padding_if_needed),
		cmocka_unit_test(resized_crops),
		cmocka_unit_test(central_crops),
		cmocka_unit_test(chances),
		cmocka_unit_test(turns),
		cmocka_unit_test(jitter),
		cmocka_unit_test(jitter_of_some),
		cmocka_unit_test(blurs),
		cmocka_unit_test(erasing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
