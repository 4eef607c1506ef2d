/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/resample_weights.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* The expressions are Pillow's, operation for operation: another order rounds differently. */
static double box(double x)
{
	return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double bilinear(double x)
{
	x = fabs(x);
	return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x)
{
	x = fabs(x);
	if (x == 0.0)
		return 1.0;
	if (x >= 1.0)
		return 0.0;
	x = x * M_PI;
	return sin(x) / x * (0.54f + 0.46f * cos(x));
}

static double bicubic(double x)
{
	const double a = -0.5;

	x = fabs(x);
	if (x < 1.0)
		return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
	if (x < 2.0)
		return (((x - 5) * x + 8) * x - 4) * a;
	return 0.0;
}

static double sinc(double x)
{
	if (x == 0.0)
		return 1.0;
	x = x * M_PI;
	return sin(x) / x;
}

static double lanczos(double x)
{
	return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct kernel {
	double (*value)(double);
	double support;
} kernels[] = {
	[RESAMPLE_BILINEAR] = {bilinear, 1.0},
	[RESAMPLE_BICUBIC] = {bicubic, 2.0},
	[RESAMPLE_LANCZOS] = {lanczos, 3.0},
	[RESAMPLE_BOX] = {box, 0.5},
	[RESAMPLE_HAMMING] = {hamming, 1.0},
};

static int reserve(struct resample_axis *axis, uint32_t length, size_t weights)
{
	/* Weights of one huge picture must not stay for ever. */
	enum { KEEP = 256 << 10 };

	if (axis->outputs >= length && axis->capacity >= weights && axis->capacity <= KEEP)
		return 0;
	resample_axis_finish(axis);
	axis->first = calloc(length, sizeof(*axis->first));
	axis->count = calloc(length, sizeof(*axis->count));
	axis->weights = calloc(weights, sizeof(*axis->weights));
	if (axis->first == NULL || axis->count == NULL || axis->weights == NULL) {
		resample_axis_finish(axis);
		return -ENOMEM;
	}
	axis->outputs = length;
	axis->capacity = weights;
	return 0;
}

/* The range of inputs that one output is made of. */
static void find_range(double center, double support, uint32_t in, uint32_t *first, uint32_t *count)
{
	double low = center - support + 0.5, high = center + support + 0.5;
	uint32_t begin = low < 0 ? 0 : (uint32_t)low;
	uint32_t end = high > in ? in : (uint32_t)high;

	*first = begin;
	*count = end - begin;
}

static int32_t round_weight(double weight)
{
	double scaled = weight * (1 << RESAMPLE_PRECISION);

	return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* `values` has room for the weights of one output. */
static void fill_weights(struct resample_axis *axis, const struct kernel *kernel, double *values)
{
	double scale = (double)(float)axis->in / axis->out; /* Pillow's box is float */
	double filter_scale = scale < 1.0 ? 1.0 : scale;
	double support = kernel->support * filter_scale, step = 1.0 / filter_scale;

	for (uint32_t i = 0; i < axis->length; i++) {
		double center = 0.0 + (axis->from + i + 0.5) * scale, sum = 0.0;
		int32_t *weights = axis->weights + (size_t)i * axis->taps;

		find_range(center, support, axis->in, &axis->first[i], &axis->count[i]);
		for (uint32_t k = 0; k < axis->count[i]; k++) {
			double at = (double)k + axis->first[i];

			values[k] = kernel->value((at - center + 0.5) * step);
			sum += values[k];
		}
		for (uint32_t k = 0; k < axis->count[i]; k++)
			weights[k] = round_weight(sum != 0.0 ? values[k] / sum : values[k]);
	}
}

/* Pillow adds the step up instead of multiplying it, and leaves what lies beyond the picture 0. */
static void fill_nearest(struct resample_axis *axis)
{
	double step = (double)(float)axis->in / axis->out, at = step * 0.5;

	for (uint32_t i = 0; i < axis->from; i++)
		at += step;
	for (uint32_t i = 0; i < axis->length; i++) {
		bool inside = at < axis->in;

		axis->first[i] = inside ? (uint32_t)at : axis->in - 1;
		axis->count[i] = inside;
		axis->weights[i] = 1 << RESAMPLE_PRECISION;
		at += step;
	}
}

int resample_axis_fill(struct resample_axis *axis, uint32_t in, uint32_t out, uint32_t from,
	uint32_t length, enum resample_filter filter)
{
	double scale = (double)in / out < 1.0 ? 1.0 : (double)in / out;
	uint64_t taps = 1;
	double *values;
	int r;

	if (axis->weights != NULL && axis->in == in && axis->out == out && axis->from == from &&
		axis->length == length && axis->filter == filter)
		return 0;
	if (filter != RESAMPLE_NEAREST)
		taps = (uint64_t)ceil(kernels[filter].support * scale) * 2 + 1;
	if (taps > RESAMPLE_WEIGHTS_MAX / length)
		return RESAMPLE_TOO_LARGE;
	r = reserve(axis, length, taps * length);
	if (r < 0)
		return r;
	values = calloc(taps, sizeof(*values));
	if (values == NULL) {
		resample_axis_finish(axis);
		return -ENOMEM;
	}
	axis->in = in;
	axis->out = out;
	axis->from = from;
	axis->length = length;
	axis->filter = filter;
	axis->taps = (uint32_t)taps;
	if (filter == RESAMPLE_NEAREST)
		fill_nearest(axis);
	else
		fill_weights(axis, &kernels[filter], values);
	free(values);
	return 0;
}

void resample_axis_finish(struct resample_axis *axis)
{
	free(axis->first);
	free(axis->count);
	free(axis->weights);
	*axis = (struct resample_axis){.weights = NULL};
}
