/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/decode/decode.h"

#include <assert.h>
#include <string.h>

#ifdef NDEBUG
#error "the targets need assert"
#endif

/* Any bytes as a picture: both colours and the header alone must agree with each other, with every
 * flag. */

/* The picture as it lies in the file, from one that was turned. */
static uint8_t at(const struct image *image, uint32_t orientation, uint32_t width, uint32_t height,
	uint32_t x, uint32_t y, uint32_t c)
{
	uint32_t right = width - 1 - x, below = height - 1 - y, column, row;

	switch (orientation) {
	case 2: column = right, row = y; break;
	case 3: column = right, row = below; break;
	case 4: column = x, row = below; break;
	case 5: column = y, row = x; break;
	case 6: column = below, row = x; break;
	case 7: column = below, row = right; break;
	case 8: column = y, row = right; break;
	default: column = x, row = y; break;
	}
	return image->pixels[((size_t)row * image->width + column) * image->channels + c];
}

static void check_turned(
	const struct image *image, const struct image *turned, const struct picture_info *info)
{
	bool swap = info->orientation > 4;

	assert(turned->width == (swap ? info->height : info->width));
	assert(turned->height == (swap ? info->width : info->height));
	assert(turned->channels == image->channels);
	for (uint32_t y = 0; y < info->height; y++)
		for (uint32_t x = 0; x < info->width; x++)
			for (uint32_t c = 0; c < image->channels; c++)
				assert(at(image, 1, info->width, info->height, x, y, c) ==
					at(turned, info->orientation, info->width, info->height, x,
						y, c));
}

static int decode_checked(const uint8_t *data, size_t size, enum decode_colour colour,
	const struct decode_options *options, struct image *image, struct error_text *error)
{
	int r = image_decode(data, size, colour, options, image, error);

	assert(r == 0 || r == DECODE_BAD);
	if (r != 0) {
		assert(error->text[0] != '\0' && strlen(error->text) < ERROR_TEXT_MAX);
		return r;
	}
	assert(image->channels == (uint32_t)colour);
	assert((uint64_t)image->width * image->height * colour <= image->capacity);
	return 0;
}

static void check_flags(const uint8_t *data, size_t size, enum decode_colour colour,
	const struct decode_options *usual, const struct image *image, int result)
{
	static struct image clipped = IMAGE_NULL, turned = IMAGE_NULL;
	struct decode_options options = *usual;
	struct error_text error = {.text = ""};
	struct picture_info info;

	options.flags = DECODE_GREY16_CLIP;
	assert(decode_checked(data, size, colour, &options, &clipped, &error) == result);
	options.flags = DECODE_GREY16_CLIP | DECODE_ORIENT;
	assert(decode_checked(data, size, colour, &options, &turned, &error) == result);
	if (result != 0)
		return;
	assert(image_probe(data, size, usual, &info, NULL) == 0 && !info.more);
	assert(info.width == image->width && info.height == image->height);
	assert(info.orientation >= 1 && info.orientation <= 8);
	assert(clipped.width == image->width && clipped.height == image->height);
	assert(!clipped.high_byte && !turned.high_byte);
	if (!image->high_byte)
		assert(memcmp(clipped.pixels, image->pixels,
			       (size_t)image->width * image->height * colour) == 0);
	check_turned(&clipped, &turned, &info);
}

static void check_picture(const uint8_t *data, size_t size, const struct decode_options *options)
{
	/* Kept from input to input, as a worker does: leftovers must never show. */
	static struct image rgb = IMAGE_NULL, l = IMAGE_NULL;
	struct error_text rgb_error = {.text = ""}, l_error = {.text = ""};
	int r = decode_checked(data, size, DECODE_RGB, options, &rgb, &rgb_error);

	assert(decode_checked(data, size, DECODE_L, options, &l, &l_error) == r);
	assert(strcmp(rgb_error.text, l_error.text) == 0);
	/* Each decoding costs: the flags are looked at in one colour of the two. */
	if (size % 2 == 0)
		check_flags(data, size, DECODE_RGB, options, &rgb, r);
	else
		check_flags(data, size, DECODE_L, options, &l, r);
	if (r == 0) {
		size_t pixels = (size_t)rgb.width * rgb.height;

		assert(rgb.width == l.width && rgb.height == l.height);
		image_rgb_to_l(rgb.pixels, rgb.pixels, pixels);
		assert(memcmp(rgb.pixels, l.pixels, pixels) == 0);
	}
}
