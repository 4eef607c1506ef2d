/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/op/resample.h"

#define RESAMPLE_PRECISION                                                                         \
	22 /* bits behind the point of a weight: 32 - 8 - 2 for sign and overshoot */

/* Fill `axis` for `length` outputs from `from` on, when `in` pixels become `out`; does nothing when it
 * is filled so already. With nearest each output has one weight of 1, or none beyond the picture.
 * 0, RESAMPLE_TOO_LARGE, -ENOMEM. */
int resample_axis_fill(struct resample_axis *axis, uint32_t in, uint32_t out, uint32_t from,
	uint32_t length, enum resample_filter filter);
void resample_axis_finish(struct resample_axis *axis);
