/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SEEK_TIMEOUT_MS = 30000 };

struct stoker_stream *stream_add(struct stoker *stoker, uint32_t id)
{
	struct stoker_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->stoker = stoker;
	stream->id = id;
	stream->events_end = &stream->events;
	stream->next = stoker->streams;
	stoker->streams = stream;
	return stream;
}

struct stoker_stream *stream_find(struct stoker *stoker, uint32_t id)
{
	struct stoker_stream *stream = stoker->streams;

	while (stream && stream->id != id)
		stream = stream->next;
	return stream;
}

void stream_clear(struct stoker_stream *stream)
{
	stream_free_batches(stream);
	if (stream->info.arena)
		munmap((void *)stream->info.arena, stream->info.arena_bytes);
	stream->info.arena = NULL;
	stream->info.arena_bytes = 0;
	free(stream->error_text);
	stream->error_text = NULL;
	free(stream->seek_text);
	stream->seek_text = NULL;
}

void stream_destroy(struct stoker_stream *stream)
{
	struct stoker_stream **link = &stream->stoker->streams;

	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	stream_clear(stream);
	free(stream);
}

void stream_bury(struct stoker_stream *stream)
{
	Stoker__V1__Close close = STOKER__V1__CLOSE__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;

	stream_clear(stream);
	stream->closed = true;
	close.request = client_next_request(stream->stoker);
	close.stream = stream->id;
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_CLOSE;
	message.close = &close;
	/* When it cannot be sent, the connection is dead and the next call will say so. */
	client_send(stream->stoker, &message);
}

void stoker_close(struct stoker_stream *stream)
{
	if (!stream)
		return;
	if (stream->ended || stream->stoker->dead)
		stream_destroy(stream);
	else
		stream_bury(stream);
}

const struct stoker_info *stoker_stream_info(const struct stoker_stream *stream)
{
	return &stream->info;
}

int stream_seek_result(struct stoker_stream *stream)
{
	int r = stream->seek_error;

	if (r == 0)
		return 0;
	client_error(stream->stoker, r, "%s",
		stream->seek_text ? stream->seek_text : "the seek was refused");
	free(stream->seek_text);
	stream->seek_text = NULL;
	stream->seek_error = 0;
	return r;
}

int stoker_seek(struct stoker_stream *stream, const struct stoker_cursor *cursor)
{
	Stoker__V1__Cursor place = STOKER__V1__CURSOR__INIT;
	Stoker__V1__Seek seek = STOKER__V1__SEEK__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	struct stoker *stoker = stream->stoker;
	int64_t deadline = client_deadline(SEEK_TIMEOUT_MS);
	int r;

	cursor_to_message(&place, cursor);
	seek.request = client_next_request(stoker);
	seek.stream = stream->id;
	seek.cursor = &place;
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_SEEK;
	message.seek = &seek;
	if (!stream->ended) {
		r = client_send(stoker, &message);
		if (r < 0)
			return r;
		stream->seek_request = seek.request;
		stream->seek_cursor = *cursor;
	}
	while (stream->seek_request != 0 && !stream->ended) {
		r = client_step(stoker, deadline);
		if (r < 0)
			return r;
		if (r == 0)
			return client_error(stoker, -ETIMEDOUT,
				"the daemon at %s has not answered a seek for %d s", stoker->socket,
				SEEK_TIMEOUT_MS / 1000);
	}
	if (stream->ended)
		return client_error(stoker, -EIO, "%s",
			stream->error_text ? stream->error_text : "the stream has ended");
	return stream_seek_result(stream);
}
