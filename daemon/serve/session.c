/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/session.h"

#include "daemon/util/escape.h"
#include "daemon/util/log.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { FRAMES_PER_TURN = 64 };

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* Closing a socket with unread input would reset the connection, and the client might lose our last
 * word. Bounded: a client that goes on sending is not waited for. */
static void discard_input(int fd)
{
	char buffer[4096];

	for (int i = 0; i < 64 && recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) > 0; i++) {
	}
}

void session_close(struct session *session)
{
	struct service *service = session->service;

	if (session->closing)
		return;
	session->closing = true;
	log_debug("client %d (%s) is gone", (int)session->pid, session->name);
	session_cancel_openings(session);
	session_cancel_listings(session);
	for (unsigned i = 0; i < PROTOCOL_STREAMS_MAX; i++) {
		if (session->streams[i] != NULL)
			service_drop_stream(session->streams[i]);
		session->streams[i] = NULL;
	}
	if (session->previous != NULL)
		session->previous->next = session->next;
	else
		service->sessions = session->next;
	if (session->next != NULL)
		session->next->previous = session->previous;
	service->session_count--;
	uv_close((uv_handle_t *)&session->poll, on_closed);
	if (session->io.fd >= 0) {
		shutdown(session->io.fd, SHUT_WR);
		discard_input(session->io.fd);
	}
	fdio_finish(&session->io);
	if (service->on_session_closed != NULL)
		service->on_session_closed(service);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void poll_for(struct session *session, int events)
{
	if (session->closing || session->events == events)
		return;
	session->events = events;
	uv_poll_start(&session->poll, events, on_poll);
}

void session_flush(struct session *session)
{
	int writable, readable;
	size_t queued;

	if (session->closing)
		return;
	if (fdio_flush(&session->io) < 0) {
		session_close(session);
		return;
	}
	queued = fdio_queued(&session->io);
	/* Once polled for, UV_WRITABLE is only given up at the end of on_poll, when all that had to wait
	 * for room has been done: frames handled, batches sent. */
	writable = queued > 0 || session->frames_left ? UV_WRITABLE : 0;
	if (!session->caught_up)
		writable |= session->events & UV_WRITABLE;
	/* A client that dies with a long queue makes the socket writable. One that only shuts its side
	 * down is not asked for: that event stays until all it sent has been read. */
	readable = queued <= SESSION_QUEUE_MAX ? UV_READABLE : 0;
	poll_for(session, writable | readable);
}

int session_send(struct session *session, const Stoker__V1__ServerMessage *message, int fd)
{
	uint8_t small[1024];
	size_t size = stoker__v1__server_message__get_packed_size(message);
	_cleanup_free_ uint8_t *large = NULL;
	uint8_t *packed = small;
	int r = -ENOMEM;

	if (session->closing)
		return 0;
	if (size > sizeof(small))
		packed = large = malloc(size);
	if (packed != NULL) {
		stoker__v1__server_message__pack(message, packed);
		r = fdio_send(&session->io, packed, size, fd);
	}
	if (r == -EMFILE)
		return r;
	if (r < 0) {
		log_error("client %d (%s): a message cannot be queued: %s", (int)session->pid,
			session->name, strerror(-r));
		session_close(session);
		return r;
	}
	session_flush(session);
	return 0;
}

static void send_error(struct session *session, Stoker__V1__ErrorCode code, uint32_t request,
	uint32_t stream, const char *text, bool closing)
{
	Stoker__V1__Error error = STOKER__V1__ERROR__INIT;

	error.code = code;
	error.text = (char *)text;
	error.request = request;
	error.stream = stream;
	error.closing = closing;
	session_send(session, &SERVER_MESSAGE(ERROR, error, &error), -1);
}

void session_refuse(struct session *session, Stoker__V1__ErrorCode code, uint32_t request,
	uint32_t stream, const char *text)
{
	send_error(session, code, request, stream, text, false);
}

void session_violation(struct session *session, Stoker__V1__ErrorCode code, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	if (session->closing)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_limited(&session->service->faults_log, LOG_LEVEL_WARNING,
		"client %d (%s) is disconnected: %s", (int)session->pid, session->name, text);
	send_error(session, code, 0, 0, text, true);
	session_close(session);
}

void session_dismiss(struct session *session)
{
	Stoker__V1__GoingAway going_away = STOKER__V1__GOING_AWAY__INIT;

	session_send(session, &SERVER_MESSAGE(GOING_AWAY, going_away, &going_away), -1);
	session_close(session);
}

static void handle_hello(struct session *session, const Stoker__V1__Hello *hello)
{
	Stoker__V1__Welcome welcome = STOKER__V1__WELCOME__INIT;

	if (session->greeted) {
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
			"a second Hello on one connection");
		return;
	}
	if (strlen(hello->client) > PROTOCOL_CLIENT_NAME_MAX) {
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
			"Hello.client is longer than %d bytes", PROTOCOL_CLIENT_NAME_MAX);
		return;
	}
	snprintf(session->name, sizeof(session->name), "%s", escape(hello->client).text);
	if (hello->protocol != PROTOCOL_VERSION) {
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_VERSION,
			"protocol version %u is not spoken here; this is stokerd %s with version %d: "
			"use the libstoker that belongs to it",
			hello->protocol, session->service->version, PROTOCOL_VERSION);
		return;
	}
	session->takes_fds = hello->takes_fds;
	session->greeted = true;
	log_limited(&session->service->clients_log, LOG_LEVEL_INFO,
		"client %d (%s) of uid %u connected", (int)session->pid, session->name,
		(unsigned)session->uid);
	welcome.protocol = PROTOCOL_VERSION;
	welcome.server_version = (char *)session->service->version;
	welcome.max_client_frame = FRAME_CLIENT_MAX;
	welcome.max_control_frame = FRAME_CONTROL_MAX;
	welcome.max_inline_frame = FRAME_INLINE_MAX;
	welcome.max_streams = PROTOCOL_STREAMS_MAX;
	welcome.max_depth = PROTOCOL_DEPTH_MAX;
	session_send(session, &SERVER_MESSAGE(WELCOME, welcome, &welcome), -1);
}

static void handle_message(struct session *session, const Stoker__V1__ClientMessage *message)
{
	if (!session->greeted &&
		message->message_case != STOKER__V1__CLIENT_MESSAGE__MESSAGE_HELLO) {
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
			"the first message must be Hello");
		return;
	}
	switch (message->message_case) {
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_HELLO:
		handle_hello(session, message->hello);
		break;
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_OPEN:
		session_handle_open(session, message->open);
		break;
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_RELEASE:
		session_handle_release(session, message->release);
		break;
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_SEEK:
		session_handle_seek(session, message->seek);
		break;
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_CLOSE:
		session_handle_close(session, message->close);
		break;
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_STATUS:
		session_handle_status(session, message->status);
		break;
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_LIST_CLASSES:
		session_handle_list_classes(session, message->list_classes);
		break;
	case STOKER__V1__CLIENT_MESSAGE__MESSAGE_LIST_SAMPLES:
		session_handle_list_samples(session, message->list_samples);
		break;
	default:
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
			"a frame holds no message that this protocol version knows");
		break;
	}
}

static void handle_frame(struct session *session, struct fdio_frame *frame)
{
	Stoker__V1__ClientMessage *message;

	if (frame->fd >= 0) {
		close_fd(frame->fd);
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
			"clients send no descriptors");
		return;
	}
	message = stoker__v1__client_message__unpack(NULL, frame->length, frame->payload);
	if (message == NULL) {
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
			"a frame of %u bytes is no ClientMessage", frame->length);
		return;
	}
	handle_message(session, message);
	stoker__v1__client_message__free_unpacked(message, NULL);
}

/* Handle the frames that are whole. Those that are left, because others want their turn or because
 * the client does not read our answers, are handled when the socket takes more. */
static void handle_frames(struct session *session)
{
	session->frames_left = false;
	for (int i = 0; !session->closing; i++) {
		struct fdio_frame frame;
		int r;

		if (i == FRAMES_PER_TURN || fdio_queued(&session->io) > SESSION_QUEUE_MAX) {
			session->frames_left = true;
			return;
		}
		r = fdio_next(&session->io, &frame);
		if (r == 0)
			return;
		if (r == -EMSGSIZE)
			session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
				"a frame is longer than %d bytes", FRAME_CLIENT_MAX);
		else if (r < 0)
			session_violation(session, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL,
				"a frame has a bad header");
		else
			handle_frame(session, &frame);
	}
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct session *session = poll->data;
	int r = 1;

	if (status < 0) {
		session_close(session);
		return;
	}
	if (events & UV_WRITABLE)
		session_flush(session);
	if (!session->closing && (events & UV_READABLE))
		r = fdio_receive(&session->io);
	if (r == -EMFILE)
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_LIMIT,
			"stokerd has no descriptor left to look at the one that was sent");
	handle_frames(session);
	if (r < 0)
		session_close(session);
	session_pump(session);
	session->caught_up = !session->frames_left && fdio_queued(&session->io) == 0;
	session_flush(session);
	session->caught_up = false;
}

static void read_peer(struct session *session)
{
	struct ucred peer = {.pid = -1, .uid = (uid_t)-1};
	socklen_t size = sizeof(peer);

	getsockopt(session->io.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	session->pid = peer.pid;
	session->uid = peer.uid;
}

void session_start_consume_fd(struct service *service, int fd)
{
	struct session *session = calloc(1, sizeof(*session));

	if (session == NULL || uv_poll_init(service->loop, &session->poll, fd) < 0) {
		log_error("a client cannot be served: out of memory or descriptors");
		close_fd(fd);
		free(session);
		return;
	}
	session->poll.data = session;
	session->service = service;
	fdio_init(&session->io, fd, FRAME_CLIENT_MAX);
	read_peer(session);
	session->next = service->sessions;
	if (session->next != NULL)
		session->next->previous = session;
	service->sessions = session;
	service->session_count++;
	poll_for(session, UV_READABLE);
	if (service->session_count > SERVICE_CLIENTS_MAX)
		session_violation(session, STOKER__V1__ERROR_CODE__ERROR_LIMIT,
			"%d clients are connected already", SERVICE_CLIENTS_MAX);
}
