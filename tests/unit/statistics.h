/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Does a count of independent draws fit? The tests draw with fixed seeds, so that these either hold always
 * or never; a wrong distribution misses them by far. */

/* Pearson's statistic of counts that should all be equal. */
static inline double chi_square(const unsigned *counts, size_t bins, double total)
{
	double sum = 0, wanted = total / (double)bins;

	for (size_t i = 0; i < bins; i++)
		sum += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
	return sum;
}

/* The bound that it exceeds once in 1,000 times (Wilson and Hilferty 1931). */
static inline double chi_square_bound(size_t bins)
{
	double freedom = (double)bins - 1, step = 2 / (9 * freedom);

	return freedom * pow(1 - step + 3.0902 * sqrt(step), 3);
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The distance of Kolmogorov and Smirnov, times the root of `count`, from a distribution function that
 * `values`, sorted by this call, have been put through. Above 1.95 once in 1,000 times. */
static inline double kolmogorov_smirnov(double *values, size_t count)
{
	double most = 0;

	qsort(values, count, sizeof(*values), compare_doubles);
	for (size_t i = 0; i < count; i++) {
		most = fmax(most, values[i] - (double)i / (double)count);
		most = fmax(most, (double)(i + 1) / (double)count - values[i]);
	}
	return most * sqrt((double)count);
}

#define KOLMOGOROV_SMIRNOV_BOUND 1.95
