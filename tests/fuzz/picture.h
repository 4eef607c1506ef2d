/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/decode.h"

#include <assert.h>
#include <string.h>

#ifdef NDEBUG
#error "the targets need assert"
#endif

/* Any bytes as a picture: both colours and the header alone must agree with each other. */

static int decode_checked(const uint8_t *data, size_t size, enum decode_colour colour,
	const struct decode_limits *limits, struct image *image, struct error_text *error)
{
	uint32_t width = 0, height = 0;
	int r = image_decode(data, size, colour, limits, image, error);

	assert(r == 0 || r == DECODE_BAD);
	if (r != 0) {
		assert(error->text[0] != '\0' && strlen(error->text) < ERROR_TEXT_MAX);
		return r;
	}
	assert(image_probe(data, size, limits, &width, &height, NULL) == 0);
	assert(width == image->width && height == image->height);
	assert(image->channels == (uint32_t)colour);
	assert((uint64_t)width * height * colour <= image->capacity);
	return 0;
}

static void check_picture(const uint8_t *data, size_t size, const struct decode_limits *limits)
{
	/* Kept from input to input, as a worker does: leftovers must never show. */
	static struct image rgb = IMAGE_NULL, l = IMAGE_NULL;
	struct error_text rgb_error = {.text = ""}, l_error = {.text = ""};
	int r = decode_checked(data, size, DECODE_RGB, limits, &rgb, &rgb_error);

	assert(decode_checked(data, size, DECODE_L, limits, &l, &l_error) == r);
	assert(strcmp(rgb_error.text, l_error.text) == 0);
	if (r == 0) {
		size_t pixels = (size_t)rgb.width * rgb.height;

		assert(rgb.width == l.width && rgb.height == l.height);
		image_rgb_to_l(rgb.pixels, rgb.pixels, pixels);
		assert(memcmp(rgb.pixels, l.pixels, pixels) == 0);
	}
}
