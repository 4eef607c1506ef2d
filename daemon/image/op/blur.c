/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/blur.h"

#include "daemon/util/ownership.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/*
 * Across, then down, strip by strip of the picture: a strip's rows, blurred across, stay in a ring of
 * as many rows as the kernel is high, which is small enough for the second cache.
 */
enum {
	STRIP = 576, /* bytes of a row of the picture: whole pixels */
	CHANNELS_MAX = 3,
	ROW_MAX = STRIP + (BLUR_EDGE_MAX - 1) * CHANNELS_MAX,
	BLOCK = 64, /* sums kept at a time */
};

struct kernel {
	uint32_t half;
	float weights[BLUR_EDGE_MAX / 2 + 1]; /* from the outermost to the middle */
};

static void kernel_fill(struct kernel *kernel, uint32_t size, double sigma)
{
	double weights[BLUR_EDGE_MAX / 2 + 1], sum = 0;

	kernel->half = size / 2;
	for (uint32_t i = 0; i <= kernel->half; i++) {
		double distance = (kernel->half - i) / sigma;

		weights[i] = exp(-0.5 * distance * distance);
		sum += i == kernel->half ? weights[i] : 2 * weights[i];
	}
	for (uint32_t i = 0; i <= kernel->half; i++)
		kernel->weights[i] = (float)(weights[i] / sum);
}

/* out[i] = the weighted sum of rows[0 .. 2 half][i]: both ends have the same weights. */
static void blend(const struct kernel *kernel, const float *const *rows, size_t count, float *out)
{
	const float *middle = rows[kernel->half];
	float sums[BLOCK];

	for (size_t at = 0; at < count; at += BLOCK) {
		size_t n = count - at < BLOCK ? count - at : BLOCK;

		for (size_t i = 0; i < n; i++)
			sums[i] = kernel->weights[kernel->half] * middle[at + i];
		for (uint32_t k = 0; k < kernel->half; k++) {
			const float *first = rows[k] + at, *last = rows[2 * kernel->half - k] + at;
			float weight = kernel->weights[k];

			if (n == BLOCK)
				for (size_t i = 0; i < BLOCK; i++)
					sums[i] += weight * (first[i] + last[i]);
			else
				for (size_t i = 0; i < n; i++)
					sums[i] += weight * (first[i] + last[i]);
		}
		for (size_t i = 0; i < n; i++)
			out[at + i] = sums[i];
	}
}

static uint32_t reflect(int64_t at, uint32_t size)
{
	if (at < 0)
		at = -at;
	return (uint32_t)(at < size ? at : 2 * (int64_t)(size - 1) - at);
}

/* Bytes `from` .. `to` of a row, whole pixels, all beyond one of its edges. */
static void fill_reflected(
	const uint8_t *row, uint32_t width, int64_t channels, int64_t from, int64_t to, float *out)
{
	for (int64_t pixel = from / channels; pixel < to / channels; pixel++) {
		const uint8_t *source = row + reflect(pixel, width) * channels;

		for (int64_t c = 0; c < channels; c++)
			*out++ = source[c];
	}
}

/* `count` bytes of a row from byte `first` on, blurred across. */
static void across(const struct kernel *kernel, const struct image *in, uint32_t y, size_t first,
	size_t count, float *out)
{
	int64_t stride = (int64_t)in->width * in->channels;
	int64_t reach = (int64_t)kernel->half * in->channels;
	int64_t from = (int64_t)first - reach, to = (int64_t)(first + count) + reach;
	int64_t begin = from < 0 ? 0 : from, end = to > stride ? stride : to;
	const uint8_t *row = in->pixels + y * stride;
	const float *taps[BLUR_EDGE_MAX];
	float wide[ROW_MAX];

	fill_reflected(row, in->width, in->channels, from, begin, wide);
	for (int64_t i = begin; i < end; i++)
		wide[i - from] = row[i];
	fill_reflected(row, in->width, in->channels, end, to, wide + (end - from));
	for (uint32_t k = 0; k <= 2 * kernel->half; k++)
		taps[k] = wide + k * in->channels;
	blend(kernel, taps, count, out);
}

/* Half to even, of values that are no more than a little beyond 0 .. 255. */
static void to_bytes(const float *values, size_t count, uint8_t *to)
{
	const float shift = 12582912; /* 1.5 * 2^23: behind it floats have no halves left */

	for (size_t i = 0; i < count; i++) {
		float whole = values[i] + shift;

		to[i] = (uint8_t)(int32_t)(whole - shift);
	}
}

static void strip(const struct kernel *horizontal, const struct kernel *vertical,
	const struct image *in, size_t first, size_t count, float *ring, uint8_t *to)
{
	uint32_t size = 2 * vertical->half + 1, done = 0;
	size_t stride = (size_t)in->width * in->channels;
	const float *rows[BLUR_EDGE_MAX];
	float sums[STRIP];

	for (uint32_t y = 0; y < in->height; y++) {
		for (; done < in->height && done <= (uint64_t)y + vertical->half; done++)
			across(horizontal, in, done, first, count, ring + done % size * STRIP);
		for (uint32_t k = 0; k < size; k++)
			rows[k] = ring + reflect((int64_t)y - vertical->half + k, in->height) %
						 size * STRIP;
		blend(vertical, rows, count, sums);
		to_bytes(sums, count, to + y * stride + first);
	}
}

bool blur_fits(const struct blur *blur, uint32_t width, uint32_t height)
{
	return blur->width / 2 < width && blur->height / 2 < height;
}

int blur_draw(const struct blur *blur, const struct image *in, struct image *out)
{
	size_t stride = (size_t)in->width * in->channels;
	int r = image_resize(out, in->width, in->height, in->channels);
	struct kernel horizontal, vertical;
	float *ring;

	if (r < 0)
		return r;
	ring = malloc(blur->height * STRIP * sizeof(*ring));
	if (ring == NULL)
		return -ENOMEM;
	kernel_fill(&horizontal, blur->width, blur->sigma);
	kernel_fill(&vertical, blur->height, blur->sigma);
	for (size_t first = 0; first < stride; first += STRIP)
		strip(&horizontal, &vertical, in, first,
			stride - first < STRIP ? stride - first : STRIP, ring, out->pixels);
	free(ring);
	return 0;
}
