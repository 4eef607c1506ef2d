/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/transform.h"

/* What making a plan and checking one have in common. */

/* The bytes of a row that has the plan's shape and dtype; false when they are too many. */
bool transform_row_bytes(const struct transform_plan *plan, uint64_t *row_bytes);

/* What operations make of a picture is no larger than what a decoder may deliver. */
bool transform_output_bounded(const struct transform_plan *plan);
