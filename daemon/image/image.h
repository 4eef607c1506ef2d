/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decoded pixels: height x width x channels bytes, rows packed. The buffer is reused from image to
 * image, so a worker allocates only when a larger image comes; after one beyond 32 MiB it shrinks
 * again. */
struct image {
	uint8_t *pixels;
	size_t capacity; /* bytes allocated */
	uint32_t width, height;
	uint32_t channels; /* 1 = L, 3 = RGB */
	bool high_byte;    /* the file has grey of 16 bits, and this is its high byte */
};

#define IMAGE_NULL                                                                                 \
	{                                                                                          \
		.pixels = NULL                                                                     \
	}

/* Set the dimensions and make room; the pixels are undefined. 0, -ENOMEM, -EOVERFLOW. */
int image_resize(struct image *image, uint32_t width, uint32_t height, uint32_t channels);
void image_finish(struct image *image);

/* Luma as Pillow's convert('L'): (19595 R + 38470 G + 7471 B + 0x8000) >> 16 (ITU-R 601-2).
 * `l` may be `rgb`. */
void image_rgb_to_l(const uint8_t *rgb, uint8_t *l, size_t pixels);
