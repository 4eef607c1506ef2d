/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/stoker.h"
#include "proto/fdio.h"

#include "stoker.pb-c.h"

/*
 * Inside libstoker. A call that needs an answer sends a request, names it in `stoker->pending` and
 * handles messages one by one (client_step) until its answer is there; whatever comes for other
 * streams meanwhile is queued at them (stream_take_*), bounded by their depth.
 */
enum { CLIENT_MESSAGE_MAX = 768 };

/* The one request whose answer a call is waiting for. */
struct pending {
	bool waiting;
	uint32_t request; /* 0 = Hello */
	Stoker__V1__ServerMessage__MessageCase expected;
	Stoker__V1__ServerMessage *answer; /* NULL until it has come */
	int fd;                            /* that came with the answer, or -1 */
	bool indexing;                     /* an Indexing has come since this was last cleared */
	uint64_t indexed;                  /* samples it named */
};

struct stoker {
	struct fdio io;
	int dead;     /* 0, or the negative errno by which the connection ended */
	bool greeted; /* Welcome has come */
	bool going_away;
	bool send_failed; /* nothing more can be sent; what the daemon still said can be read */
	uint32_t last_request;
	uint64_t max_inline_frame;
	struct stoker_stream *streams; /* open ones, and closed ones until the daemon agrees */
	struct pending pending;
	char socket[108]; /* path, for messages */
	char message[CLIENT_MESSAGE_MAX];
	char death[CLIENT_MESSAGE_MAX]; /* message that belongs to `dead` */
};

/* What a stream hands to stoker_next, in the order of arrival: a batch or the end of an epoch. */
struct event {
	struct client_batch *batch; /* NULL = end of an epoch; owned by stream->batches */
	bool last;                  /* end of an epoch: no other follows */
	struct event *next;
};

/* A batch from its arrival until its release. */
struct client_batch {
	struct stoker_batch public; /* first: stoker_release gets a pointer to it */
	struct stoker_stream *stream;
	uint32_t slot, generation;
	Stoker__V1__ServerMessage *message; /* what `public` points into, or NULL */
	struct stoker_bad_row *bad_rows;    /* of `public` */
	struct client_batch *next;          /* in stream->batches */
};

struct stoker_stream {
	struct stoker *stoker;
	uint32_t id;
	struct stoker_info info;
	uint32_t slots; /* shared payload */
	uint64_t slots_offset, slot_stride, tensor_offset;

	struct client_batch *batches; /* all that must still be released */
	uint32_t batch_count;         /* of these, at most info.depth */
	uint32_t held;                /* of these, returned to the caller */
	struct event *events, **events_end;
	uint32_t epoch_ends; /* of the events */

	bool end_due;          /* the last batch of an epoch was returned, but not its end */
	bool finished;         /* the last epoch's end was returned */
	bool closed;           /* by the caller: only kept to know late messages by */
	bool ended;            /* by the daemon's Error: no message about it will come */
	char *error_text;      /* of that Error */
	uint32_t seek_request; /* 0, or of the Seek that is not yet answered */
	struct stoker_cursor seek_cursor; /* of that Seek */
	int seek_error;                   /* errno of a refused Seek, until it is returned */
	char *seek_text;                  /* likewise */
	struct stoker_stream *next;
};

/* ---- client.c ---- */

/* Set the message and return `code`. */
__attribute__((format(printf, 3, 4))) int client_error(
	struct stoker *stoker, int code, const char *format, ...);

/* The same, and the connection is dead with `code` from now on. */
__attribute__((format(printf, 3, 4))) int client_die(
	struct stoker *stoker, int code, const char *format, ...);

/* Forget a connection, so that another can be made. */
void client_disconnect(struct stoker *stoker);

/* ---- connection.c ---- */

/* `timeout_ms` from now in milliseconds of CLOCK_MONOTONIC; negative = INT64_MAX, never. */
int64_t client_deadline(int timeout_ms);

/* poll(2) one descriptor until `deadline`, signals or not: 1 = ready, 0 = too late, or -errno. */
int client_poll(int fd, short events, int64_t deadline);

/* Queue a message and send what the socket takes. 0, or a negative errno: it cannot be sent. */
int client_send(struct stoker *stoker, const Stoker__V1__ClientMessage *message);
uint32_t client_next_request(struct stoker *stoker);

/* Handle one message from the daemon: 1 = handled, 0 = none came before the deadline, negative =
 * the connection is dead. */
int client_step(struct stoker *stoker, int64_t deadline);

/* Wait for the answer to `request` (0 = Hello), which was just sent and is answered by `expected`:
 * 0 and *answer, which the caller frees; the errno of an Error answer or of a dead connection; or
 * -ETIMEDOUT, for which an Indexing starts the time anew. */
int client_wait(struct stoker *stoker, uint32_t request,
	Stoker__V1__ServerMessage__MessageCase expected, int timeout_ms,
	Stoker__V1__ServerMessage **answer);

/* The same for Opened: *fd came with it (or -1) and goes to the caller. `indexing` (may be NULL) is
 * called for each Indexing. */
int client_wait_opened(struct stoker *stoker, uint32_t request, int timeout_ms,
	void (*indexing)(uint64_t samples, void *data), void *data,
	Stoker__V1__ServerMessage **answer, int *fd);

/* The errno that stands for a daemon's Error. */
int client_errno(Stoker__V1__ErrorCode code);

/* ---- dispatch.c ---- */

/* Handle one message; consumes both arguments. 1, or negative when the connection is dead. */
int client_dispatch(struct stoker *stoker, Stoker__V1__ServerMessage *message, int fd);

/* ---- arena.c ---- */

/* Check what Opened says about samples and memory against what was asked for, fill in stream->info
 * and map the memory of a shared stream. `fd` (or -1) is borrowed. 0; -EBADMSG = the daemon must not
 * be trusted further; other errno = could not be mapped. */
int stream_adopt(struct stoker_stream *stream, const struct stoker_options *options,
	const Stoker__V1__Opened *opened, int fd);

/* ---- stream.c ---- */

/* Add an empty stream with this id to the connection's, or NULL without memory. */
struct stoker_stream *stream_add(struct stoker *stoker, uint32_t id);
struct stoker_stream *stream_find(struct stoker *stoker, uint32_t id);

/* Give up batches, events and mapping. */
void stream_clear(struct stoker_stream *stream);

/* Take off the list and free. */
void stream_destroy(struct stoker_stream *stream);

/* Keep the stream only until the daemon agrees that it is closed; asks it to. */
void stream_bury(struct stoker_stream *stream);

/* The errno and message of a refused Seek, once; 0 when there is none. */
int stream_seek_result(struct stoker_stream *stream);

/* ---- batch.c ---- */

/* Check a Batch and queue it: 1, or negative when the connection is dead. Consumes the message. */
int stream_take_batch(struct stoker_stream *stream, Stoker__V1__ServerMessage *message);

/* The word for a reason. */
const char *bad_reason_name(Stoker__V1__BadReason reason);

/* Free a batch that is on no list. */
void batch_destroy(struct client_batch *batch);

/* ---- next.c ---- */

int stream_take_epoch_end(struct stoker_stream *stream, const Stoker__V1__EpochEnd *end);

/* Queue a batch, or with NULL the end of an epoch. False without memory. */
bool stream_add_event(struct stoker_stream *stream, struct client_batch *batch, bool last);

/* Does an epoch end at this cursor, so that EpochEnd comes before any batch? A seek may have begun
 * anywhere, so the step of a batch does not tell. */
bool stream_ends_epoch(const struct stoker_stream *stream, const struct stoker_cursor *after);

/* Drop what is queued, and release the batches among it to the daemon. */
void stream_drop_queued(struct stoker_stream *stream);

/* Forget all batches and events without telling anybody. */
void stream_free_batches(struct stoker_stream *stream);

/* ---- open.c ---- */

void cursor_to_message(Stoker__V1__Cursor *message, const struct stoker_cursor *cursor);

/* ---- text.c ---- */

/* A copy that is fit for a terminal: control bytes and what is no UTF-8 become \xHH, a backslash is
 * doubled. NULL without memory. */
char *text_dup_escaped(const void *bytes, size_t length);

/* Replace control characters and what is no UTF-8 by '?', in place. Returns `text`. */
char *text_clean(char *text);

/* Is it UTF-8, as a `string` of the protocol must be? */
bool text_is_utf8(const char *text);
