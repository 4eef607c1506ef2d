/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/order.h"
#include "daemon/util/error.h"

#include <stdbool.h>
#include <stdint.h>

/* A place in a stream's order of samples, as clients store it (message Cursor). */
struct cursor {
	uint64_t epoch;
	uint64_t position; /* samples of this rank before it in the epoch */
	struct order_params order;
	bool drop_last;
	uint64_t fingerprint; /* of the data set's index, or of a part of it: part_fingerprint() */
};

enum { CURSOR_DIFFERS = 1 };

/* Does `cursor` belong to the order and data set of `own`? 0, or CURSOR_DIFFERS with what differs. */
int cursor_check(const struct cursor *cursor, const struct cursor *own, struct error_text *error);
