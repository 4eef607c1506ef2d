/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures and operations from stdin, results to stdout, for test_image_ops.py. A request is a line of
 * numbers, "width height channels operations", then for each operation the 28 of struct image_op in its
 * order, fill as three, and the pixels. The answer is a line "ok width height channels" and the pixels,
 * or "invalid", or "bad reason".
 */
#include "daemon/image/op/image_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPS_MAX = 16 };

static bool read_number(uint32_t *value)
{
	return scanf("%" SCNu32, value) == 1;
}

static bool read_numbers(uint32_t *const *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!read_number(numbers[i]))
			return false;
	}
	return true;
}

static bool read_op(struct image_op *op)
{
	uint32_t *first[] = {&op->kind, &op->filter, &op->width, &op->height, &op->shorter,
		&op->longer_max, &op->left, &op->top, &op->right, &op->bottom, &op->mode};
	uint32_t fill[3];
	uint32_t *second[] = {&fill[0], &fill[1], &fill[2], &op->expand, &op->has_centre};
	uint32_t *kernel[] = {&op->kernel_width, &op->kernel_height};

	if (!read_numbers(first, 11) || !read_numbers(second, 5) ||
		scanf("%la %la %la %" SCNd32 " %" SCNd32 " %la %la %la %la", &op->centre_x,
			&op->centre_y, &op->angle, &op->translate_x, &op->translate_y, &op->scale,
			&op->shear_x, &op->shear_y, &op->factor) != 9 ||
		!read_numbers(kernel, 2) || scanf("%la", &op->sigma) != 1)
		return false;
	for (size_t i = 0; i < 3; i++)
		op->fill[i] = (uint8_t)fill[i];
	return true;
}

static void answer(const struct image_op *ops, uint32_t count, struct image *image,
	struct image_ops_buffers *buffers)
{
	uint32_t width = image->width, height = image->height, channels = image->channels;
	struct error_text error = {""};
	int r;

	for (uint32_t i = 0; i < count; i++) {
		if (!image_op_valid(&ops[i], &channels)) {
			printf("invalid\n");
			return;
		}
		if (!image_op_size(&ops[i], &width, &height))
			break;
	}
	r = image_ops_apply(ops, count, width, height, image, buffers, &error);
	if (r < 0)
		exit(2);
	if (r != 0) {
		printf("bad %s\n", error.text);
	} else {
		printf("ok %u %u %u\n", image->width, image->height, image->channels);
		fwrite(image->pixels, 1, (size_t)image->width * image->height * image->channels,
			stdout);
	}
}

int main(void)
{
	struct image_ops_buffers buffers = {.spare = IMAGE_NULL};
	struct image image = IMAGE_NULL;
	uint32_t width, height, channels, count;

	while (read_number(&width)) {
		struct image_op ops[OPS_MAX] = {0};
		size_t bytes;

		if (!read_number(&height) || !read_number(&channels) || !read_number(&count) ||
			count > OPS_MAX)
			return 2;
		for (uint32_t i = 0; i < count; i++) {
			if (!read_op(&ops[i]))
				return 2;
		}
		bytes = (size_t)width * height * channels;
		if (getchar() != '\n' || image_resize(&image, width, height, channels) < 0 ||
			fread(image.pixels, 1, bytes, stdin) != bytes)
			return 2;
		answer(ops, count, &image, &buffers);
	}
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
	return 0;
}
