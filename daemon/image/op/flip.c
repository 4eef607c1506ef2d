/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/flip.h"

#include <stdbool.h>
#include <string.h>

/* ---- flips ---- */

static void reverse_l(uint8_t *row, size_t width)
{
	uint8_t *left = row, *right = row + width;

	for (; right - left >= 16; left += 8) {
		uint64_t a, b;

		right -= 8;
		memcpy(&a, left, 8);
		memcpy(&b, right, 8);
		a = __builtin_bswap64(a);
		b = __builtin_bswap64(b);
		memcpy(left, &b, 8);
		memcpy(right, &a, 8);
	}
	while (right - left >= 2) {
		uint8_t a = *left;

		*left++ = *--right;
		*right = a;
	}
}

static void reverse_rgb(uint8_t *row, size_t width)
{
	uint8_t *left = row, *right = row + 3 * width;

	for (; right - left >= 6; left += 3) {
		uint8_t pixel[3];

		right -= 3;
		memcpy(pixel, left, 3);
		memcpy(left, right, 3);
		memcpy(right, pixel, 3);
	}
}

void flip_columns(struct image *image)
{
	size_t stride = (size_t)image->width * image->channels;

	for (uint32_t y = 0; y < image->height; y++)
		(image->channels == 3 ? reverse_rgb : reverse_l)(
			image->pixels + y * stride, image->width);
}

static void swap_bytes(uint8_t *restrict a, uint8_t *restrict b, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		uint8_t kept = a[i];

		a[i] = b[i];
		b[i] = kept;
	}
}

void flip_rows(struct image *image)
{
	size_t stride = (size_t)image->width * image->channels;
	uint8_t *top = image->pixels, *bottom = top + image->height * stride;

	for (uint32_t i = 0; i < image->height / 2; i++, top += stride) {
		bottom -= stride;
		swap_bytes(top, bottom, stride);
	}
}

/* ---- quarter turns ---- */

/* Squares of pixels, so that the rows written stay in the cache: a row that is read becomes a column. */
static inline void turn(const struct image *in, struct image *out, bool left, size_t channels)
{
	enum { SQUARE = 32 };
	size_t width = in->width, height = in->height;

	for (size_t top = 0; top < height; top += SQUARE)
		for (size_t first = 0; first < width; first += SQUARE) {
			size_t bottom = top + SQUARE < height ? top + SQUARE : height;
			size_t last = first + SQUARE < width ? first + SQUARE : width;

			for (size_t x = first; x < last; x++) {
				size_t row = left ? width - 1 - x : x;
				const uint8_t *from = in->pixels + (top * width + x) * channels;
				uint8_t *to = out->pixels + row * height * channels;

				for (size_t y = top; y < bottom; y++, from += width * channels)
					memcpy(to + (left ? y : height - 1 - y) * channels, from,
						channels);
			}
		}
}

int turn_left(const struct image *in, struct image *out)
{
	int r = image_resize(out, in->height, in->width, in->channels);

	if (r < 0)
		return r;
	if (in->channels == 3)
		turn(in, out, true, 3);
	else
		turn(in, out, true, 1);
	return 0;
}

int turn_right(const struct image *in, struct image *out)
{
	int r = image_resize(out, in->height, in->width, in->channels);

	if (r < 0)
		return r;
	if (in->channels == 3)
		turn(in, out, false, 3);
	else
		turn(in, out, false, 1);
	return 0;
}
