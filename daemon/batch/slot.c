/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/batch/slot.h"

#include <assert.h>

void slot_begin(struct slot *slot, uint32_t rows, uint64_t epoch, uint64_t step, uint64_t position)
{
	assert(slot->state == SLOT_FREE && rows > 0);
	*slot = (struct slot){
		.state = SLOT_FILLING,
		.generation = slot->generation + 1,
		.rows = rows,
		.epoch = epoch,
		.step = step,
		.position = position,
	};
}

uint32_t slot_take_rows(struct slot *slot, uint32_t most, uint32_t *first)
{
	uint32_t left = slot->rows - slot->rows_begun;
	uint32_t rows = left < most ? left : most;

	assert(slot->state == SLOT_FILLING);
	if (rows == 0 || slot->unwanted)
		return 0;
	*first = slot->rows_begun;
	slot->rows_begun += rows;
	slot->jobs++;
	return rows;
}

void slot_retake_row(struct slot *slot)
{
	assert(slot->state == SLOT_FILLING);
	slot->jobs++;
}

enum slot_state slot_job_done(struct slot *slot, uint32_t rows)
{
	assert(slot->state == SLOT_FILLING && slot->jobs > 0);
	assert(rows <= slot->rows_begun - slot->rows_done);
	slot->jobs--;
	slot->rows_done += rows;
	if (slot->unwanted) {
		if (slot->jobs == 0)
			slot->state = SLOT_FREE;
	} else if (slot->rows_done == slot->rows) {
		slot->state = SLOT_READY;
	}
	return slot->state;
}

void slot_discard(struct slot *slot)
{
	switch (slot->state) {
	case SLOT_READY: slot->state = SLOT_FREE; break;
	case SLOT_FILLING:
		slot->unwanted = true;
		if (slot->jobs == 0)
			slot->state = SLOT_FREE;
		break;
	case SLOT_FREE:
	case SLOT_LENT: break;
	}
}

void slot_lend(struct slot *slot)
{
	assert(slot->state == SLOT_READY);
	slot->state = SLOT_LENT;
}

int slot_release(struct slot *slot, uint32_t generation)
{
	if (slot->state != SLOT_LENT || slot->generation != generation)
		return SLOT_NOT_LENT;
	slot->state = SLOT_FREE;
	return 0;
}

void slot_reclaim(struct slot *slot)
{
	if (slot->state == SLOT_LENT)
		slot->state = SLOT_FREE;
	else
		slot_discard(slot);
}
