/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/affine.h"

#include "daemon/image/op/window.h"

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

/* With doubles added up, step by step, as they are by a picture that is only scaled. */
INLINE void nearest_far(
	const struct affine *affine, const struct image *in, struct image *out, size_t channels)
{
	double row_x = affine->x0 + affine->xy * 0.5 + affine->xx * 0.5;
	double row_y = affine->y0 + affine->yy * 0.5 + affine->yx * 0.5;
	double width = in->width, height = in->height;
	uint8_t *to = out->pixels;

	for (uint32_t i = 0; i < out->height; i++) {
		double x = row_x, y = row_y;

		if (affine->yx == 0 && !(y >= 0 && y < height)) {
			to += out->width * channels;
			row_y += affine->yy;
			continue;
		}
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

/* A point between pixels, `count` columns and rows of which surround it, and how far it is from the
 * last ones before it. */
struct neighbours {
	const uint8_t *rows[4];
	size_t columns[4]; /* bytes from the row's beginning */
	double across, down;
};

INLINE int32_t clamp(int32_t at, int32_t size)
{
	at = at < size ? at : size - 1;
	return at > 0 ? at : 0;
}

/* Are all of them on the picture? */
INLINE bool is_inside(int32_t at, int32_t size, int32_t count)
{
	return at >= count / 2 - 1 && at < size - count / 2;
}

INLINE void find(const struct image *in, int32_t column, int32_t row, bool inside, int count,
	size_t channels, struct neighbours *neighbours)
{
	int32_t width = (int32_t)in->width, height = (int32_t)in->height;

	for (int k = 0; k < count; k++) {
		int32_t x = column + 1 - count / 2 + k, y = row + 1 - count / 2 + k;

		x = inside ? x : clamp(x, width);
		y = inside ? y : clamp(y, height);
		neighbours->columns[k] = (size_t)x * channels;
		neighbours->rows[k] = in->pixels + (size_t)y * in->width * channels;
	}
}

INLINE void bilinear(const struct neighbours *at, uint8_t *to, size_t channels)
{
	for (size_t c = 0; c < channels; c++) {
		double rows[2];

		for (int k = 0; k < 2; k++) {
			int left = at->rows[k][at->columns[0] + c];
			int right = at->rows[k][at->columns[1] + c];

			rows[k] = left + (right - left) * at->across;
		}
		to[c] = (uint8_t)(rows[0] + (rows[1] - rows[0]) * at->down);
	}
}

/* Cubic convolution with a = -1, in Pillow's order of operations: of bytes, which is exact in integers up
 * to `across`, and of what that makes of four rows. */
INLINE double cubic_across(int a, int b, int c, int d, double part)
{
	int before = a - b, after = c - d;

	return b + part * ((c - a) + part * ((2 * before + after) + part * -(before + after)));
}

INLINE double cubic_down(double a, double b, double c, double d, double part)
{
	double first = -a + c;
	double second = 2 * (a - b) + c - d;
	double third = -a + b - c + d;

	return b + part * (first + part * (second + part * third));
}

INLINE void bicubic(const struct neighbours *at, uint8_t *to, size_t channels)
{
	const size_t *columns = at->columns;

	for (size_t c = 0; c < channels; c++) {
		double rows[4], value;

		for (int k = 0; k < 4; k++) {
			const uint8_t *row = at->rows[k] + c;

			rows[k] = cubic_across(row[columns[0]], row[columns[1]], row[columns[2]],
				row[columns[3]], at->across);
		}
		value = cubic_down(rows[0], rows[1], rows[2], rows[3], at->down);
		to[c] = value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
	}
}

INLINE void mix_at(const struct image *in, double x, double y, int32_t column, int32_t row,
	bool inside, int count, uint8_t *to, size_t channels)
{
	struct neighbours neighbours = {.across = x - column, .down = y - row};

	find(in, column, row, inside, count, channels, &neighbours);
	if (count == 4)
		bicubic(&neighbours, to, channels);
	else
		bilinear(&neighbours, to, channels);
}

/* The point is on the picture. Pixels are points in their middle here. */
INLINE void mix(const struct image *in, double x, double y, int count, uint8_t *to, size_t channels)
{
	int32_t column, row;

	x -= 0.5;
	y -= 0.5;
	column = (int32_t)x - (x < 0);
	row = (int32_t)y - (y < 0);
	if (is_inside(column, (int32_t)in->width, count) &&
		is_inside(row, (int32_t)in->height, count))
		mix_at(in, x, y, column, row, true, count, to, channels);
	else
		mix_at(in, x, y, column, row, false, count, to, channels);
}

INLINE void between(const struct affine *affine, const struct image *in, int count,
	struct image *out, size_t channels)
{
	double width = in->width, height = in->height;
	uint8_t *to = out->pixels;

	for (uint32_t i = 0; i < out->height; i++) {
		double row_x = affine->xy * (i + 0.5), row_y = affine->yy * (i + 0.5);

		for (uint32_t j = 0; j < out->width; j++, to += channels) {
			double x = affine->xx * (j + 0.5) + row_x + affine->x0;
			double y = affine->yx * (j + 0.5) + row_y + affine->y0;

			if (x >= 0 && x < width && y >= 0 && y < height)
				mix(in, x, y, count, to, channels);
		}
	}
}

/* ---- all of them ---- */

INLINE void draw(const struct affine *affine, const struct image *in, enum resample_filter filter,
	struct image *out, size_t channels)
{
	if (filter == RESAMPLE_BICUBIC)
		between(affine, in, 4, out, channels);
	else if (filter == RESAMPLE_BILINEAR)
		between(affine, in, 2, out, channels);
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

/* Moved by whole pixels, where no filter changes anything. */
static bool is_move(const struct affine *affine)
{
	return affine->xx == 1 && affine->xy == 0 && affine->yx == 0 && affine->yy == 1 &&
	       affine->x0 == floor(affine->x0) && fabs(affine->x0) <= INT32_MAX &&
	       affine->y0 == floor(affine->y0) && fabs(affine->y0) <= INT32_MAX;
}

static int move(const struct affine *affine, const struct image *in, uint32_t width,
	uint32_t height, const uint8_t *fill, struct image *out)
{
	struct window window = {
		.left = (int64_t)affine->x0,
		.top = (int64_t)affine->y0,
		.width = width,
		.height = height,
		.mode = WINDOW_CONSTANT,
	};

	memcpy(window.fill, fill, in->channels);
	return window_copy(&window, in, out);
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
	int r;

	if (is_move(affine))
		return move(affine, in, width, height, fill, out);
	r = image_resize(out, width, height, in->channels);
	if (r < 0)
		return r;
	fill_with(out, fill);
	(in->channels == 3 ? draw_rgb : draw_l)(affine, in, filter, out);
	return 0;
}
