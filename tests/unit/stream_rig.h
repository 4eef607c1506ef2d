/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stream with everything around it played by the test: workers that take jobs and answer in any
 * order, and a client that holds batches. Each event is checked against what PyTorch's order says
 * must come next, each row against the sample that was rendered into it.
 */
#include "daemon/serve/stream.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum {
	RIG_SLOTS = 8,
	RIG_BATCH = 64,
	RIG_JOBS = 64,
	RIG_SAMPLES = 512,
	RIG_EMPTY = -1, /* content of a row that nobody has written */
};

/* A job with a worker. */
struct rig_job {
	struct pool_job job;
	uint32_t generation; /* of its slot */
};

struct rig {
	struct stream stream;
	struct rig_job jobs[RIG_JOBS]; /* out, oldest first */
	unsigned job_count;
	int64_t content[RIG_SLOTS][RIG_BATCH]; /* sample rendered into each row */
	uint32_t lent[RIG_SLOTS];              /* slots that the client holds, oldest first */
	unsigned lent_count;
	/* What must come next. */
	struct order order;
	uint64_t epoch, position;
	bool ended, bad_sample;
	uint64_t batches, epochs;  /* events so far */
	bool spoiled[RIG_SAMPLES]; /* samples that cannot be decoded */
	uint64_t random;
};

/* xorshift64: the same numbers in each run. */
static inline uint32_t rig_random(struct rig *rig, uint32_t below)
{
	rig->random ^= rig->random << 13;
	rig->random ^= rig->random >> 7;
	rig->random ^= rig->random << 17;
	return (uint32_t)(rig->random >> 32) % below;
}

static inline struct stream_params rig_params(
	uint64_t samples, uint32_t batch_size, uint64_t epochs)
{
	return (struct stream_params){
		.order = {.samples = samples, .shuffle = true, .seed = 3, .world = 1},
		.batch_size = batch_size,
		.epochs = epochs,
		.fingerprint = 77,
	};
}

/* ---- workers that die ---- */

static inline void rig_start(struct rig *rig, const struct stream_params *params, uint32_t slots)
{
	struct arena arena = ARENA_NULL;

	assert_true(slots <= RIG_SLOTS && params->batch_size <= RIG_BATCH);
	memset(rig, 0, sizeof(*rig));
	memset(rig->content, 0xff, sizeof(rig->content));
	rig->random = 0x9e3779b97f4a7c15;
	/* The stream only counts slots: it needs no memory for their pixels. */
	assert_int_equal(arena_geometry_init(&arena.geometry, slots, params->batch_size, 1), 0);
	assert_int_equal(stream_init_consume_arena(&rig->stream, params, &arena), 0);
	assert_int_equal(order_init(&rig->order, &params->order), 0);
	rig->epoch = params->first_epoch;
	order_set_epoch(&rig->order, rig->epoch);
}

static inline void rig_finish(struct rig *rig)
{
	stream_finish(&rig->stream);
	order_finish(&rig->order);
}

/* What must hold at any time. */
static inline void rig_check(const struct rig *rig)
{
	const struct stream *stream = &rig->stream;
	uint32_t filling, ready, lent, jobs = 0, unwanted = 0;

	stream_count_slots(stream, &filling, &ready, &lent);
	assert_int_equal(stream->free_slots + filling + ready + lent, stream->arena.geometry.slots);
	assert_int_equal(stream->ready, ready);
	assert_int_equal(lent, rig->lent_count);
	for (uint32_t i = 0; i < stream->arena.geometry.slots; i++) {
		jobs += stream->slots[i].jobs;
		unwanted += stream->slots[i].state == SLOT_FILLING && stream->slots[i].unwanted;
		assert_true(stream->slots[i].state == SLOT_FILLING || stream->slots[i].jobs == 0);
	}
	assert_int_equal(stream->jobs, rig->job_count);
	assert_int_equal(jobs, rig->job_count);
	assert_int_equal(stream->queue_count, filling + ready - unwanted);
}

/* Give a worker its next job: false when there is none. */
static inline bool rig_take(struct rig *rig, uint32_t most_rows)
{
	struct rig_job *out = &rig->jobs[rig->job_count];
	const struct job_render *render = &out->job.render;
	const struct slot *slot;

	assert_true(rig->job_count < RIG_JOBS);
	if (!stream_next_job(&rig->stream, most_rows, &out->job)) {
		assert_false(stream_has_work(&rig->stream));
		return false;
	}
	slot = &rig->stream.slots[render->slot];
	assert_ptr_equal(out->job.stream, &rig->stream.source);
	assert_int_equal(render->kind, JOB_RENDER);
	assert_in_range(render->rows, 1, most_rows < JOB_ROWS_MAX ? most_rows : JOB_ROWS_MAX);
	assert_true(render->slot < rig->stream.arena.geometry.slots);
	assert_true(render->first_row + render->rows <= slot->rows);
	assert_int_equal(slot->state, SLOT_FILLING);
	for (uint32_t i = 0; i < render->rows; i++)
		assert_int_equal(rig->content[render->slot][render->first_row + i], RIG_EMPTY);
	out->generation = slot->generation;
	rig->job_count++;
	return true;
}

/* Take job `i` off the list. Its slot must still be the one that it was taken for, whatever has
 * happened to the stream: a worker may have written into it until now. */
static inline struct pool_job rig_pull(struct rig *rig, unsigned i)
{
	struct rig_job out = rig->jobs[i];
	const struct slot *slot = &rig->stream.slots[out.job.render.slot];

	assert_true(i < rig->job_count);
	assert_int_equal(slot->state, SLOT_FILLING);
	assert_int_equal(slot->generation, out.generation);
	memmove(&rig->jobs[i], &rig->jobs[i + 1], (--rig->job_count - i) * sizeof(struct rig_job));
	return out.job;
}

static inline void rig_write(struct rig *rig, const struct pool_job *job, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i++)
		rig->content[job->render.slot][job->render.first_row + i] =
			(int64_t)job->render.samples[i];
}

/* A slot that has become free holds nothing that counts. */
static inline void rig_forget(struct rig *rig)
{
	for (uint32_t i = 0; i < rig->stream.arena.geometry.slots; i++) {
		if (rig->stream.slots[i].state == SLOT_FREE)
			memset(rig->content[i], 0xff, sizeof(rig->content[i]));
	}
}

/* Job `i` comes back, rendered up to its first spoiled sample. */
static inline void rig_render(struct rig *rig, unsigned i)
{
	struct pool_job job = rig_pull(rig, i);
	struct result result = {.kind = RESULT_RENDERED, .busy_ns = 1000};

	while (result.rows_done < job.render.rows &&
		!rig->spoiled[job.render.samples[result.rows_done]])
		result.rows_done++;
	if (result.rows_done < job.render.rows)
		error_set(&result.reason, 0, "spoiled %" PRIu64,
			job.render.samples[result.rows_done]);
	rig_write(rig, &job, result.rows_done);
	stream_job_rendered(&rig->stream, &job, &result);
	rig_forget(rig);
}

/* Job `i` is lost with its worker, after `rows_done` rows. */
static inline void rig_lose(struct rig *rig, unsigned i, uint32_t rows_done, bool fault)
{
	struct pool_job job = rig_pull(rig, i);
	struct pool_loss loss = {
		.rows_done = rows_done, .fault = fault, .cause = fault ? "SIGSEGV" : "SIGKILL"};

	rig_write(rig, &job, rows_done);
	stream_job_lost(&rig->stream, &job, &loss);
	rig_forget(rig);
}

static inline void rig_check_batch(struct rig *rig, uint32_t slot_number)
{
	const struct slot *slot = &rig->stream.slots[slot_number];
	const struct stream_params *params = &rig->stream.params;
	uint64_t left = rig->order.length - rig->position;
	struct cursor after = stream_cursor_after(&rig->stream, slot_number);

	assert_int_equal(slot->state, SLOT_LENT);
	assert_int_equal(slot->epoch, rig->epoch);
	assert_int_equal(slot->position, rig->position);
	assert_int_equal(slot->step, rig->position / params->batch_size);
	assert_int_equal(slot->rows, left < params->batch_size ? left : params->batch_size);
	assert_true(slot->rows == params->batch_size || !params->drop_last);
	for (uint32_t i = 0; i < slot->rows; i++)
		assert_int_equal(
			rig->content[slot_number][i], order_at(&rig->order, rig->position + i));
	rig->position += slot->rows;
	assert_int_equal(after.epoch, rig->epoch);
	assert_int_equal(after.position, rig->position);
	rig->lent[rig->lent_count++] = slot_number;
	rig->batches++;
}

static inline void rig_check_epoch_end(struct rig *rig, const struct stream_event_data *event)
{
	const struct stream_params *params = &rig->stream.params;
	uint64_t left = rig->order.length - rig->position;

	assert_true(left == 0 || (params->drop_last && left < params->batch_size));
	assert_int_equal(event->epoch, rig->epoch);
	assert_int_equal(event->last,
		params->epochs != 0 && rig->epoch + 1 >= params->first_epoch + params->epochs);
	rig->ended = event->last;
	rig->epoch++;
	rig->position = 0;
	order_set_epoch(&rig->order, rig->epoch);
	rig->epochs++;
}

/* The first spoiled sample from here on is the one that is told about, and its batch is the next. */
static inline void rig_check_bad_sample(struct rig *rig)
{
	const struct stream_fault *fault = &rig->stream.fault;
	uint32_t row = 0;

	while (rig->position + row < rig->order.length &&
		!rig->spoiled[order_at(&rig->order, rig->position + row)])
		row++;
	assert_true(rig->position + row < rig->order.length);
	assert_true(row < rig->stream.params.batch_size);
	assert_int_equal(fault->row, row);
	assert_int_equal(fault->sample, order_at(&rig->order, rig->position + row));
	assert_int_equal(rig->stream.slots[fault->slot].position, rig->position);
	rig->bad_sample = true;
}

/* Take all events that are due. */
static inline void rig_hear(struct rig *rig)
{
	for (;;) {
		struct stream_event_data event;

		switch (stream_next_event(&rig->stream, &event)) {
		case STREAM_NOTHING: return;
		case STREAM_BATCH:
			assert_false(rig->ended);
			rig_check_batch(rig, event.slot);
			break;
		case STREAM_EPOCH_END:
			assert_false(rig->ended);
			rig_check_epoch_end(rig, &event);
			break;
		case STREAM_BAD_SAMPLE: rig_check_bad_sample(rig); return;
		}
	}
}

/* The client gives back the `i`th batch that it holds. */
static inline void rig_release(struct rig *rig, unsigned i)
{
	uint32_t slot = rig->lent[i];

	assert_int_equal(stream_release(&rig->stream, slot, rig->stream.slots[slot].generation), 0);
	memmove(&rig->lent[i], &rig->lent[i + 1], (--rig->lent_count - i) * sizeof(uint32_t));
	rig_forget(rig);
}

static inline void rig_seek(struct rig *rig, uint64_t epoch, uint64_t position)
{
	assert_int_equal(stream_seek(&rig->stream, epoch, position, NULL), 0);
	rig->epoch = epoch;
	rig->position = position;
	rig->ended = false;
	order_set_epoch(&rig->order, epoch);
	rig_forget(rig);
}

/* Everybody does all there is to do, in order, until the stream ends or `batches` more have come. */
static inline void rig_play(struct rig *rig, uint64_t batches)
{
	uint64_t until = batches < UINT64_MAX - rig->batches ? rig->batches + batches : UINT64_MAX;

	rig_hear(rig);
	while (!rig->ended && !rig->bad_sample && rig->batches < until) {
		while (rig->lent_count > 0)
			rig_release(rig, 0);
		while (rig->job_count < RIG_JOBS && rig_take(rig, JOB_ROWS_MAX)) {
		}
		assert_true(rig->job_count > 0);
		rig_render(rig, 0);
		rig_hear(rig);
		rig_check(rig);
	}
}
