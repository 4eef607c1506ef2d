/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/transform.h"
#include "daemon/util/error.h"
#include "stoker.pb-c.h"

/*
 * Fill `step`, zeroed before, from a random transform of an Open: its kind, `values` and `random`, but
 * for the place in the pipeline, which transform_compile knows. Each number is finite and in its range; the least of two is not greater
 * than the other. 0, or a positive Stoker__V1__ErrorCode with a sentence.
 */
int open_random_parse(struct transform_step *step, const Stoker__V1__Transform *transform,
	struct error_text *error);

/* No double of a random transform is further from 0; none that must be more than 0 is less than its
 * inverse. It keeps products and quotients of them finite. Values of RandomErasing are float32. */
#define OPEN_RANDOM_NUMBER_MAX 1e6
