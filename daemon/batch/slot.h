/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * One slot of an arena holds one batch on its way. Pure bookkeeping: no memory, no sockets.
 *
 *   from      event                  to        done by
 *   FREE      a batch begins         FILLING   slot_begin (generation + 1)
 *   FILLING   its last row is done   READY     slot_job_done
 *   READY     sent to the client     LENT      slot_lend
 *   LENT      Release, generation ok FREE      slot_release
 *   READY     discarded              FREE      slot_discard (seek, close, client gone)
 *   FILLING   discarded              FILLING*  slot_discard: unwanted, begins no more rows
 *   FILLING*  its last job returned  FREE      slot_job_done
 *   LENT      the client is gone     FREE      slot_reclaim
 *
 * The generation tells a Release for an earlier batch in the same slot from one for this batch.
 */
enum slot_state {
	SLOT_FREE = 0,
	SLOT_FILLING,
	SLOT_READY,
	SLOT_LENT,
};

struct slot {
	enum slot_state state;
	bool unwanted; /* FILLING and discarded */
	uint32_t generation;
	uint32_t rows;       /* samples in this batch */
	uint32_t rows_begun; /* rows [0, rows_begun) have been given to jobs */
	uint32_t rows_done;
	uint32_t jobs; /* out with workers */
	uint64_t epoch;
	uint64_t step;
	uint64_t position; /* of row 0 in the rank's order */
};

/* Start a batch in a FREE slot. */
void slot_begin(struct slot *slot, uint32_t rows, uint64_t epoch, uint64_t step, uint64_t position);

/* Take up to `most` rows for one job: returns how many, with the first in *first; 0 = none left. */
uint32_t slot_take_rows(struct slot *slot, uint32_t most, uint32_t *first);

/* A row that was lost is given to a job again. */
void slot_retake_row(struct slot *slot);

/* A job came back with `rows` rows rendered (0 for a job whose rows are lost or bad). Returns the new
 * state: READY when the batch is complete, FREE when it was unwanted and this was its last job. */
enum slot_state slot_job_done(struct slot *slot, uint32_t rows);

/* Nobody wants this batch any more. LENT slots stay lent until released. */
void slot_discard(struct slot *slot);

void slot_lend(struct slot *slot);

enum {
	SLOT_NOT_LENT = 1, /* not LENT, or another generation: the client breaks the protocol */
};

int slot_release(struct slot *slot, uint32_t generation);

/* The client is gone: what it held is free, what is on its way is unwanted. */
void slot_reclaim(struct slot *slot);
