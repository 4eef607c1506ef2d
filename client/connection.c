/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t client_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
}

int client_poll(int fd, short events, int64_t deadline)
{
	struct pollfd poller = {.fd = fd, .events = events};

	for (;;) {
		int64_t left = -1;
		int n;

		if (deadline != INT64_MAX) {
			left = deadline - now_ms();
			left = left < 0 ? 0 : left > INT_MAX ? INT_MAX : left;
		}
		n = poll(&poller, 1, left);
		if (n < 0 && errno == EINTR)
			continue;
		return n < 0 ? -errno : n;
	}
}

uint32_t client_next_request(struct stoker *stoker)
{
	if (++stoker->last_request == 0) /* 0 means none */
		stoker->last_request = 1;
	return stoker->last_request;
}

/* A send that fails says that the daemon is gone, but what it said before that can still be read:
 * the read that fails after it ends the connection. */
static bool flush(struct stoker *stoker)
{
	int r = stoker->send_failed ? 0 : fdio_flush(&stoker->io);

	if (r < 0)
		stoker->send_failed = true;
	return r == 0 && !stoker->send_failed; /* something is left to send */
}

int client_send(struct stoker *stoker, const Stoker__V1__ClientMessage *message)
{
	size_t size = stoker__v1__client_message__get_packed_size(message);
	uint8_t small[256], *packed = small;
	int r;

	if (stoker->dead) {
		memcpy(stoker->message, stoker->death, sizeof(stoker->message));
		return stoker->dead;
	}
	if (stoker->io.fd < 0)
		return client_error(stoker, -ENOTCONN, "not connected: call stoker_connect first");
	if (size > FRAME_CLIENT_MAX)
		return client_error(stoker, -EMSGSIZE,
			"the request takes %zu bytes; the daemon accepts %d", size,
			FRAME_CLIENT_MAX);
	if (size > sizeof(small))
		packed = malloc(size);
	if (!packed)
		return client_error(stoker, -ENOMEM, "out of memory");
	stoker__v1__client_message__pack(message, packed);
	r = fdio_send(&stoker->io, packed, size, -1);
	if (packed != small)
		free(packed);
	if (r < 0)
		return client_die(stoker, r, "out of memory for a message to the daemon");
	flush(stoker);
	return 0;
}

static int receive_failed(struct stoker *stoker, int r)
{
	switch (r) {
	case -ECONNRESET:
		if (stoker->going_away)
			return client_die(stoker, -ESHUTDOWN, "the daemon at %s has been stopped",
				stoker->socket);
		return client_die(stoker, r,
			"the daemon at %s closed the connection; its log says why", stoker->socket);
	case -EMFILE:
		return client_die(stoker, r,
			"this process has no descriptor left for a stream's memory: raise "
			"'ulimit -n'");
	case -EMSGSIZE:
	case -EBADMSG:
		return client_die(stoker, -EBADMSG,
			"what listens at %s does not speak stoker's protocol (a bad frame came)",
			stoker->socket);
	default:
		return client_die(stoker, r, "reading from the daemon at %s: %s", stoker->socket,
			strerror(-r));
	}
}

int client_step(struct stoker *stoker, int64_t deadline)
{
	if (stoker->dead) {
		memcpy(stoker->message, stoker->death, sizeof(stoker->message));
		return stoker->dead;
	}
	if (stoker->io.fd < 0)
		return client_error(stoker, -ENOTCONN, "not connected: call stoker_connect first");
	for (;;) {
		struct fdio_frame frame;
		bool unsent;
		int r = fdio_next(&stoker->io, &frame);

		if (r > 0) {
			Stoker__V1__ServerMessage *message = stoker__v1__server_message__unpack(
				NULL, frame.length, frame.payload);

			return client_dispatch(stoker, message, frame.fd);
		}
		if (r == 0) {
			unsent = flush(stoker);
			r = fdio_receive(&stoker->io);
		}
		if (r < 0)
			return receive_failed(stoker, r);
		if (r > 0)
			continue;
		r = client_poll(stoker->io.fd, POLLIN | (unsent ? POLLOUT : 0), deadline);
		if (r < 0)
			return client_die(stoker, r, "poll: %s", strerror(-r));
		if (r == 0)
			return 0;
	}
}

int client_errno(Stoker__V1__ErrorCode code)
{
	switch (code) {
	case STOKER__V1__ERROR_CODE__ERROR_PROTOCOL: return -EBADMSG;
	case STOKER__V1__ERROR_CODE__ERROR_VERSION: return -EPROTONOSUPPORT;
	case STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST: return -EINVAL;
	case STOKER__V1__ERROR_CODE__ERROR_UNKNOWN_DATASET: return -ENOENT;
	case STOKER__V1__ERROR_CODE__ERROR_DATASET: return -ENODATA;
	case STOKER__V1__ERROR_CODE__ERROR_MEMORY: return -ENOMEM;
	case STOKER__V1__ERROR_CODE__ERROR_LIMIT: return -EUSERS;
	case STOKER__V1__ERROR_CODE__ERROR_CURSOR: return -ESTALE;
	default: return -EIO;
	}
}

static int take_answer(struct stoker *stoker, Stoker__V1__ServerMessage **answer, int *fd)
{
	struct pending *pending = &stoker->pending;
	Stoker__V1__ServerMessage *message = pending->answer;
	int r = 0;

	*fd = pending->fd;
	*pending = (struct pending){.fd = -1};
	if (message->message_case == STOKER__V1__SERVER_MESSAGE__MESSAGE_ERROR) {
		r = client_error(
			stoker, client_errno(message->error->code), "%s", message->error->text);
		stoker__v1__server_message__free_unpacked(message, NULL);
	} else {
		*answer = message;
	}
	return r;
}

static int wait_for(struct stoker *stoker, int timeout_ms,
	void (*indexing)(uint64_t samples, void *data), void *data,
	Stoker__V1__ServerMessage **answer, int *fd)
{
	struct pending *pending = &stoker->pending;
	int64_t deadline = client_deadline(timeout_ms);

	*answer = NULL;
	*fd = -1;
	for (;;) {
		int r = client_step(stoker, deadline);

		if (pending->answer) /* even when the same message ended the connection */
			return take_answer(stoker, answer, fd);
		if (r <= 0) {
			pending->waiting = false;
			if (r < 0)
				return r;
			return client_error(stoker, -ETIMEDOUT,
				"the daemon at %s has not answered for %d s: is it stopped or "
				"overloaded?",
				stoker->socket, timeout_ms / 1000);
		}
		if (pending->indexing) {
			pending->indexing = false;
			deadline = client_deadline(timeout_ms);
			if (indexing)
				indexing(pending->indexed, data);
		}
	}
}

int client_wait(struct stoker *stoker, uint32_t request,
	Stoker__V1__ServerMessage__MessageCase expected, int timeout_ms,
	Stoker__V1__ServerMessage **answer)
{
	int fd; /* comes with Opened only */

	stoker->pending = (struct pending){
		.waiting = true, .request = request, .expected = expected, .fd = -1};
	return wait_for(stoker, timeout_ms, NULL, NULL, answer, &fd);
}

int client_wait_opened(struct stoker *stoker, uint32_t request, int timeout_ms,
	void (*indexing)(uint64_t samples, void *data), void *data,
	Stoker__V1__ServerMessage **answer, int *fd)
{
	stoker->pending = (struct pending){
		.waiting = true,
		.request = request,
		.expected = STOKER__V1__SERVER_MESSAGE__MESSAGE_OPENED,
		.fd = -1,
	};
	return wait_for(stoker, timeout_ms, indexing, data, answer, fd);
}
