/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/session.h"

#include "daemon/serve/open_request.h"
#include "daemon/serve/served_stream.h"
#include "daemon/util/escape.h"
#include "daemon/util/log.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct served_stream **find_stream(struct session *session, uint32_t id)
{
	for (unsigned i = 0; i < PROTOCOL_STREAMS_MAX; i++) {
		if (session->streams[i] != NULL && session->streams[i]->client_id == id)
			return &session->streams[i];
	}
	return NULL;
}

/* A message may cross the end of its stream on the way; one about a stream that never was is wrong. */
static bool has_been_given(struct session *session, uint32_t id)
{
	if (id != 0 && id <= session->last_stream_id)
		return true;
	session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
		"stream %u has never been opened", id);
	return false;
}

static void end_stream(struct session *session, struct served_stream **entry)
{
	struct served_stream *stream = *entry;

	*entry = NULL;
	session->stream_count--;
	service_drop_stream(stream);
}

/* ---- sending ---- */

static void send_epoch_end(struct session *session, const struct served_stream *stream,
	const struct stream_event_data *event)
{
	Stoker__V1__EpochEnd end = STOKER__V1__EPOCH_END__INIT;

	end.stream = stream->client_id;
	end.epoch = event->epoch;
	end.last = event->last;
	session_send(session, &SERVER_MESSAGE(EPOCH_END, epoch_end, &end), -1);
}

static void send_bad_sample(struct session *session, struct served_stream **entry)
{
	struct stream_fault *fault = &(*entry)->stream.fault;
	char text[2 * ERROR_TEXT_MAX + 2], name[ERROR_TEXT_MAX];
	uint32_t id = (*entry)->client_id;

	bad_samples_note(&(*entry)->dataset->bad, fault->sample,
		(*entry)->dataset->index.header->samples, fault->bad, &fault->reason);
	index_describe(&(*entry)->dataset->index, fault->sample, name, sizeof(name));
	/* The reason comes from a worker, which has seen hostile bytes. */
	escape_sanitize(fault->reason.text);
	snprintf(text, sizeof(text), "%s: %s", name, fault->reason.text);
	log_limited(&session->service->bad_log, LOG_LEVEL_ERROR,
		"client %d (%s), data set %s: sample %" PRIu64 " ends its stream: %s",
		(int)session->pid, session->name, (*entry)->dataset->name, fault->sample, text);
	end_stream(session, entry);
	session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_BAD_SAMPLE, 0, id, text);
}

static size_t put_varint(uint8_t *out, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		out[n++] = (uint8_t)(value | 0x80);
	out[n++] = (uint8_t)value;
	return n;
}

/* Put ServerMessage{batch} on the queue with `data`, written last of Batch, copied once: from the slot. protobuf-c would want it in a buffer of its own, and copy it again. */
static int queue_inline(
	struct session *session, const Stoker__V1__Batch *batch, const uint8_t *data, size_t length)
{
	enum { TAG_BATCH = 3 << 3 | 2, TAG_DATA = 10 << 3 | 2, VARINT_MAX = 10 };
	size_t packed = stoker__v1__batch__get_packed_size(batch), n = 0, data_head;
	_cleanup_free_ uint8_t *head = malloc(packed + 2 + 2 * VARINT_MAX);
	uint8_t length_varint[VARINT_MAX];

	if (head == NULL)
		return -ENOMEM;
	data_head = 1 + put_varint(length_varint, length);
	head[n++] = TAG_BATCH;
	n += put_varint(head + n, packed + data_head + length);
	n += stoker__v1__batch__pack(batch, head + n);
	head[n++] = TAG_DATA;
	n += put_varint(head + n, length);
	return fdio_send_parts(&session->io, head, n, data, length, -1);
}

/* A worker wrote it, which may be broken: whatever is no status of ours is a row not to train on. */
static Stoker__V1__RowStatus row_status(const struct batch_row *row)
{
	switch (row->status) {
	case BATCH_ROW_OK: return STOKER__V1__ROW_STATUS__ROW_OK;
	case BATCH_ROW_REPLACED: return STOKER__V1__ROW_STATUS__ROW_REPLACED;
	default: return STOKER__V1__ROW_STATUS__ROW_MASKED;
	}
}

static uint32_t count_bad(const struct stream *stream, uint32_t slot)
{
	const struct batch_row *rows = arena_rows(&stream->arena, slot);
	uint32_t bad = 0;

	if (stream->params.on_bad_sample == BAD_SAMPLE_ERROR)
		return 0;
	for (uint32_t i = 0; i < stream->slots[slot].rows; i++)
		bad += row_status(&rows[i]) != STOKER__V1__ROW_STATUS__ROW_OK;
	return bad;
}

static void send_inline(
	struct session *session, const struct served_stream *stream, Stoker__V1__Batch *batch)
{
	const struct arena *arena = &stream->stream.arena;
	const struct batch_row *rows = arena_rows(arena, batch->slot);
	_cleanup_free_ uint64_t *samples = malloc(batch->rows * sizeof(*samples));
	_cleanup_free_ int32_t *labels = malloc(batch->rows * sizeof(*labels));
	_cleanup_free_ Stoker__V1__RowStatus *statuses = malloc(batch->rows * sizeof(*statuses));
	int r = -ENOMEM;

	if (samples != NULL && labels != NULL && statuses != NULL) {
		for (uint32_t i = 0; i < batch->rows; i++) {
			samples[i] = rows[i].sample;
			labels[i] = rows[i].label;
			statuses[i] = row_status(&rows[i]);
		}
		batch->n_samples = batch->n_labels = batch->rows;
		batch->samples = samples;
		batch->labels = labels;
		batch->n_statuses = batch->bad > 0 ? batch->rows : 0;
		batch->statuses = statuses;
		r = queue_inline(session, batch, arena_pixels(arena, batch->slot, 0),
			batch->rows * arena->geometry.row_bytes);
	}
	if (r < 0) {
		log_error("client %d (%s): a batch cannot be queued: %s", (int)session->pid,
			session->name, strerror(-r));
		session_close(session);
		return;
	}
	session_flush(session);
}

/* What goes into Batch.bad_row, of rows that are bad also by their status. */
struct bad_row_list {
	Stoker__V1__BadRow entries[PROTOCOL_BAD_ROWS_MAX], *pointers[PROTOCOL_BAD_ROWS_MAX];
};

static size_t list_bad_rows(
	struct bad_row_list *list, const struct bad_rows *bad, const struct batch_row *rows)
{
	size_t count = 0;

	for (uint32_t i = 0; i < bad->count; i++) {
		Stoker__V1__BadRow *entry = &list->entries[count];

		if (row_status(&rows[bad->list[i].row]) == STOKER__V1__ROW_STATUS__ROW_OK)
			continue;
		stoker__v1__bad_row__init(entry);
		entry->row = bad->list[i].row;
		entry->sample = bad->list[i].sample;
		entry->reason = (Stoker__V1__BadReason)bad->list[i].reason;
		entry->text = bad->list[i].text;
		list->pointers[count++] = entry;
	}
	return count;
}

static void send_batch(struct session *session, struct served_stream *stream, uint32_t slot)
{
	/* Taken out of the stream: sending may end the session, and the stream with it. */
	struct bad_rows bad_rows = stream->stream.bad_rows[slot];
	struct bad_row_list list;
	const struct slot *state = &stream->stream.slots[slot];
	struct cursor after = stream_cursor_after(&stream->stream, slot);
	Stoker__V1__Batch batch = STOKER__V1__BATCH__INIT;
	Stoker__V1__Cursor cursor = STOKER__V1__CURSOR__INIT;

	cursor_to_message(&after, &cursor);
	batch.stream = stream->client_id;
	batch.epoch = state->epoch;
	batch.step = state->step;
	batch.rows = state->rows;
	batch.slot = slot;
	batch.generation = state->generation;
	batch.cursor = &cursor;
	batch.bad = count_bad(&stream->stream, slot);
	if (batch.bad > 0)
		batch.n_bad_row =
			list_bad_rows(&list, &bad_rows, arena_rows(&stream->stream.arena, slot));
	batch.bad_row = list.pointers;
	stream->stream.bad_rows[slot] = (struct bad_rows){.list = NULL};
	if (stream->is_inline)
		send_inline(session, stream, &batch);
	else
		session_send(session, &SERVER_MESSAGE(BATCH, batch, &batch), -1);
	bad_rows_clear(&bad_rows);
}

/* Send the stream's next event, if it has one and the socket has room: false when not. */
static bool pump_one(struct session *session, struct served_stream **entry)
{
	struct served_stream *stream = *entry;
	struct stream_event_data event;

	/* An inline batch is as large as it is: one at a time in the queue. */
	if (fdio_queued(&session->io) > (stream->is_inline ? 0 : SESSION_QUEUE_MAX))
		return false;
	switch (stream_next_event(&stream->stream, &event)) {
	case STREAM_BATCH: send_batch(session, stream, event.slot); return true;
	case STREAM_EPOCH_END: send_epoch_end(session, stream, &event); return true;
	case STREAM_BAD_SAMPLE: send_bad_sample(session, entry); return false;
	default: return false;
	}
}

void session_pump(struct session *session)
{
	bool any = true;

	while (any) {
		any = false;
		for (unsigned i = 0; i < PROTOCOL_STREAMS_MAX && !session->closing; i++) {
			unsigned entry = (session->pump_next + i) % PROTOCOL_STREAMS_MAX;

			if (session->streams[entry] == NULL ||
				!pump_one(session, &session->streams[entry]))
				continue;
			any = true;
			/* The others first, next time: the socket may be full now. */
			session->pump_next = entry + 1;
		}
	}
}

/* ---- requests ---- */

void session_handle_release(struct session *session, const Stoker__V1__Release *release)
{
	struct served_stream **entry = find_stream(session, release->stream);

	if (entry == NULL) {
		has_been_given(session, release->stream);
		return;
	}
	if (stream_release(&(*entry)->stream, release->slot, release->generation) != 0) {
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
			"Release of slot %u, generation %u of stream %u, which this client does not hold",
			release->slot, release->generation, release->stream);
		return;
	}
	pool_kick(&session->service->pool);
}

void session_handle_seek(struct session *session, const Stoker__V1__Seek *seek)
{
	Stoker__V1__Sought sought = STOKER__V1__SOUGHT__INIT;
	struct served_stream **entry = find_stream(session, seek->stream);
	struct cursor cursor, own;
	struct error_text error;
	int r;

	if (entry == NULL) {
		if (has_been_given(session, seek->stream))
			session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_UNKNOWN_STREAM,
				seek->request, 0, "the stream has ended");
		return;
	}
	if (seek->cursor == NULL) {
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, seek->request, 0,
			"Seek without a cursor");
		return;
	}
	own = stream_cursor_origin(&(*entry)->stream.params);
	cursor = cursor_from_message(seek->cursor);
	r = cursor_check(&cursor, &own, &error);
	if (r == 0)
		r = stream_seek(&(*entry)->stream, cursor.epoch, cursor.position, &error);
	if (r != 0) {
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_CURSOR, seek->request, 0,
			error.text);
		return;
	}
	sought.request = seek->request;
	sought.stream = seek->stream;
	session_send(session, &SERVER_MESSAGE(SOUGHT, sought, &sought), -1);
	session_pump(session);
	pool_kick(&session->service->pool);
}

void session_handle_close(struct session *session, const Stoker__V1__Close *close)
{
	Stoker__V1__Closed closed = STOKER__V1__CLOSED__INIT;
	struct served_stream **entry = find_stream(session, close->stream);

	if (entry == NULL && !has_been_given(session, close->stream))
		return;
	if (entry != NULL)
		end_stream(session, entry);
	closed.request = close->request;
	closed.stream = close->stream;
	session_send(session, &SERVER_MESSAGE(CLOSED, closed, &closed), -1);
}
