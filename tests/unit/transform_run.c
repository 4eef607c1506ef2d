/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures and pipelines from stdin, results to stdout, for test_transforms.py. A request is a line of
 * numbers, "width height channels steps", then for each step 14 more (kind, channels, values, and those
 * of struct image_op), and the pixels. The answer is a line "ok width height channels" and the pixels, u8
 * and NHWC, or "refused reason" or "bad reason".
 */
#include "daemon/image/decode/decode.h"
#include "daemon/image/transform.h"
#include "daemon/util/ownership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool read_number(uint32_t *value)
{
	return scanf("%" SCNu32, value) == 1;
}

static bool read_step(struct transform_step *step)
{
	struct image_op *op = &step->op;
	uint32_t *numbers[] = {&step->channels, &step->values, &op->kind, &op->filter, &op->width,
		&op->height, &op->shorter, &op->longer_max, &op->left, &op->top, &op->right,
		&op->bottom, &op->mode};
	uint32_t kind, fill;

	if (!read_number(&kind))
		return false;
	step->kind = (enum transform_kind)kind;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!read_number(numbers[i]))
			return false;
	}
	for (size_t i = 0; i < 3; i++) {
		if (!read_number(&fill))
			return false;
		op->fill[i] = (uint8_t)fill;
	}
	return true;
}

static void answer(
	const struct transform_plan *plan, struct image *image, struct image_ops_buffers *buffers)
{
	const struct random_key key = {0};
	struct error_text error = {""};
	uint8_t *row;

	if (!transform_plan_valid(plan)) {
		printf("bad plan\n");
		return;
	}
	if (plan->decode_channels == 1 && image->channels == 3) { /* the decoder would do that */
		image_rgb_to_l(image->pixels, image->pixels, (size_t)image->width * image->height);
		image->channels = 1;
	}
	if (transform_apply(plan, &key, image, buffers, &error) != 0) {
		printf("bad %s\n", error.text);
		return;
	}
	row = malloc(plan->row_bytes);
	if (row == NULL)
		exit(2);
	transform_render(plan, &key, image, row);
	printf("ok %u %u %u\n", plan->width, plan->height, plan->channels);
	fwrite(row, 1, plan->row_bytes, stdout);
	free(row);
}

int main(void)
{
	struct image image = IMAGE_NULL;
	struct image_ops_buffers buffers = {0};
	struct transform_source source;

	while (read_number(&source.width)) {
		struct transform_step steps[40] = {0};
		struct error_text error = {""};
		struct transform_plan plan;
		uint32_t count;

		if (!read_number(&source.height) || !read_number(&source.channels) ||
			!read_number(&count) || count > 40)
			return 2;
		for (uint32_t i = 0; i < count; i++) {
			if (!read_step(&steps[i]))
				return 2;
		}
		if (getchar() != '\n' ||
			image_resize(&image, source.width, source.height, source.channels) < 0)
			return 2;
		if (fread(image.pixels, 1, (size_t)source.width * source.height * source.channels,
			    stdin) != (size_t)source.width * source.height * source.channels)
			return 2;
		if (transform_compile(&plan, &source, steps, count, PIXEL_U8, PIXEL_NHWC, &error) !=
			0)
			printf("refused %s\n", error.text);
		else
			answer(&plan, &image, &buffers);
	}
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
	return 0;
}
