/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/serve/service.h"
#include "daemon/util/error.h"
#include "daemon/util/escape.h"
#include "proto/fdio.h"
#include "proto/frame.h"
#include "stoker.pb-c.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

/*
 * One client: its socket, what it has been promised and what it holds.
 *
 *   NEW --Hello--> GREETED --violation, error of the socket, GoingAway--> closed
 *
 * A violation is answered with an Error and costs that client its connection, and nobody else
 * anything.
 */
enum {
	SESSION_QUEUE_MAX =
		1 << 20, /* with more waiting to be sent, nothing is read from the client */
};

struct opening;
struct listing;

struct session {
	uv_poll_t poll;
	struct fdio io;
	struct service *service;
	struct session *next, *previous;
	pid_t pid; /* of the client, when it connected */
	uid_t uid;
	char name[ESCAPE_MAX]; /* escaped; "" before Hello */
	bool greeted, takes_fds, closing;
	bool frames_left;   /* received, and not handled yet */
	bool caught_up;     /* nothing waits for room in the socket but what is queued */
	unsigned pump_next; /* stream whose turn it is to be sent first */
	int events;         /* polled for */
	struct served_stream *streams[PROTOCOL_STREAMS_MAX];
	struct opening *openings; /* linked list of Opens that wait */
	uint32_t stream_count;    /* streams and openings */
	struct listing *listings; /* linked list of lists whose data set is being indexed */
	uint32_t listing_count;
	struct dataset *listed_dataset;  /* of the part of which a list goes on, both referenced; */
	struct shared_part *listed_part; /* or NULL */
	uint32_t last_stream_id;
};

/* Serve a client on `fd` (taken, non-blocking). Logs and closes on failure. */
void session_start_consume_fd(struct service *service, int fd);

/* Close the connection; streams are dropped, memory goes when the loop has closed the handle. */
void session_close(struct session *session);

/* Tell the client that the daemon is going away, and close. */
void session_dismiss(struct session *session);

/* ---- for the session_*.c files ---- */

#define SERVER_MESSAGE(CASE, field, body)                                                          \
	((Stoker__V1__ServerMessage){                                                              \
		.base = PROTOBUF_C_MESSAGE_INIT(&stoker__v1__server_message__descriptor),          \
		.message_case = STOKER__V1__SERVER_MESSAGE__MESSAGE_##CASE,                        \
		.field = (body)})

/* Queue a message, with a descriptor (borrowed) or -1, and send what the socket takes. A failure
 * closes the session, but for -EMFILE: the descriptor cannot be duplicated, and nothing is queued. */
int session_send(struct session *session, const Stoker__V1__ServerMessage *message, int fd);

/* Send what is queued and poll for what is wanted next. */
void session_flush(struct session *session);

/* Refuse a request, or end a stream (`stream` != 0), with a sentence. The connection goes on. */
void session_refuse(struct session *session, Stoker__V1__ErrorCode code, uint32_t request,
	uint32_t stream, const char *text);

/* The client broke the protocol: tell it and close. */
__attribute__((format(printf, 3, 4))) void session_violation(
	struct session *session, Stoker__V1__ErrorCode code, const char *format, ...);

/* session_dataset.c */

/* The data set of this name, borrowed; or NULL after refusing the request. */
struct dataset *session_find_dataset(
	struct session *session, const void *name, size_t length, uint32_t request);

/* Why a data set that has FAILED cannot be used, for ERROR_DATASET. */
struct error_text session_dataset_failure(const struct dataset *dataset);

void session_send_indexing(struct session *session, uint32_t request, uint64_t samples);

/* session_list.c */
void session_handle_list_classes(struct session *session, const Stoker__V1__ListClasses *list);
void session_handle_list_samples(struct session *session, const Stoker__V1__ListSamples *list);
void session_cancel_listings(struct session *session);

/* session_open.c */
void session_handle_open(struct session *session, const Stoker__V1__Open *open);
void session_cancel_openings(struct session *session);

/* session_stream.c */
void session_handle_release(struct session *session, const Stoker__V1__Release *release);
void session_handle_seek(struct session *session, const Stoker__V1__Seek *seek);
void session_handle_close(struct session *session, const Stoker__V1__Close *close);

/* status.c */
void session_handle_status(struct session *session, const Stoker__V1__StatusRequest *request);
