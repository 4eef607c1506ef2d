/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Names of parts of a data set, written as tensorflow-datasets writes them:
 *
 *   train            the whole of it
 *   train[:90%]      train[90%:]    train[1000:2000]    train[:500]    train[-10%:]    train[10%:5000]
 *
 * A bound is a number of samples or a whole percentage from 0% to 100%; with '-' it counts from the
 * end; none is the start, or the end. p% of n samples is n * p / 100 rounded to the nearest whole
 * number, a half to the even one (Python's round(n * p / 100)), and -p% is the same place as
 * (100 - p)%. So a bound is one place however it is written, and [:p%] and [p%:] never overlap or leave
 * a gap. The bounds are places in a fixed shuffled order of the data set, see part.h.
 */
enum {
	PART_BAD = 1,         /* `error` says what is wrong, and where */
	PART_BOUNDS_MAX = 32, /* bytes of the longest "[FROM:TO]", and its NUL */
};

struct part_bound {
	bool given, from_end, percent;
	uint64_t value; /* of percent: 0 .. 100 */
};

struct part_name {
	size_t dataset_length; /* bytes of the data set's own name */
	struct part_bound from, to;
};

/* Take the name apart. Without a bracket all of it is the data set's name, whatever is in it. 0 or
 * PART_BAD. */
int part_name_parse(
	struct part_name *name, const void *text, size_t length, struct error_text *error);

/* Which places these are in a data set of `samples`: *first <= place < *end, never empty. 0 or
 * PART_BAD; the error does not repeat the name. */
int part_name_resolve(const struct part_name *name, uint64_t samples, uint64_t *first,
	uint64_t *end, struct error_text *error);

/* The bounds again, "[:90%]", or "" of a whole data set. */
void part_name_format(const struct part_name *name, char text[PART_BOUNDS_MAX]);
