/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"
#include "proto/batch_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void batch_destroy(struct client_batch *batch)
{
	if (batch->message)
		stoker__v1__server_message__free_unpacked(batch->message, NULL);
	free(batch->bad_rows);
	free(batch);
}

const char *bad_reason_name(Stoker__V1__BadReason reason)
{
	switch (reason) {
	case STOKER__V1__BAD_REASON__BAD_PICTURE: return "picture";
	case STOKER__V1__BAD_REASON__BAD_UNREADABLE: return "unreadable";
	case STOKER__V1__BAD_REASON__BAD_SIZE: return "size";
	case STOKER__V1__BAD_REASON__BAD_KILLER: return "killer";
	default: return "other";
	}
}

static int bad_batch(struct stoker_stream *stream, const char *what)
{
	return client_die(stream->stoker, -EBADMSG,
		"the daemon at %s broke the protocol: a batch of stream %u %s",
		stream->stoker->socket, stream->id, what);
}

/* What is wrong with a Batch, or NULL. Nothing in it is used before. */
static const char *check_batch(const struct stoker_stream *stream, const Stoker__V1__Batch *message)
{
	const struct stoker_info *info = &stream->info;

	if (message->rows == 0 || message->rows > info->batch_size)
		return "has a wrong number of rows";
	if (message->step >= info->epoch_batches)
		return "lies beyond its epoch";
	if (!message->cursor)
		return "has no cursor";
	if (stream->batch_count >= info->depth)
		return "is more than was agreed to be in flight";
	for (struct client_batch *other = stream->batches; other; other = other->next) {
		if (other->slot == message->slot)
			return "stands in a slot that was not released";
	}
	if (message->n_bad_row > message->rows || message->n_bad_row > PROTOCOL_BAD_ROWS_MAX)
		return "explains more rows than may be bad";
	for (size_t i = 0; i < message->n_bad_row; i++) {
		if (message->bad_row[i]->row >= message->rows)
			return "explains a row that it does not have";
	}
	if (info->payload == STOKER_SHARED)
		return message->slot < stream->slots ? NULL : "names a slot outside the memory";
	if (message->n_samples != message->rows || message->n_labels != message->rows)
		return "has not one label and one index for each row";
	if (message->n_statuses != 0 && message->n_statuses != message->rows)
		return "has not one status for each row";
	if (message->data.len != message->rows * info->row_bytes)
		return "has not the announced number of bytes";
	return NULL;
}

/* A row that says what we do not know is not one to train on. */
static uint8_t row_status(uint32_t status)
{
	return status <= STOKER_ROW_REPLACED ? (uint8_t)status : STOKER_ROW_MASKED;
}

/* Show the statuses only when there is something to tell. */
static void settle_statuses(struct stoker_batch *batch, const uint8_t *statuses, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i++)
		batch->bad += statuses[i] != STOKER_ROW_OK;
	batch->statuses = batch->bad > 0 ? statuses : NULL;
}

/* Show why rows are bad, in the words of the message, which the batch then keeps. */
static bool take_bad_rows(struct client_batch *batch, Stoker__V1__ServerMessage *whole)
{
	const Stoker__V1__Batch *message = whole->batch;

	if (batch->public.bad == 0 || message->n_bad_row == 0)
		return true;
	batch->bad_rows = calloc(message->n_bad_row, sizeof(*batch->bad_rows));
	if (!batch->bad_rows)
		return false;
	for (size_t i = 0; i < message->n_bad_row; i++) {
		const Stoker__V1__BadRow *from = message->bad_row[i];

		batch->bad_rows[i] = (struct stoker_bad_row){
			.row = from->row,
			.sample = from->sample,
			.reason = bad_reason_name(from->reason),
			.text = text_clean(from->text),
		};
	}
	batch->public.bad_rows = batch->bad_rows;
	batch->public.bad_row_count = (uint32_t)message->n_bad_row;
	batch->message = whole;
	return true;
}

/* The rows of a shared batch are copied out of the memory, where the next use of the slot would
 * overwrite them. One allocation holds the batch and all arrays. */
static struct client_batch *create_shared(
	const struct stoker_stream *stream, const Stoker__V1__Batch *message)
{
	uint32_t rows = message->rows;
	const uint8_t *slot = (const uint8_t *)stream->info.arena + stream->slots_offset +
			      message->slot * stream->slot_stride;
	const struct batch_row *row = (const struct batch_row *)slot;
	struct client_batch *batch =
		malloc(sizeof(*batch) + rows * (sizeof(uint64_t) + sizeof(int32_t) + 1));
	uint64_t *samples;
	int32_t *labels;
	uint8_t *statuses;

	if (!batch)
		return NULL;
	samples = (uint64_t *)(batch + 1);
	labels = (int32_t *)(samples + rows);
	statuses = (uint8_t *)(labels + rows);
	for (uint32_t i = 0; i < rows; i++) {
		samples[i] = row[i].sample;
		labels[i] = row[i].label;
		statuses[i] = row_status(row[i].status);
	}
	*batch = (struct client_batch){
		.public =
			{
				.data = slot + stream->tensor_offset,
				.samples = samples,
				.labels = labels,
			},
	};
	settle_statuses(&batch->public, statuses, rows);
	return batch;
}

/* An inline batch keeps the message, whose arrays it hands out. Consumes it on success. */
static struct client_batch *create_inline(Stoker__V1__ServerMessage *message)
{
	size_t count = message->batch->n_statuses;
	struct client_batch *batch = malloc(sizeof(*batch) + count);
	uint8_t *statuses;

	if (!batch)
		return NULL;
	statuses = (uint8_t *)(batch + 1);
	*batch = (struct client_batch){
		.public =
			{
				.data = message->batch->data.data,
				.samples = message->batch->samples,
				.labels = message->batch->labels,
			},
		.message = message,
	};
	for (size_t i = 0; i < count; i++)
		statuses[i] = row_status((uint32_t)message->batch->statuses[i]);
	settle_statuses(&batch->public, statuses, (uint32_t)count);
	return batch;
}

static void cursor_from_message(struct stoker_cursor *cursor, const Stoker__V1__Cursor *message)
{
	*cursor = (struct stoker_cursor){
		.epoch = message->epoch,
		.position = message->position,
		.seed = message->seed,
		.shuffle = message->shuffle,
		.rank = message->rank,
		.world = message->world,
		.shard_drop = message->shard_drop,
		.drop_last = message->drop_last,
		.fingerprint = message->fingerprint,
	};
}

/* Labels choose memory in a trainer (a row of the loss), and a worker that was broken into could
 * write any. */
static bool labels_in_range(const struct stoker_stream *stream, const struct stoker_batch *batch)
{
	for (uint32_t i = 0; i < batch->rows; i++) {
		if (batch->labels[i] < 0 || batch->labels[i] >= stream->info.classes)
			return false;
	}
	return true;
}

int stream_take_batch(struct stoker_stream *stream, Stoker__V1__ServerMessage *message)
{
	const Stoker__V1__Batch *from = message->batch;
	const char *wrong = check_batch(stream, from);
	struct client_batch *batch;
	int r = 1;

	if (wrong) {
		r = bad_batch(stream, wrong);
		goto free_message;
	}
	batch = stream->info.payload == STOKER_SHARED ? create_shared(stream, from)
						      : create_inline(message);
	if (!batch) {
		r = client_die(stream->stoker, -ENOMEM, "out of memory for a batch");
		goto free_message;
	}
	batch->stream = stream;
	batch->slot = from->slot;
	batch->generation = from->generation;
	batch->public.rows = from->rows;
	batch->public.epoch = from->epoch;
	batch->public.step = from->step;
	cursor_from_message(&batch->public.cursor, from->cursor);
	if (!labels_in_range(stream, &batch->public)) {
		r = bad_batch(stream, "has a label that is no class");
	} else if (!take_bad_rows(batch, message) || !stream_add_event(stream, batch, false)) {
		r = client_die(stream->stoker, -ENOMEM, "out of memory for a batch");
	} else {
		batch->next = stream->batches;
		stream->batches = batch;
		stream->batch_count++;
	}
	if (batch->message)
		message = NULL;
	if (r < 0)
		batch_destroy(batch);
free_message:
	if (message)
		stoker__v1__server_message__free_unpacked(message, NULL);
	return r;
}
