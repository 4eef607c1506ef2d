/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The messages handled here are borrowed, unless pending->answer takes them. */

static int unexpected(struct stoker *stoker, const char *what)
{
	return client_die(
		stoker, -EBADMSG, "the daemon at %s broke the protocol: %s", stoker->socket, what);
}

/* Is a call waiting for an answer of this kind to `request`? */
static bool awaited(
	const struct stoker *stoker, uint32_t request, Stoker__V1__ServerMessage__MessageCase kind)
{
	const struct pending *pending = &stoker->pending;

	return pending->waiting && !pending->answer && pending->request == request &&
	       pending->expected == kind;
}

/* An Open timed out and is answered after all: nobody wants the stream. */
static int take_late_opened(struct stoker *stoker, const Stoker__V1__Opened *opened)
{
	struct stoker_stream *stream = stream_add(stoker, opened->stream);

	if (!stream)
		return client_die(stoker, -ENOMEM, "out of memory");
	if (opened->payload == STOKER__V1__PAYLOAD__PAYLOAD_INLINE)
		stoker->io.max_length = stoker->max_inline_frame;
	stream_bury(stream);
	return 1;
}

static int take_opened(struct stoker *stoker, Stoker__V1__ServerMessage *message, bool *kept)
{
	if (message->opened->stream == 0 || stream_find(stoker, message->opened->stream))
		return unexpected(stoker, "it opened a stream under a number that is taken");
	if (!awaited(stoker, message->opened->request, message->message_case))
		return take_late_opened(stoker, message->opened);
	stoker->pending.answer = message;
	*kept = true;
	return 1;
}

static int take_indexing(struct stoker *stoker, const Stoker__V1__Indexing *indexing)
{
	if (awaited(stoker, indexing->request, stoker->pending.expected)) {
		stoker->pending.indexing = true;
		stoker->pending.indexed = indexing->samples;
	}
	return 1;
}

static struct stoker_stream *find_seek(struct stoker *stoker, uint32_t request)
{
	struct stoker_stream *stream = stoker->streams;

	while (stream && (stream->closed || stream->seek_request != request))
		stream = stream->next;
	return stream;
}

static int take_sought(struct stoker *stoker, const Stoker__V1__Sought *sought)
{
	struct stoker_stream *stream = stream_find(stoker, sought->stream);

	if (!stream)
		return unexpected(stoker, "Sought for a stream that is not open");
	if (stream->closed || stream->seek_request == 0 || stream->seek_request != sought->request)
		return 1; /* another Seek followed it */
	stream->seek_request = 0;
	stream->finished = false;
	stream->end_due = stream_ends_epoch(stream, &stream->seek_cursor);
	stream_drop_queued(stream);
	return 1;
}

static int take_closed(struct stoker *stoker, const Stoker__V1__Closed *closed)
{
	struct stoker_stream *stream = stream_find(stoker, closed->stream);

	if (!stream) /* it had ended by an Error when our Close came */
		return 1;
	if (!stream->closed)
		return unexpected(stoker, "Closed for a stream that was not being closed");
	stream_destroy(stream);
	return 1;
}

static void end_stream(struct stoker_stream *stream, const char *text)
{
	if (stream->closed) { /* nothing but the answer to our Close can follow */
		stream_destroy(stream);
		return;
	}
	stream->ended = true;
	if (!stream->error_text)
		stream->error_text = strdup(text);
}

static int take_error(struct stoker *stoker, Stoker__V1__ServerMessage *message, bool *kept)
{
	Stoker__V1__Error *error = message->error;
	struct stoker_stream *stream;

	text_clean(error->text);
	if (error->stream != 0) {
		stream = stream_find(stoker, error->stream);
		if (!stream)
			return unexpected(stoker, error->text);
		end_stream(stream, error->text);
	} else if (error->request != 0 &&
		   awaited(stoker, error->request, stoker->pending.expected)) {
		stoker->pending.answer = message;
		*kept = true;
	} else if (error->request != 0 && (stream = find_seek(stoker, error->request))) {
		stream->seek_request = 0;
		stream->seek_error = client_errno(error->code);
		free(stream->seek_text);
		stream->seek_text = strdup(error->text);
	}
	if (error->closing || (error->stream == 0 && error->request == 0))
		return client_die(stoker, client_errno(error->code), "%s", error->text);
	return 1;
}

static int take_batch(struct stoker *stoker, Stoker__V1__ServerMessage *message, bool *kept)
{
	struct stoker_stream *stream = stream_find(stoker, message->batch->stream);

	if (!stream || stream->ended)
		return unexpected(stoker, "a batch for a stream that is not open");
	if (stream->closed)
		return 1;
	*kept = true;
	return stream_take_batch(stream, message);
}

static int take_epoch_end(struct stoker *stoker, const Stoker__V1__EpochEnd *end)
{
	struct stoker_stream *stream = stream_find(stoker, end->stream);

	if (!stream || stream->ended)
		return unexpected(stoker, "the end of an epoch of a stream that is not open");
	return stream->closed ? 1 : stream_take_epoch_end(stream, end);
}

/* An answer that is of use to nobody but the call that waits for it. */
static int take_answer(
	struct stoker *stoker, uint32_t request, Stoker__V1__ServerMessage *message, bool *kept)
{
	if (awaited(stoker, request, message->message_case)) {
		stoker->pending.answer = message;
		*kept = true;
	}
	return 1;
}

static int handle(struct stoker *stoker, Stoker__V1__ServerMessage *message, bool *kept)
{
	bool is_welcome = message->message_case == STOKER__V1__SERVER_MESSAGE__MESSAGE_WELCOME;

	if (!stoker->greeted && !is_welcome &&
		message->message_case != STOKER__V1__SERVER_MESSAGE__MESSAGE_ERROR)
		return unexpected(stoker, "its first message is not Welcome");

	switch (message->message_case) {
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_WELCOME:
		if (stoker->greeted || !awaited(stoker, 0, message->message_case))
			return unexpected(stoker, "a second Welcome");
		stoker->pending.answer = message;
		*kept = true;
		return 1;
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_STATUS:
		return take_answer(stoker, message->status->request, message, kept);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_CLASSES:
		return take_answer(stoker, message->classes->request, message, kept);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_SAMPLES:
		return take_answer(stoker, message->samples->request, message, kept);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_GOING_AWAY: stoker->going_away = true; return 1;
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_OPENED: return take_opened(stoker, message, kept);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_INDEXING:
		return take_indexing(stoker, message->indexing);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_BATCH: return take_batch(stoker, message, kept);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_EPOCH_END:
		return take_epoch_end(stoker, message->epoch_end);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_SOUGHT:
		return take_sought(stoker, message->sought);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_CLOSED:
		return take_closed(stoker, message->closed);
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_ERROR: return take_error(stoker, message, kept);
	default: return 1; /* from a newer daemon, and about nothing that we asked for */
	}
}

int client_dispatch(struct stoker *stoker, Stoker__V1__ServerMessage *message, int fd)
{
	bool kept = false;
	int r;

	if (!message) {
		r = unexpected(stoker, "a message cannot be decoded");
	} else {
		bool opened = message->message_case == STOKER__V1__SERVER_MESSAGE__MESSAGE_OPENED;

		r = handle(stoker, message, &kept);
		if (opened && kept) {
			stoker->pending.fd = fd;
			fd = -1;
		}
		if (!kept)
			stoker__v1__server_message__free_unpacked(message, NULL);
	}
	if (fd >= 0)
		close(fd);
	return r;
}
