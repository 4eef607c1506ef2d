/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/stream.h"

#include "daemon/worker/render_policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Work worth a message: jobs are cut to about this time, so that a batch of large pictures is
	 * spread over the workers and one of thumbnails does not drown in messages. */
	JOB_TARGET_NS = 400000,
	JOB_FIRST_ROWS = 8, /* before anything is known */
};

uint64_t stream_epoch_batches(const struct stream_params *params)
{
	uint64_t samples = order_length(&params->order);

	return samples / params->batch_size +
	       (!params->drop_last && samples % params->batch_size != 0);
}

/* Does a batch begin at `position`? */
static bool batch_at(const struct stream *stream, uint64_t position)
{
	uint64_t least = stream->params.drop_last ? stream->params.batch_size : 1;

	return position <= stream->order.length && stream->order.length - position >= least;
}

static bool is_last_epoch(const struct stream *stream, uint64_t epoch)
{
	return stream->params.epochs != 0 &&
	       epoch >= stream->params.first_epoch + stream->params.epochs - 1;
}

int stream_init_consume_arena(
	struct stream *stream, const struct stream_params *params, struct arena *arena)
{
	uint32_t slots = arena->geometry.slots;
	int r;

	memset(stream, 0, sizeof(*stream));
	stream->arena = (struct arena)ARENA_NULL;
	stream->params = *params;
	stream->part.count = params->order.samples;
	stream->filling = -1;
	r = order_init(&stream->order, &params->order);
	if (r < 0)
		return r;
	stream->slots = calloc(slots, sizeof(*stream->slots));
	stream->bad_rows = calloc(slots, sizeof(*stream->bad_rows));
	stream->queue = calloc(slots, sizeof(*stream->queue));
	if (stream->slots == NULL || stream->bad_rows == NULL || stream->queue == NULL) {
		stream_finish(stream);
		return -ENOMEM;
	}
	stream->arena = *arena;
	*arena = (struct arena)ARENA_NULL;
	stream->free_slots = slots;
	stream->fill_epoch = stream->send_epoch = params->first_epoch;
	order_set_epoch(&stream->order, params->first_epoch);
	return 0;
}

void stream_finish(struct stream *stream)
{
	order_finish(&stream->order);
	for (uint32_t i = 0; stream->bad_rows != NULL && i < stream->arena.geometry.slots; i++)
		bad_rows_clear(&stream->bad_rows[i]);
	arena_finish(&stream->arena);
	free(stream->slots);
	free(stream->bad_rows);
	free(stream->queue);
	free(stream->retries);
	suspects_finish(&stream->suspects);
	stream->slots = NULL;
	stream->bad_rows = NULL;
	stream->queue = NULL;
	stream->retries = NULL;
}

/* ---- jobs ---- */

/* Move the fill side over epoch ends; false when there is nothing further. */
static bool find_next_batch(struct stream *stream)
{
	while (!stream->fill_ended && !batch_at(stream, stream->fill_position)) {
		if (is_last_epoch(stream, stream->fill_epoch)) {
			stream->fill_ended = true;
		} else {
			stream->fill_epoch++;
			stream->fill_position = 0;
		}
	}
	if (!stream->fill_ended && stream->order.epoch != stream->fill_epoch)
		order_set_epoch(&stream->order, stream->fill_epoch);
	return !stream->fill_ended;
}

/* Begin the next batch in a free slot. */
static bool begin_batch(struct stream *stream)
{
	const struct stream_params *params = &stream->params;
	uint64_t left;
	uint32_t slot = 0, rows;

	if (stream->free_slots == 0 || !find_next_batch(stream))
		return false;
	while (stream->slots[slot].state != SLOT_FREE)
		slot++;
	left = stream->order.length - stream->fill_position;
	rows = left < params->batch_size ? (uint32_t)left : params->batch_size;
	slot_begin(&stream->slots[slot], rows, stream->fill_epoch,
		stream->fill_position / params->batch_size, stream->fill_position);
	bad_rows_clear(&stream->bad_rows[slot]);
	stream->free_slots--;
	stream->fill_position += rows;
	stream->queue[(stream->queue_head + stream->queue_count++) % stream->arena.geometry.slots] =
		slot;
	stream->filling = slot;
	return true;
}

bool stream_has_work(const struct stream *stream)
{
	if (stream->stopped)
		return false;
	if (stream->retry_count > 0)
		return true;
	if (stream->fault.set)
		return false;
	return stream->filling >= 0 || (stream->free_slots > 0 && !stream->fill_ended);
}

static void take_retry(struct stream *stream, struct pool_job *job)
{
	const struct stream_retry *retry = &stream->retries[--stream->retry_count];

	slot_retake_row(&stream->slots[retry->slot]);
	job->render.slot = retry->slot;
	job->render.first_row = retry->row;
	job->render.rows = 1;
	job->render.epoch = stream->slots[retry->slot].epoch;
	job->render.samples[0] = retry->sample;
}

/* The sample of an attempt at a row of the job. */
static uint64_t attempt_sample(
	const struct stream *stream, const struct job_render *job, uint32_t row, uint32_t attempt)
{
	return job_attempt_sample(job, stream->params.order.seed, row, attempt, &stream->part);
}

/* How many attempts there may be at a row. */
static uint32_t attempts(const struct stream *stream)
{
	return stream->params.on_bad_sample == BAD_SAMPLE_REPLACE && stream->part.count > 1
		       ? 1 + REPLACE_TRIES
		       : 1;
}

/* Tell the worker which samples have killed workers before. */
static void skip_killers(const struct stream *stream, struct job_render *job)
{
	if (stream->suspects.count == 0 || stream->params.on_bad_sample == BAD_SAMPLE_ERROR)
		return;
	for (uint32_t row = 0; row < job->rows; row++) {
		for (uint32_t n = 0; n < attempts(stream); n++) {
			uint64_t sample = attempt_sample(stream, job, row, n);

			if (suspects_deaths(&stream->suspects, sample) >= SUSPECT_DEATHS)
				job->skip[row] |= (uint16_t)(1 << n);
		}
	}
}

static uint32_t rows_per_job(const struct stream *stream, uint32_t most_rows)
{
	uint64_t rows = stream->row_ns == 0 ? JOB_FIRST_ROWS : JOB_TARGET_NS / stream->row_ns;

	if (rows < 1)
		rows = 1;
	if (rows > JOB_ROWS_MAX)
		rows = JOB_ROWS_MAX;
	return rows < most_rows ? (uint32_t)rows : most_rows;
}

bool stream_next_job(struct stream *stream, uint32_t most_rows, struct pool_job *job)
{
	struct slot *slot;
	uint32_t first;

	if (!stream_has_work(stream))
		return false;
	memset(job, 0, sizeof(*job));
	job->stream = &stream->source;
	job->render.kind = JOB_RENDER;
	job->render.stream = stream->source.attach.stream;
	if (stream->retry_count > 0) {
		take_retry(stream, job);
		skip_killers(stream, &job->render);
		stream->jobs++;
		return true;
	}
	if (stream->filling < 0 && !begin_batch(stream))
		return false;
	slot = &stream->slots[stream->filling];
	job->render.slot = (uint32_t)stream->filling;
	job->render.rows = slot_take_rows(slot, rows_per_job(stream, most_rows), &first);
	job->render.first_row = first;
	job->render.epoch = slot->epoch;
	for (uint32_t i = 0; i < job->render.rows; i++)
		job->render.samples[i] = part_sample(
			&stream->part, order_at(&stream->order, slot->position + first + i));
	skip_killers(stream, &job->render);
	if (slot->rows_begun == slot->rows)
		stream->filling = -1;
	stream->jobs++;
	return true;
}

/* Keep the bad sample that comes first in the order. */
static void note_fault(struct stream *stream, const struct pool_job *job, uint32_t row,
	enum bad_reason bad, const struct error_text *reason)
{
	struct stream_fault *fault = &stream->fault;
	uint32_t in_batch = job->render.first_row + row;
	const struct slot *slot = &stream->slots[job->render.slot];

	if (fault->set) {
		const struct slot *other = &stream->slots[fault->slot];
		uint64_t theirs = other->position + fault->row, ours = slot->position + in_batch;

		if (other->epoch < slot->epoch || (other->epoch == slot->epoch && theirs <= ours))
			return;
	}
	fault->set = true;
	fault->slot = job->render.slot;
	fault->row = in_batch;
	fault->sample = job->render.samples[row];
	fault->bad = bad;
	fault->reason = *reason;
	if (stream->filling == fault->slot)
		stream->filling = -1;
}

static void job_returned(struct stream *stream, const struct pool_job *job, uint32_t rows_done)
{
	struct slot *slot = &stream->slots[job->render.slot];

	stream->jobs--;
	switch (slot_job_done(slot, rows_done)) {
	case SLOT_READY: stream->ready++; break;
	case SLOT_FREE: stream->free_slots++; break;
	default: break;
	}
}

/* Whatever was tried at these rows has been survived. */
static void absolve(struct stream *stream, const struct pool_job *job, uint32_t rows)
{
	for (uint32_t row = 0; stream->suspects.count > 0 && row < rows; row++) {
		for (uint32_t n = 0; n < attempts(stream); n++)
			suspects_absolve(
				&stream->suspects, attempt_sample(stream, &job->render, row, n));
	}
}

void stream_row_bad(struct stream *stream, const struct pool_job *job, uint32_t row,
	enum bad_reason reason, const struct error_text *text)
{
	const struct job_render *render = &job->render;

	if (!stream->slots[render->slot].unwanted)
		bad_rows_note(&stream->bad_rows[render->slot], render->first_row + row,
			render->samples[row], reason, text);
}

void stream_job_rendered(
	struct stream *stream, const struct pool_job *job, const struct result *result)
{
	bool wanted = !stream->slots[job->render.slot].unwanted;

	if (result->rows_done > 0) {
		uint64_t row_ns = result->busy_ns / result->rows_done;

		stream->row_ns = stream->row_ns == 0 ? row_ns : (7 * stream->row_ns + row_ns) / 8;
	}
	if (wanted && result->rows_done < job->render.rows)
		note_fault(stream, job, result->rows_done, (enum bad_reason)result->bad,
			&result->reason);
	absolve(stream, job, result->rows_done);
	job_returned(stream, job, result->rows_done);
}

static bool push_retry(struct stream *stream, const struct stream_retry *retry)
{
	if (stream->retry_count == stream->retry_capacity) {
		size_t capacity = 2 * JOB_ROWS_MAX + 2 * stream->retry_capacity;
		struct stream_retry *retries =
			realloc(stream->retries, capacity * sizeof(*retries));

		if (retries == NULL)
			return false;
		stream->retries = retries;
		stream->retry_capacity = capacity;
	}
	stream->retries[stream->retry_count++] = *retry;
	return true;
}

/* A worker has died at row `row` by its own fault. 0, or -EIO when that row cannot be had by any
 * worker, or -ENOMEM, with the reason. */
static int blame(struct stream *stream, const struct pool_job *job, uint32_t row,
	const struct pool_loss *loss, struct error_text *reason)
{
	uint32_t attempt = loss->attempt < attempts(stream) ? loss->attempt : 0;
	bool skipped = job->render.skip[row] >> attempt & 1;
	int deaths = suspects_blame(
		&stream->suspects, attempt_sample(stream, &job->render, row, attempt));

	if (deaths < 0)
		return error_set(reason, deaths, "out of memory");
	if (skipped)
		return error_set(reason, -EIO, "it kills workers (%s) even when it is left out",
			loss->cause);
	if (deaths >= SUSPECT_DEATHS && stream->params.on_bad_sample == BAD_SAMPLE_ERROR)
		return error_set(
			reason, -EIO, "its decoding has killed a worker twice (%s)", loss->cause);
	return 0;
}

void stream_job_lost(
	struct stream *stream, const struct pool_job *job, const struct pool_loss *loss)
{
	bool wanted = !stream->slots[job->render.slot].unwanted;
	struct error_text reason;

	for (uint32_t row = loss->rows_done; wanted && row < job->render.rows; row++) {
		struct stream_retry retry = {
			.slot = job->render.slot,
			.row = job->render.first_row + row,
			.sample = job->render.samples[row],
		};

		if (loss->fault && row == loss->rows_done &&
			blame(stream, job, row, loss, &reason) < 0) {
			note_fault(stream, job, row, BAD_KILLER, &reason);
		} else if (!push_retry(stream, &retry)) {
			error_set(&reason, 0, "out of memory");
			note_fault(stream, job, row, BAD_KILLER, &reason);
		}
	}
	absolve(stream, job, loss->rows_done);
	job_returned(stream, job, loss->rows_done);
}

/* ---- events ---- */

static bool has_retry(const struct stream *stream, uint32_t slot)
{
	for (size_t i = 0; i < stream->retry_count; i++) {
		if (stream->retries[i].slot == slot)
			return true;
	}
	return false;
}

static enum stream_event end_epoch(struct stream *stream, struct stream_event_data *data)
{
	data->epoch = stream->send_epoch++;
	data->last = is_last_epoch(stream, data->epoch);
	stream->send_position = 0;
	stream->send_ended = data->last;
	return STREAM_EPOCH_END;
}

enum stream_event stream_next_event(struct stream *stream, struct stream_event_data *data)
{
	struct slot *slot;
	uint32_t head;

	if (stream->stopped || stream->send_ended)
		return STREAM_NOTHING;
	if (!batch_at(stream, stream->send_position))
		return end_epoch(stream, data);
	if (stream->queue_count == 0)
		return STREAM_NOTHING;
	head = stream->queue[stream->queue_head];
	slot = &stream->slots[head];
	if (slot->state != SLOT_READY) {
		/* Rows before the bad one may still be on their way, and be bad too. */
		bool settled = slot->jobs == 0 && !has_retry(stream, head);

		return stream->fault.set && stream->fault.slot == head && settled
			       ? STREAM_BAD_SAMPLE
			       : STREAM_NOTHING;
	}
	stream->queue_head = (stream->queue_head + 1) % stream->arena.geometry.slots;
	stream->queue_count--;
	stream->ready--;
	slot_lend(slot);
	stream->send_position = slot->position + slot->rows;
	stream->batches_sent++;
	stream->samples_sent += slot->rows;
	data->slot = head;
	data->epoch = slot->epoch;
	return STREAM_BATCH;
}

int stream_release(struct stream *stream, uint32_t slot, uint32_t generation)
{
	if (slot >= stream->arena.geometry.slots ||
		slot_release(&stream->slots[slot], generation) != 0)
		return SLOT_NOT_LENT;
	stream->free_slots++;
	return 0;
}

struct cursor stream_cursor_origin(const struct stream_params *params)
{
	return (struct cursor){
		.epoch = params->first_epoch,
		.order = params->order,
		.drop_last = params->drop_last,
		.fingerprint = params->fingerprint,
	};
}

struct cursor stream_cursor_after(const struct stream *stream, uint32_t slot)
{
	struct cursor cursor = stream_cursor_origin(&stream->params);

	cursor.epoch = stream->slots[slot].epoch;
	cursor.position = stream->slots[slot].position + stream->slots[slot].rows;
	return cursor;
}

/* Drop everything that has not been sent. */
static void discard_queue(struct stream *stream)
{
	for (; stream->queue_count > 0; stream->queue_count--) {
		struct slot *slot = &stream->slots[stream->queue[stream->queue_head]];

		slot_discard(slot);
		bad_rows_clear(&stream->bad_rows[stream->queue[stream->queue_head]]);
		stream->free_slots += slot->state == SLOT_FREE;
		stream->queue_head = (stream->queue_head + 1) % stream->arena.geometry.slots;
	}
	stream->ready = 0;
	stream->filling = -1;
	stream->retry_count = 0;
	suspects_absolve_all(&stream->suspects);
	stream->fault.set = false;
}

int stream_seek(struct stream *stream, uint64_t epoch, uint64_t position, struct error_text *error)
{
	const struct stream_params *params = &stream->params;

	if (params->epochs != 0 && epoch > params->first_epoch + params->epochs - 1)
		return error_set(error, CURSOR_DIFFERS,
			"the cursor is in epoch %" PRIu64
			", but this stream ends with epoch %" PRIu64,
			epoch, params->first_epoch + params->epochs - 1);
	discard_queue(stream);
	stream->fill_epoch = stream->send_epoch = epoch;
	stream->fill_position = stream->send_position = position;
	stream->fill_ended = stream->send_ended = false;
	return 0;
}

void stream_stop(struct stream *stream)
{
	discard_queue(stream);
	stream->stopped = true;
}

void stream_count_slots(
	const struct stream *stream, uint32_t *filling, uint32_t *ready, uint32_t *lent)
{
	*filling = *ready = *lent = 0;
	for (uint32_t i = 0; i < stream->arena.geometry.slots; i++) {
		*filling += stream->slots[i].state == SLOT_FILLING;
		*ready += stream->slots[i].state == SLOT_READY;
		*lent += stream->slots[i].state == SLOT_LENT;
	}
}
