/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/transform.h"
#include "daemon/util/error.h"
#include "stoker.pb-c.h"

/* Fill `step`, zeroed before, from one transform of an Open, with each number in its range. Whether it
 * fits the others is for transform_compile. 0, or a positive Stoker__V1__ErrorCode with a sentence. */
int open_transform_parse(struct transform_step *step, const Stoker__V1__Transform *transform,
	struct error_text *error);
