/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines of any transforms with any numbers that are taken, on pictures of any size: whatever a client
 * may ask for ends in a row or in a sentence. The sanitizers look on. */
#include "daemon/image/transform.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

enum { PIPELINES = 4000, STEPS = 8 };

/* Small, large, or anything in between. */
static uint32_t edge(struct random_source *source, uint32_t most)
{
	switch (random_below(source, 4)) {
	case 0: return 1 + random_below(source, 3);
	case 1: return most;
	default: return 1 + random_below(source, most < 80 ? most : 80);
	}
}

static void range(struct random_source *source, double least, double most, double out[2])
{
	double a = random_between(source, least, most), b = random_between(source, least, most);

	if (random_below(source, 4) == 0)
		a = least;
	if (random_below(source, 4) == 0)
		b = most;
	if (random_below(source, 2)) { /* near what people write */
		a = fmax(least, fmin(most, a / 1e6));
		b = fmax(least, fmin(most, b / 1e6));
	}
	out[0] = fmin(a, b);
	out[1] = fmax(a, b);
}

static uint32_t padding(struct random_source *source)
{
	return random_below(source, 3) == 0 ? edge(source, 65535) : random_below(source, 20);
}

static struct random_op random_operation(struct random_source *source)
{
	struct random_op op = {.kind = RANDOM_CROP + random_below(source, RANDOM_ERASING)};
	const double most = RANDOM_NUMBER_MAX, least = RANDOM_NUMBER_MIN;

	op.width = edge(source, 200);
	op.height = edge(source, 200);
	op.filter = RESAMPLE_NEAREST + random_below(source, op.kind == RANDOM_RESIZED_CROP ? 6 : 3);
	op.left = padding(source);
	op.top = padding(source);
	op.right = padding(source);
	op.bottom = padding(source);
	op.pad_if_needed = random_below(source, 2);
	op.mode = WINDOW_CONSTANT + random_below(source, 4);
	op.fill[0] = (uint8_t)random_word(source);
	op.fill[1] = (uint8_t)random_word(source);
	op.expand = random_below(source, 2);
	op.has_centre = random_below(source, 2);
	op.centre_x = random_between(source, -most, most);
	op.centre_y = random_between(source, -50, 50);
	op.p = random_unit(source);
	range(source, -most, most, op.degrees);
	op.translate[0] = random_unit(source);
	op.translate[1] = random_below(source, 2);
	range(source, op.kind == RANDOM_AFFINE ? least : 0, op.kind == RANDOM_ERASING ? 1 : most,
		op.scale);
	range(source, least, most, op.ratio);
	range(source, -most, most, op.shear_x);
	range(source, -91, 91, op.shear_y);
	op.jitter = random_below(source, 16);
	range(source, 0, most, op.brightness);
	range(source, 0, most, op.contrast);
	range(source, 0, most, op.saturation);
	range(source, -0.5, 0.5, op.hue);
	op.kernel_width = 1 + 2 * random_below(source, 128);
	op.kernel_height = 1 + 2 * random_below(source, 4);
	range(source, least, most, op.sigma);
	op.values = random_below(source, 2) ? 1 : 3;
	op.random_value = random_below(source, 2);
	op.value[0] = random_between(source, -1, 300);
	op.value[1] = random_unit(source) * 1e38;
	return op;
}

/* In the order in which a pipeline makes sense, for the most part. */
static size_t any_pipeline(struct random_source *source, struct transform_step steps[STEPS])
{
	size_t pictures = random_below(source, 4), count = 0;
	size_t tensors = random_below(source, STEPS - 4);

	for (; count < pictures; count++) {
		steps[count] = (struct transform_step){.kind = TRANSFORM_RANDOM,
			.values = random_below(source, 2) ? 1 : 3,
			.random = random_operation(source)};
		if (random_below(source, 5) == 0)
			steps[count] = (struct transform_step){.kind = TRANSFORM_GRAYSCALE,
				.channels = random_below(source, 2) ? 1 : 3};
		if (random_below(source, 4) == 0)
			steps[count] = (struct transform_step){.kind = TRANSFORM_CENTER_CROP,
				.op = {.kind = IMAGE_OP_CENTER_CROP,
					.width = edge(source, 90),
					.height = edge(source, 90)}};
	}
	if (random_below(source, 4) > 0)
		steps[count++].kind =
			random_below(source, 3) ? TRANSFORM_TO_TENSOR : TRANSFORM_PIL_TO_TENSOR;
	for (size_t i = 0; i < tensors; i++, count++) {
		struct transform_step *step = &steps[count];

		switch (random_below(source, 3)) {
		case 0:
			step->kind = TRANSFORM_NORMALIZE;
			step->values = 1;
			step->mean[0] = (float)random_between(source, -2, 2);
			step->std[0] = (float)random_between(source, 1e-6, 2);
			break;
		case 1:
			step->kind = TRANSFORM_CONVERT_IMAGE_DTYPE;
			step->dtype = PIXEL_U8 + random_below(source, 4);
			break;
		default:
			step->kind = TRANSFORM_RANDOM;
			step->random = random_operation(source);
			if (random_below(source, 4) > 0)
				step->random.kind = RANDOM_ERASING;
		}
	}
	return count;
}

static void fill_image(struct random_source *source, struct image *image, uint32_t channels)
{
	uint32_t width = edge(source, 90), height = edge(source, 90);

	assert_int_equal(image_resize(image, width, height, channels), 0);
	for (size_t i = 0; i < (size_t)width * height * channels; i++)
		image->pixels[i] = (uint8_t)random_word(source);
}

/* Render twice, into exactly as much memory as was announced: the same each time. False: the picture does
 * not fit. */
static bool render_picture(const struct transform_plan *plan, const struct transform_plan *drawn,
	const struct random_key *key, struct image *image, struct image_ops_buffers *buffers)
{
	uint8_t *row = malloc(plan->row_bytes), *again = malloc(plan->row_bytes);
	double *parameters = malloc(drawn->row_bytes);
	uint32_t width = image->width, height = image->height;
	struct error_text error = {""};
	int r = transform_apply(plan, key, image, buffers, &error), d;

	d = transform_parameters(drawn, key, width, height, parameters, &error);
	if (r == 0) {
		assert_int_equal(d, 0);
		assert_int_equal(image->width, plan->width);
		assert_int_equal(image->height, plan->height);
		assert_int_equal(image->channels, plan->image_channels);
		transform_render(plan, key, image, row);
		transform_render(plan, key, image, again);
		assert_memory_equal(row, again, plan->row_bytes);
	} else {
		assert_int_equal(r, TRANSFORM_BAD);
		assert_true(strncmp(error.text, "is ", 3) == 0);
	}
	free(row);
	free(again);
	free(parameters);
	return r == 0;
}

static void any_transforms(void **state)
{
	const struct random_key seed = {.seed = 1};
	struct random_source source = random_source_of(&seed, 0);
	struct image_ops_buffers buffers = {.spare = IMAGE_NULL};
	struct image image = IMAGE_NULL;
	unsigned compiled = 0, rendered = 0;

	(void)state;
	for (uint64_t i = 0; i < PIPELINES; i++) {
		struct transform_step steps[STEPS] = {0};
		size_t count = any_pipeline(&source, steps);
		const struct random_key key = {.seed = 2, .epoch = i};
		struct transform_plan plan, drawn;
		struct transform_source from = {.channels = random_below(&source, 2) ? 1 : 3};
		enum pixel_layout layout = random_below(&source, 2) ? PIXEL_NCHW : PIXEL_NHWC;
		enum pixel_dtype dtype = PIXEL_U8 + random_below(&source, 4);
		struct error_text error = {""};

		fill_image(&source, &image, from.channels);
		from.width = image.width;
		from.height = image.height;
		if (transform_compile(&plan, &from, steps, count, dtype, layout, &error) != 0 ||
			transform_compile_parameters(&drawn, &from, steps, count, layout, &error) !=
				0) {
			assert_true(error.text[0] != '\0');
			continue;
		}
		compiled++;
		assert_true(transform_plan_valid(&plan));
		assert_true(transform_plan_valid(&drawn));
		if (plan.decode_channels != from.channels)
			fill_image(&source, &image, plan.decode_channels);
		rendered += render_picture(&plan, &drawn, &key, &image, &buffers);
	}
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
	/* else the test has nothing to say */
	assert_true(compiled > PIPELINES / 5);
	assert_true(rendered > PIPELINES / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_transforms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
