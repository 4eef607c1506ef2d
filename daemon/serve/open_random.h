/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/transform.h"
#include "daemon/util/error.h"
#include "stoker.pb-c.h"

/*
 * Fill `step`, zeroed before, from a random transform of an Open: its kind, `values` and `random`, but
 * for the place in the pipeline, which transform_compile knows. What it takes is what random_op_valid
 * does. 0, or a positive Stoker__V1__ErrorCode with a sentence.
 */
int open_random_parse(struct transform_step *step, const Stoker__V1__Transform *transform,
	struct error_text *error);
