/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/affine.h"

#include <math.h>
#include <string.h>

/* Each function below exists for 1 and for 3 channels, with this number known to the compiler. */
#define INLINE static inline __attribute__((always_inline))

/* ---- the nearest pixel ---- */

/* With steps of 16 bits behind the point while no coordinate is beyond 15 before it. */
static bool fixed_fits(const struct affine *affine, uint32_t width, uint32_t height)
{
	for (int i = 0; i < 4; i++) {
		double x = i & 1 ? width : 0, y = i & 2 ? height : 0;

		if (!(fabs(x * affine->xx + y * affine->xy + affine->x0) < 32768) ||
			!(fabs(x * affine->yx + y * affine->yy + affine->y0) < 32768))
			return false;
	}
	return true;
}

/* The step along an edge of one pixel may be beyond 32 bits, but is never taken. */
static uint32_t to_fixed(double value)
{
	return (uint32_t)(int64_t)floor(value * 65536 + 0.5);
}

INLINE void nearest_fixed(
	const struct affine *affine, const struct image *in, struct image *out, size_t channels)
{
	uint32_t xx = to_fixed(affine->xx), xy = to_fixed(affine->xy);
	uint32_t yx = to_fixed(affine->yx), yy = to_fixed(affine->yy);
	uint32_t row_x = to_fixed(affine->x0 + affine->xx * 0.5 + affine->xy * 0.5);
	uint32_t row_y = to_fixed(affine->y0 + affine->yx * 0.5 + affine->yy * 0.5);
	uint8_t *to = out->pixels;

	for (uint32_t i = 0; i < out->height; i++) {
		uint32_t x = row_x, y = row_y;

		for (uint32_t j = 0; j < out->width; j++, to += channels) {
			uint32_t column = (uint32_t)((int32_t)x >> 16);
			uint32_t row = (uint32_t)((int32_t)y >> 16);

			if (column < in->width && row < in->height)
				memcpy(to,
					in->pixels + ((size_t)row * in->width + column) * channels,
					channels);
			x += xx;
			y += yx;
		}
		row_x += xy;
		row_y += yy;
	}
}

/* With doubles added up, step by step. */
INLINE void nearest_far(
	const struct affine *affine, const struct image *in, struct image *out, size_t channels)
{
	double row_x = affine->x0 + affine->xy * 0.5 + affine->xx * 0.5;
	double row_y = affine->y0 + affine->yy * 0.5 + affine->yx * 0.5;
	double width = in->width, height = in->height;
	uint8_t *to = out->pixels;

	for (uint32_t i = 0; i < out->height; i++) {
		double x = row_x, y = row_y;

		for (uint32_t j = 0; j < out->width; j++, to += channels) {
			if (x >= 0 && x < width && y >= 0 && y < height)
				memcpy(to,
					in->pixels + ((size_t)y * in->width + (size_t)x) * channels,
					channels);
			x += affine->xx;
			y += affine->yx;
		}
		row_x += affine->xy;
		row_y += affine->yy;
	}
}

INLINE void nearest(
	const struct affine *affine, const struct image *in, struct image *out, size_t channels)
{
	bool only_scaled = affine->xy == 0 && affine->yx == 0;

	if (!only_scaled && fixed_fits(affine, out->width, out->height))
		nearest_fixed(affine, in, out, channels);
	else
		nearest_far(affine, in, out, channels);
}

/* ---- between pixels ---- */

/* A point between pixels: `count` columns and rows around it, clamped to the picture, and how far it is
 * from the second last of the first half of them. */
struct neighbours {
	size_t columns[4]; /* bytes from the row's beginning */
	const uint8_t *rows[4];
	double across, down;
};

INLINE int32_t clamp(int32_t at, int32_t size)
{
	at = at < size ? at : size - 1;
	return at > 0 ? at : 0;
}

INLINE void find(const struct image *in, double x, double y, int count, size_t channels,
	struct neighbours *neighbours)
{
	size_t stride = in->width * channels;
	int32_t column, row;

	x -= 0.5; /* to the middle of pixels; -0.5 or more */
	y -= 0.5;
	column = (int32_t)x - (x < 0);
	row = (int32_t)y - (y < 0);
	neighbours->across = x - column;
	neighbours->down = y - row;
	for (int k = 0; k < count; k++) {
		int32_t from = k + 1 - count / 2;

		neighbours->columns[k] =
			(size_t)clamp(column + from, (int32_t)in->width) * channels;
		neighbours->rows[k] =
			in->pixels + (size_t)clamp(row + from, (int32_t)in->height) * stride;
	}
}

INLINE double linear(double a, double b, double part)
{
	return a + (b - a) * part;
}

INLINE void bilinear_pixel(const struct neighbours *at, uint8_t *to, size_t channels)
{
	size_t left = at->columns[0], right = at->columns[1];

	for (size_t c = 0; c < channels; c++) {
		double top = linear(at->rows[0][left + c], at->rows[0][right + c], at->across);
		double bottom = linear(at->rows[1][left + c], at->rows[1][right + c], at->across);

		to[c] = (uint8_t)linear(top, bottom, at->down);
	}
}

/* The cubic convolution of a = -1, in Pillow's order of operations. */
INLINE double cubic(double a, double b, double c, double d, double part)
{
	double first = -a + c;
	double second = 2 * (a - b) + c - d;
	double third = -a + b - c + d;

	return b + part * (first + part * (second + part * third));
}

INLINE void bicubic_pixel(const struct neighbours *at, uint8_t *to, size_t channels)
{
	const size_t *columns = at->columns;

	for (size_t c = 0; c < channels; c++) {
		double rows[4], value;

		for (int k = 0; k < 4; k++) {
			const uint8_t *row = at->rows[k] + c;

			rows[k] = cubic(row[columns[0]], row[columns[1]], row[columns[2]],
				row[columns[3]], at->across);
		}
		value = cubic(rows[0], rows[1], rows[2], rows[3], at->down);
		to[c] = value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
	}
}

INLINE void between(const struct affine *affine, const struct image *in, bool cubic,
	struct image *out, size_t channels)
{
	double width = in->width, height = in->height;
	uint8_t *to = out->pixels;

	for (uint32_t i = 0; i < out->height; i++) {
		double row_x = affine->xy * (i + 0.5), row_y = affine->yy * (i + 0.5);

		for (uint32_t j = 0; j < out->width; j++, to += channels) {
			double x = affine->xx * (j + 0.5) + row_x + affine->x0;
			double y = affine->yx * (j + 0.5) + row_y + affine->y0;
			struct neighbours neighbours;

			if (!(x >= 0 && x < width && y >= 0 && y < height))
				continue;
			find(in, x, y, cubic ? 4 : 2, channels, &neighbours);
			if (cubic)
				bicubic_pixel(&neighbours, to, channels);
			else
				bilinear_pixel(&neighbours, to, channels);
		}
	}
}

/* ---- all of them ---- */

INLINE void draw(const struct affine *affine, const struct image *in, enum resample_filter filter,
	struct image *out, size_t channels)
{
	if (filter == RESAMPLE_BICUBIC)
		between(affine, in, true, out, channels);
	else if (filter == RESAMPLE_BILINEAR)
		between(affine, in, false, out, channels);
	else
		nearest(affine, in, out, channels);
}

static void draw_l(const struct affine *affine, const struct image *in, enum resample_filter filter,
	struct image *out)
{
	draw(affine, in, filter, out, 1);
}

static void draw_rgb(const struct affine *affine, const struct image *in,
	enum resample_filter filter, struct image *out)
{
	draw(affine, in, filter, out, 3);
}

static void fill_with(struct image *image, const uint8_t *fill)
{
	size_t pixels = (size_t)image->width * image->height;

	if (image->channels == 1 || (fill[0] == fill[1] && fill[0] == fill[2])) {
		memset(image->pixels, fill[0], pixels * image->channels);
		return;
	}
	for (size_t i = 0; i < pixels; i++)
		memcpy(image->pixels + 3 * i, fill, 3);
}

int affine_draw(const struct affine *affine, const struct image *in, enum resample_filter filter,
	uint32_t width, uint32_t height, const uint8_t *fill, struct image *out)
{
	int r = image_resize(out, width, height, in->channels);

	if (r < 0)
		return r;
	fill_with(out, fill);
	(in->channels == 3 ? draw_rgb : draw_l)(affine, in, filter, out);
	return 0;
}
