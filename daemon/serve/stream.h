/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/batch/arena.h"
#include "daemon/batch/slot.h"
#include "daemon/data/order.h"
#include "daemon/data/part.h"
#include "daemon/serve/bad_rows.h"
#include "daemon/serve/cursor.h"
#include "daemon/serve/suspects.h"
#include "daemon/worker/pool_job.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * One client's way through a data set: turns the order of samples into jobs, jobs into ready slots,
 * and ready slots into events in the order of the batches. Pure: no loop, no sockets.
 *
 *   order -> stream_next_job -> (a worker) -> stream_job_rendered / stream_job_lost
 *         -> stream_next_event: STREAM_BATCH -> (the client) -> stream_release -> the next batch
 *
 * What goes wrong with a sample shows in its place: the batches before it are delivered first. With
 * BAD_SAMPLE_MASK and BAD_SAMPLE_REPLACE nothing goes wrong: whoever renders fills the row otherwise,
 * and the stream only says which samples not to try (job_render.skip).
 */
struct stream_params {
	struct order_params order; /* of positions in the data set, or in a part of it */
	uint32_t batch_size;
	bool drop_last;
	uint64_t first_epoch;
	uint64_t epochs; /* 0 = endless */
	enum bad_sample_policy on_bad_sample;
	uint64_t fingerprint;
};

/* Rows that a dead worker left behind, rendered again one by one. */
struct stream_retry {
	uint32_t slot, row;
	uint64_t sample;
};

/* The first bad sample of a batch. */
struct stream_fault {
	bool set;
	uint32_t slot, row;
	uint64_t sample;
	enum bad_reason bad;
	struct error_text reason;
};

struct stream {
	struct pool_stream source; /* first: the pool's callbacks get this pointer */
	struct stream_params params;
	struct order order;
	struct part part; /* which samples the positions are: all; else to be set before the first
			   * job, and borrowed */
	struct arena arena;
	struct slot *slots;
	struct bad_rows *bad_rows; /* of each slot */
	uint32_t free_slots;

	uint64_t fill_epoch, fill_position; /* of the next batch to begin */
	bool fill_ended;
	int64_t filling; /* slot with rows not yet given to jobs, or -1 */

	uint32_t *queue; /* slots FILLING or READY, in the order of their batches; a ring */
	uint32_t queue_head, queue_count;
	uint32_t ready; /* slots READY */

	uint64_t send_epoch, send_position; /* of the next batch to send */
	bool send_ended;

	struct stream_retry *retries;
	size_t retry_count, retry_capacity;
	struct suspects suspects;
	struct stream_fault fault;
	uint32_t jobs; /* out */
	bool stopped;
	uint64_t row_ns; /* time that a worker takes for one row, running average */

	uint64_t batches_sent, samples_sent;
	uint64_t served; /* the scheduler's clock when it last got a job */
	void *owner;     /* the session, NULL once it is gone */
};

/* Samples and batches that a rank gets per epoch. */
uint64_t stream_epoch_batches(const struct stream_params *params);

/* The arena is taken (moved) only on success; it must have the batch size of `params`. -ENOMEM,
 * -EINVAL. source.attach and source.fds are the caller's to fill. */
int stream_init_consume_arena(
	struct stream *stream, const struct stream_params *params, struct arena *arena);
void stream_finish(struct stream *stream);

/* Is there a job to be had? */
bool stream_has_work(const struct stream *stream);

/* Take the next job, of at most `most_rows` rows; false when there is none. */
bool stream_next_job(struct stream *stream, uint32_t most_rows, struct pool_job *job);

/* Row `row` of the job is done but bad; before the job is rendered or lost. */
void stream_row_bad(struct stream *stream, const struct pool_job *job, uint32_t row,
	enum bad_reason reason, const struct error_text *text);

void stream_job_rendered(
	struct stream *stream, const struct pool_job *job, const struct result *result);
void stream_job_lost(
	struct stream *stream, const struct pool_job *job, const struct pool_loss *loss);

enum stream_event {
	STREAM_NOTHING = 0,
	STREAM_BATCH,      /* *slot is LENT from now on */
	STREAM_EPOCH_END,  /* *epoch is over; *last: no other follows */
	STREAM_BAD_SAMPLE, /* stream->fault says which; the stream must be stopped */
};

struct stream_event_data {
	uint32_t slot;
	uint64_t epoch;
	bool last;
};

/* The next thing to tell the client, if its time has come; taken by this call. */
enum stream_event stream_next_event(struct stream *stream, struct stream_event_data *data);

/* 0 or SLOT_NOT_LENT. */
int stream_release(struct stream *stream, uint32_t slot, uint32_t generation);

/* The place after the batch in `slot`. */
struct cursor stream_cursor_after(const struct stream *stream, uint32_t slot);

/* The place where the stream began, with its order; for cursor_check. */
struct cursor stream_cursor_origin(const struct stream_params *params);

/* Go on at an epoch and position that cursor_check has passed: 0, or CURSOR_DIFFERS when that is after
 * the last epoch. */
int stream_seek(struct stream *stream, uint64_t epoch, uint64_t position, struct error_text *error);

/* No more jobs and events. The stream may go when stream->jobs is 0 and the pool has unmapped it. */
void stream_stop(struct stream *stream);

/* Slots by state, for status. */
void stream_count_slots(
	const struct stream *stream, uint32_t *filling, uint32_t *ready, uint32_t *lent);
