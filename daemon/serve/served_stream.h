/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/serve/open_request.h"
#include "daemon/serve/service.h"
#include "daemon/serve/shared_part.h"

enum {
	SERVED_NAME_MAX = 128, /* bytes of a configured name and of bounds, and a NUL */
};

/* A stream with what it keeps alive: its data set, and its share of the memory budget. */
struct served_stream {
	struct stream stream; /* first: the pool's callbacks get this pointer */
	struct service *service;
	struct dataset *dataset;    /* referenced */
	struct shared_part *part;   /* referenced; NULL = all of the data set */
	char name[SERVED_NAME_MAX]; /* as the client called it: "train[:90%]" */
	uint32_t client_id;         /* its number on its connection */
	uint64_t charged;           /* bytes of the memory budget that it holds */
	bool is_inline;
	bool releasing; /* given to pool_release_stream */
};

/* Check a request against its data set, which must be READY, and make the stream for it. Its memory
 * is reserved but not yet there: served_stream_populate follows, then served_stream_ready. 0, or a
 * positive Stoker__V1__ErrorCode with a sentence. */
int served_stream_create(struct service *service, const struct open_request *request,
	struct dataset *dataset, struct served_stream **created, struct error_text *error);

/* Draw the part and take the memory, in a thread: 0, -errno, or -ECANCELED when *cancelled became true. */
int served_stream_populate(const struct served_stream *stream, atomic_bool *cancelled);

/* Then, on the loop, make it fit for jobs. */
void served_stream_ready(struct served_stream *stream);

/* A sample is bad: count it with its data set, and log it when that is news. */
void served_stream_note_bad(struct served_stream *stream, uint64_t sample, enum bad_reason reason,
	const struct error_text *why);

/* Samples were rendered with these notes (enum render_note): log what the data set's users should know,
 * once. */
void served_stream_note(struct served_stream *stream, uint32_t notes);

/* Free a stream that is not, or no longer, in the schedule, and give its memory back. */
void served_stream_destroy(struct served_stream *stream);
