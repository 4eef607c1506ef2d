/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/resample.h"

#include "daemon/image/op/resample_weights.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HALF (1 << (RESAMPLE_PRECISION - 1))

static uint8_t to_byte(int32_t sum)
{
	int32_t value = sum >> RESAMPLE_PRECISION;

	return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* ---- one row across: `in` is a whole row, `out` the region's width ---- */

static void row_l(
	const struct resample_axis *axis, const uint8_t *restrict in, uint8_t *restrict out)
{
	for (uint32_t i = 0; i < axis->length; i++) {
		const int32_t *weights = axis->weights + (size_t)i * axis->taps;
		const uint8_t *p = in + axis->first[i];
		int32_t sum = HALF;

		for (uint32_t k = 0; k < axis->count[i]; k++)
			sum += p[k] * weights[k];
		out[i] = to_byte(sum);
	}
}

static void row_rgb(
	const struct resample_axis *axis, const uint8_t *restrict in, uint8_t *restrict out)
{
	for (uint32_t i = 0; i < axis->length; i++, out += 3) {
		const int32_t *weights = axis->weights + (size_t)i * axis->taps;
		const uint8_t *p = in + (size_t)axis->first[i] * 3;
		int32_t r = HALF, g = HALF, b = HALF;

		for (uint32_t k = 0; k < axis->count[i]; k++, p += 3) {
			r += p[0] * weights[k];
			g += p[1] * weights[k];
			b += p[2] * weights[k];
		}
		out[0] = to_byte(r);
		out[1] = to_byte(g);
		out[2] = to_byte(b);
	}
}

/* ---- rows down ---- */

/* Rows of which row i is at base + (i % ring) * stride. */
struct rows {
	const uint8_t *base;
	size_t stride, ring;
};

/* Blend `count` rows from `first` on into one of `bytes` bytes; in pieces whose sums stay in
 * registers and the first cache. */
static void blend_rows(const struct rows *rows, uint32_t first, uint32_t count,
	const int32_t *weights, uint8_t *restrict out, size_t bytes)
{
	enum { PIECE = 64 };
	int32_t sums[PIECE];

	for (size_t at = 0; at < bytes; at += PIECE) {
		size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		for (size_t i = 0; i < PIECE; i++)
			sums[i] = HALF;
		for (uint32_t k = 0; k < count; k++) {
			const uint8_t *p =
				rows->base + (first + k) % rows->ring * rows->stride + at;
			int32_t weight = weights[k];

			if (n == PIECE)
				for (size_t i = 0; i < PIECE; i++)
					sums[i] += p[i] * weight;
			else
				for (size_t i = 0; i < n; i++)
					sums[i] += p[i] * weight;
		}
		for (size_t i = 0; i < n; i++)
			out[at + i] = to_byte(sums[i]);
	}
}

static int reserve_rows(struct resampler *resampler, size_t rows, size_t stride)
{
	enum { KEEP = 4 << 20 };
	size_t bytes = rows * stride;

	if (rows > RESAMPLE_ROWS_MAX / stride)
		return RESAMPLE_TOO_LARGE;
	if (resampler->rows_capacity >= bytes && resampler->rows_capacity <= KEEP)
		return 0;
	free(resampler->rows);
	resampler->rows_capacity = 0;
	resampler->rows = malloc(bytes);
	if (resampler->rows == NULL)
		return -ENOMEM;
	resampler->rows_capacity = bytes;
	return 0;
}

/* Across only what the next rows down need, so that the rows between stay few. */
static int both_passes(struct resampler *resampler, const struct image *in, struct image *out)
{
	const struct resample_axis *across = &resampler->horizontal, *down = &resampler->vertical;
	size_t in_stride = (size_t)in->width * in->channels;
	size_t stride = (size_t)out->width * out->channels;
	size_t ring = down->taps < in->height ? down->taps : in->height;
	struct rows rows;
	uint32_t next = 0;
	int r = reserve_rows(resampler, ring, stride);

	if (r != 0)
		return r;
	rows = (struct rows){resampler->rows, stride, ring};
	for (uint32_t y = 0; y < out->height; y++) {
		if (next < down->first[y])
			next = down->first[y];
		for (; next < down->first[y] + down->count[y]; next++)
			(in->channels == 3 ? row_rgb : row_l)(across, in->pixels + next * in_stride,
				resampler->rows + next % ring * stride);
		blend_rows(&rows, down->first[y], down->count[y],
			down->weights + (size_t)y * down->taps, out->pixels + y * stride, stride);
	}
	return 0;
}

static void across_only(const struct resample_axis *axis, const struct image *in,
	const struct resample_region *region, struct image *out)
{
	for (uint32_t y = 0; y < out->height; y++)
		(in->channels == 3 ? row_rgb : row_l)(axis,
			in->pixels + (size_t)(region->top + y) * in->width * in->channels,
			out->pixels + (size_t)y * out->width * out->channels);
}

static void down_only(const struct resample_axis *axis, const struct image *in,
	const struct resample_region *region, struct image *out)
{
	struct rows rows = {
		.base = in->pixels + (size_t)region->left * in->channels,
		.stride = (size_t)in->width * in->channels,
		.ring = in->height,
	};
	size_t stride = (size_t)out->width * out->channels;

	for (uint32_t y = 0; y < out->height; y++)
		blend_rows(&rows, axis->first[y], axis->count[y],
			axis->weights + (size_t)y * axis->taps, out->pixels + y * stride, stride);
}

static void copy(const struct image *in, const struct resample_region *region, struct image *out)
{
	size_t stride = (size_t)out->width * out->channels;

	for (uint32_t y = 0; y < out->height; y++)
		memcpy(out->pixels + y * stride,
			in->pixels + ((size_t)(region->top + y) * in->width + region->left) *
					     in->channels,
			stride);
}

static void nearest(const struct resampler *resampler, const struct image *in, struct image *out)
{
	const struct resample_axis *across = &resampler->horizontal, *down = &resampler->vertical;
	size_t stride = (size_t)out->width * out->channels;
	uint8_t *to = out->pixels;

	for (uint32_t y = 0; y < out->height; y++, to += stride) {
		const uint8_t *from =
			in->pixels + (size_t)down->first[y] * in->width * in->channels;

		if (!down->count[y]) {
			memset(to, 0, stride);
			continue;
		}
		for (uint32_t x = 0; x < out->width; x++)
			for (uint32_t c = 0; c < out->channels; c++)
				to[x * out->channels + c] =
					across->count[x] ? from[across->first[x] * in->channels + c]
							 : 0;
	}
}

int resample(struct resampler *resampler, const struct image *in, uint32_t width, uint32_t height,
	enum resample_filter filter, const struct resample_region *region, struct image *out)
{
	bool is_across = width != in->width, is_down = height != in->height;
	int r = image_resize(out, region->width, region->height, in->channels);

	assert(region->width > 0 && region->left < width && region->width <= width - region->left);
	assert(region->height > 0 && region->top < height &&
		region->height <= height - region->top);
	if (r == 0 && (is_across || filter == RESAMPLE_NEAREST))
		r = resample_axis_fill(&resampler->horizontal, in->width, width, region->left,
			region->width, filter);
	if (r == 0 && (is_down || filter == RESAMPLE_NEAREST))
		r = resample_axis_fill(&resampler->vertical, in->height, height, region->top,
			region->height, filter);
	if (r != 0)
		return r;
	if (!is_across && !is_down)
		copy(in, region, out);
	else if (filter == RESAMPLE_NEAREST)
		nearest(resampler, in, out);
	else if (is_across && is_down)
		return both_passes(resampler, in, out);
	else if (is_across)
		across_only(&resampler->horizontal, in, region, out);
	else
		down_only(&resampler->vertical, in, region, out);
	return 0;
}

void resampler_finish(struct resampler *resampler)
{
	resample_axis_finish(&resampler->horizontal);
	resample_axis_finish(&resampler->vertical);
	free(resampler->rows);
	resampler->rows = NULL;
	resampler->rows_capacity = 0;
}
