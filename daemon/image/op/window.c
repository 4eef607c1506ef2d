/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/window.h"

#include <stdbool.h>
#include <string.h>

/* The pixel of a row or column of `size` that stands at `at`, or -1 for the fill. */
static int64_t source_of(int64_t at, int64_t size, enum window_mode mode)
{
	int64_t period;

	if (at >= 0 && at < size)
		return at;
	if (mode == WINDOW_CONSTANT)
		return -1;
	if (mode == WINDOW_EDGE || size == 1)
		return at < 0 ? 0 : size - 1;
	period = mode == WINDOW_REFLECT ? 2 * size - 2 : 2 * size;
	at %= period;
	if (at < 0)
		at += period;
	if (at < size)
		return at;
	return mode == WINDOW_REFLECT ? period - at : period - 1 - at;
}

static void fill_pixels(const struct window *window, uint8_t *to, size_t pixels, uint32_t channels)
{
	if (channels == 1) {
		memset(to, window->fill[0], pixels);
		return;
	}
	for (size_t i = 0; i < pixels; i++)
		memcpy(to + 3 * i, window->fill, 3);
}

/* The part of a row that lies on the picture is copied at once. */
static void copy_row(const struct window *window, const uint8_t *from, uint32_t width,
	uint32_t channels, uint8_t *to)
{
	int64_t begin = window->left < 0 ? -window->left : 0;
	int64_t end = (int64_t)width - window->left;

	if (begin > window->width)
		begin = window->width;
	if (end > window->width)
		end = window->width;
	if (end < begin)
		end = begin;
	if (end > begin)
		memcpy(to + begin * channels, from + (window->left + begin) * channels,
			(size_t)(end - begin) * channels);
	if (window->mode == WINDOW_CONSTANT) {
		fill_pixels(window, to, (size_t)begin, channels);
		fill_pixels(window, to + end * channels, (size_t)(window->width - end), channels);
		return;
	}
	for (int64_t x = 0; x < window->width; x++) {
		if (x == begin)
			x = end;
		if (x < window->width)
			memcpy(to + x * channels,
				from + source_of(window->left + x, width, window->mode) * channels,
				channels);
	}
}

int window_copy(const struct window *window, const struct image *in, struct image *out)
{
	size_t stride = (size_t)window->width * in->channels;
	int r = image_resize(out, window->width, window->height, in->channels);

	if (r < 0)
		return r;
	for (uint32_t y = 0; y < window->height; y++) {
		int64_t row = source_of(window->top + y, in->height, window->mode);
		uint8_t *to = out->pixels + y * stride;

		if (row < 0)
			fill_pixels(window, to, window->width, in->channels);
		else
			copy_row(window, in->pixels + (size_t)row * in->width * in->channels,
				in->width, in->channels, to);
	}
	return 0;
}
