/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <stdlib.h>

bool stream_add_event(struct stoker_stream *stream, struct client_batch *batch, bool last)
{
	struct event *event = malloc(sizeof(*event));

	if (!event)
		return false;
	*event = (struct event){.batch = batch, .last = last};
	*stream->events_end = event;
	stream->events_end = &event->next;
	return true;
}

int stream_take_epoch_end(struct stoker_stream *stream, const Stoker__V1__EpochEnd *end)
{
	/* Every epoch has a batch, so this bounds the queue as depth bounds the batches. */
	if (stream->epoch_ends > stream->info.depth)
		return client_die(stream->stoker, -EBADMSG,
			"the daemon at %s broke the protocol: epochs without batches",
			stream->stoker->socket);
	if (!stream_add_event(stream, NULL, end->last))
		return client_die(stream->stoker, -ENOMEM, "out of memory");
	stream->epoch_ends++;
	return 1;
}

/* Take the first event off the queue: false = there is none. */
static bool pop_event(struct stoker_stream *stream, struct event *popped)
{
	struct event *event = stream->events;

	if (!event)
		return false;
	*popped = *event;
	stream->events = event->next;
	if (!stream->events)
		stream->events_end = &stream->events;
	if (!event->batch)
		stream->epoch_ends--;
	free(event);
	return true;
}

static void unlink_batch(struct client_batch *batch)
{
	struct client_batch **link = &batch->stream->batches;

	while (*link != batch)
		link = &(*link)->next;
	*link = batch->next;
	batch->stream->batch_count--;
}

/* Tell the daemon and free. A dead connection shows at the next stoker_next. */
static void release(struct client_batch *batch)
{
	Stoker__V1__Release release = STOKER__V1__RELEASE__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	struct stoker_stream *stream = batch->stream;

	release.stream = stream->id;
	release.slot = batch->slot;
	release.generation = batch->generation;
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_RELEASE;
	message.release = &release;
	unlink_batch(batch);
	if (!stream->ended && !stream->stoker->dead)
		client_send(stream->stoker, &message);
	batch_destroy(batch);
}

void stoker_release(struct stoker_batch *public)
{
	struct client_batch *batch = (struct client_batch *)public;

	if (!batch)
		return;
	batch->stream->held--;
	release(batch);
}

void stream_drop_queued(struct stoker_stream *stream)
{
	struct event event;

	while (pop_event(stream, &event)) {
		if (event.batch)
			release(event.batch);
	}
}

void stream_free_batches(struct stoker_stream *stream)
{
	struct event event;

	while (pop_event(stream, &event))
		;
	while (stream->batches) {
		struct client_batch *batch = stream->batches;

		unlink_batch(batch);
		batch_destroy(batch);
	}
	stream->held = 0;
}

bool stream_ends_epoch(const struct stoker_stream *stream, const struct stoker_cursor *after)
{
	uint64_t samples = stream->info.epoch_samples;
	uint64_t least = after->drop_last ? stream->info.batch_size : 1;

	return after->position >= samples || samples - after->position < least;
}

/* Return the first queued event, or STOKER_AGAIN. */
static int take_event(struct stoker_stream *stream, struct stoker_batch **batch)
{
	struct event event;

	if (!pop_event(stream, &event))
		return STOKER_AGAIN;
	if (!event.batch) {
		stream->end_due = false;
		stream->finished = event.last;
		return STOKER_EPOCH_END;
	}
	stream->held++;
	stream->end_due = stream_ends_epoch(stream, &event.batch->public.cursor);
	*batch = &event.batch->public;
	return STOKER_BATCH;
}

int stoker_next(struct stoker_stream *stream, int timeout_ms, struct stoker_batch **batch)
{
	struct stoker *stoker = stream->stoker;
	int64_t deadline = client_deadline(timeout_ms);

	*batch = NULL;
	for (;;) {
		bool stuck = false;
		int r;

		if (stream->seek_request == 0) {
			r = stream_seek_result(stream);
			if (r == 0)
				r = take_event(stream, batch);
			if (r != STOKER_AGAIN)
				return r;
			if (stream->finished)
				return STOKER_END;
			/* With every batch held, only the end of an epoch can still come. */
			stuck = stream->held == stream->info.depth && !stream->end_due;
		}
		if (stream->ended)
			return client_error(stoker, -EIO, "%s",
				stream->error_text ? stream->error_text : "the stream has ended");
		if (stoker->going_away)
			return client_error(stoker, -ESHUTDOWN, "the daemon at %s is being stopped",
				stoker->socket);
		r = client_step(stoker, stuck ? client_deadline(0) : deadline);
		if (r < 0)
			return r;
		if (r == 0 && stuck)
			return client_error(stoker, -EDEADLK,
				"all %u batches in flight are held: release one, or open the stream "
				"with a larger depth",
				stream->held);
		if (r == 0)
			return STOKER_AGAIN;
	}
}
