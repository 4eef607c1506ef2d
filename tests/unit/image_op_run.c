/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures and operations from stdin, results to stdout, for test_image_ops.py. A request is a line of
 * numbers, "width height channels operations repeats", then for each operation the 28 of struct image_op
 * in its order, fill as three, and the pixels. The answer is a line "ok width height channels nanoseconds"
 * and the pixels, or "invalid", or "bad reason". Repeats are there to take the time of the fastest.
 */
#include "daemon/image/op/image_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void answer(const struct image_op *ops, uint32_t count, uint32_t repeats,
	const struct image *given, struct image_ops_buffers *buffers)
{
	uint32_t width = given->width, height = given->height, channels = given->channels;
	size_t bytes = (size_t)width * height * channels;
	struct image image = IMAGE_NULL;
	struct error_text error = {""};
	uint64_t best = UINT64_MAX;
	int r = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!image_op_valid(&ops[i], &channels)) {
			printf("invalid\n");
			return;
		}
		if (!image_op_size(&ops[i], &width, &height))
			break;
	}
	for (uint32_t i = 0; i < repeats && r == 0; i++) {
		uint64_t begin;

		if (image_resize(&image, given->width, given->height, given->channels) < 0)
			exit(2);
		memcpy(image.pixels, given->pixels, bytes);
		begin = now();
		r = image_ops_apply(ops, count, width, height, &image, buffers, &error);
		if (now() - begin < best)
			best = now() - begin;
	}
	if (r < 0)
		exit(2);
	if (r != 0) {
		printf("bad %s\n", error.text);
	} else {
		printf("ok %u %u %u %" PRIu64 "\n", image.width, image.height, image.channels,
			best);
		fwrite(image.pixels, 1, (size_t)image.width * image.height * image.channels,
			stdout);
	}
	image_finish(&image);
}

int main(void)
{
	struct image_ops_buffers buffers = {.spare = IMAGE_NULL};
	struct image image = IMAGE_NULL;
	uint32_t width, height, channels, count, repeats;

	while (read_number(&width)) {
		struct image_op ops[OPS_MAX] = {0};
		size_t bytes;

		if (!read_number(&height) || !read_number(&channels) || !read_number(&count) ||
			!read_number(&repeats) || count > OPS_MAX)
			return 2;
		for (uint32_t i = 0; i < count; i++) {
			if (!read_op(&ops[i]))
				return 2;
		}
		bytes = (size_t)width * height * channels;
		if (getchar() != '\n' || image_resize(&image, width, height, channels) < 0 ||
			fread(image.pixels, 1, bytes, stdin) != bytes)
			return 2;
		answer(ops, count, repeats, &image, &buffers);
	}
	image_finish(&image);
	image_ops_buffers_finish(&buffers);
	return 0;
}
