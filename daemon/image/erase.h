/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/transform.h"

/* Clear a rectangle of a finished row, as RandomErasing does. */
void erase_row(const struct transform_plan *plan, const struct transform_erase *erase,
	const struct random_key *key, void *row);
