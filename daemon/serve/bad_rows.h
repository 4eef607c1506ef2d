/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"
#include "daemon/worker/job.h"
#include "proto/frame.h"

#include <stdint.h>

/*
 * Why rows of one batch on its way are not OK, kept until the batch is sent: in the order of the rows,
 * whichever worker was first, and no more than the first PROTOCOL_BAD_ROWS_MAX. Costs nothing until
 * one is bad.
 */
struct bad_row {
	uint32_t row;
	enum bad_reason reason;
	uint64_t sample; /* that the row was meant for */
	char *text;      /* at most PROTOCOL_BAD_TEXT_MAX bytes, fit for people */
};

enum {
	/* Bytes that one takes, at most: the list may have twice the room that it needs. */
	BAD_ROW_MEMORY = 2 * sizeof(struct bad_row) + PROTOCOL_BAD_TEXT_MAX + 32,
};

struct bad_rows {
	struct bad_row *list;
	uint32_t count, capacity;
};

/* Row `row` is bad. Said again of the same row, the last word counts. Without memory it is forgotten:
 * its status says that it is bad all the same. */
void bad_rows_note(struct bad_rows *bad, uint32_t row, uint64_t sample, enum bad_reason reason,
	const struct error_text *text);

/* Forget all, and give the memory back. */
void bad_rows_clear(struct bad_rows *bad);
