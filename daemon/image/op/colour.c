/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/colour.h"

#include <stdbool.h>
#include <string.h>

static size_t pixels_of(const struct image *image)
{
	return (size_t)image->width * image->height;
}

static uint8_t blend(float other, float value, float factor)
{
	float mixed = other + factor * (value - other);

	mixed = mixed > 0 ? mixed : 0;
	return (uint8_t)(int32_t)(mixed < 255 ? mixed : 255);
}

/* ---- with one value ---- */

static void blend_with_value(struct image *image, uint8_t other, double factor)
{
	size_t bytes = pixels_of(image) * image->channels;
	uint8_t table[256];

	for (int v = 0; v < 256; v++)
		table[v] = blend(other, (float)v, (float)factor);
	for (size_t i = 0; i < bytes; i++)
		image->pixels[i] = table[image->pixels[i]];
}

void colour_brightness(struct image *image, double factor)
{
	blend_with_value(image, 0, factor);
}

/* ---- with luma ---- */

enum { PIECE = 512 }; /* pixels whose luma is at hand at once */

static size_t piece(const struct image *image, size_t at)
{
	size_t left = pixels_of(image) - at;

	return left < PIECE ? left : PIECE;
}

static uint64_t sum_l(const struct image *image)
{
	uint64_t sum = 0;

	for (size_t at = 0, n; at < pixels_of(image); at += n) {
		const uint8_t *l = image->pixels + at;
		uint32_t part = 0;
		uint8_t made[PIECE];

		n = piece(image, at);
		if (image->channels == 3) {
			image_rgb_to_l(image->pixels + 3 * at, made, n);
			l = made;
		}
		for (size_t i = 0; i < n; i++)
			part += l[i];
		sum += part;
	}
	return sum;
}

void colour_contrast(struct image *image, double factor)
{
	double mean = (double)sum_l(image) / (double)pixels_of(image);

	blend_with_value(image, (uint8_t)(mean + 0.5), factor);
}

static void repeat(const uint8_t *l, size_t pixels, uint8_t *rgb)
{
	for (size_t i = 0; i < pixels; i++, rgb += 3)
		rgb[0] = rgb[1] = rgb[2] = l[i];
}

void colour_saturation(struct image *image, double factor)
{
	if (image->channels != 3)
		return;
	for (size_t at = 0, n; at < pixels_of(image); at += n) {
		uint8_t *rgb = image->pixels + 3 * at;
		uint8_t l[PIECE], grey[3 * PIECE];

		n = piece(image, at);
		image_rgb_to_l(rgb, l, n);
		repeat(l, n, grey);
		for (size_t i = 0; i < 3 * n; i++)
			rgb[i] = blend(grey[i], rgb[i], (float)factor);
	}
}

void colour_grey(struct image *image)
{
	if (image->channels != 3)
		return;
	for (size_t at = 0, n; at < pixels_of(image); at += n) {
		uint8_t l[PIECE];

		n = piece(image, at);
		image_rgb_to_l(image->pixels + 3 * at, l, n);
		repeat(l, n, image->pixels + 3 * at);
	}
}

/* ---- hue ---- */

/* Of each hue byte, turned: the sixth of the circle that it lies in, and how far in it. */
struct hues {
	uint8_t sixth[256];
	float part[256];
};

static void turn_hues(struct hues *hues, uint8_t by)
{
	for (int h = 0; h < 256; h++) {
		double place = (double)(uint8_t)(h + by) * 6.0 / 255.0;

		hues->sixth[h] = (uint8_t)((int)place % 6);
		hues->part[h] = (float)(place - (int)place);
	}
}

/* Hue of a pixel with colour, 0 .. 255, with Pillow's roundings: `high` and `low` are its greatest and
 * least value. */
static uint8_t hue_of(const uint8_t *rgb, uint8_t high, uint8_t low)
{
	float range = (float)(high - low), hue;
	float r = (float)(high - rgb[0]) / range;
	float g = (float)(high - rgb[1]) / range;
	float b = (float)(high - rgb[2]) / range;
	double place;

	if (rgb[0] == high)
		hue = b - g;
	else if (rgb[1] == high)
		hue = (float)(2.0 + r - b);
	else
		hue = (float)(4.0 + g - r);
	place = hue / 6.0 + 1.0;
	hue = (float)(place >= 1 ? place - 1 : place);
	return (uint8_t)(hue * 255.0);
}

/* Half away from 0, of values from 0 on. */
static uint8_t to_nearest(double value)
{
	int whole = (int)value;

	return (uint8_t)(whole + (value - whole >= 0.5));
}

static void from_hsv(uint8_t *rgb, uint8_t sixth, float part, float saturation, uint8_t value)
{
	/* where red, green and blue come from in each sixth */
	static const uint8_t order[6][3] = {
		{0, 2, 3}, {1, 0, 3}, {3, 0, 2}, {3, 1, 0}, {2, 3, 0}, {0, 3, 1}};
	float v = value;
	uint8_t values[4] = {
		value,
		to_nearest(v * (1.0 - (double)(saturation * part))),
		to_nearest(v * (1.0 - saturation * (1.0 - part))),
		to_nearest(v * (1.0 - saturation)),
	};

	for (int c = 0; c < 3; c++)
		rgb[c] = values[order[sixth][c]];
}

static void turn_pixel(uint8_t *rgb, const struct hues *hues)
{
	uint8_t high = rgb[0], low = rgb[0], hue, saturation;

	for (int c = 1; c < 3; c++) {
		high = rgb[c] > high ? rgb[c] : high;
		low = rgb[c] < low ? rgb[c] : low;
	}
	if (high == low)
		return;
	hue = hue_of(rgb, high, low);
	saturation = (uint8_t)((float)(high - low) / (float)high * 255.0);
	if (saturation == 0)
		memset(rgb, high, 3);
	else
		from_hsv(rgb, hues->sixth[hue], hues->part[hue], (float)(saturation / 255.0), high);
}

void colour_hue(struct image *image, double factor)
{
	size_t pixels = pixels_of(image);
	struct hues hues;

	if (image->channels != 3)
		return;
	turn_hues(&hues, (uint8_t)(int)(factor * 255));
	for (size_t i = 0; i < pixels; i++)
		turn_pixel(image->pixels + 3 * i, &hues);
}
