/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNECT_TIMEOUT_MS = 10000 };

static int refused(struct stoker *stoker, int error, const char *path)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return client_error(stoker, -ENOENT,
			"no daemon listens at %s: is stokerd running? Start it with 'stokerd "
			"--dataset NAME=PATH' or 'systemctl start stokerd', or set STOKER_SOCKET to "
			"its socket",
			path);
	case ECONNREFUSED:
		return client_error(stoker, -ECONNREFUSED,
			"no daemon listens at %s any more: start stokerd again, or set "
			"STOKER_SOCKET to its socket",
			path);
	case EACCES:
	case EPERM:
		return client_error(stoker, -EACCES,
			"%s: permission denied; the socket's group ('stoker' for the system's "
			"daemon) may use it: see 'id' and 'usermod -aG'",
			path);
	case EAGAIN:
		return client_error(stoker, -ETIMEDOUT,
			"the daemon at %s takes no connection: is it stopped or overloaded?", path);
	default: return client_error(stoker, -error, "connecting to %s: %s", path, strerror(error));
	}
}

/* A connected socket or negative errno. A connect to a full backlog fails at once with EAGAIN on a
 * non-blocking AF_UNIX socket and cannot be polled for, so it is tried again. */
static int open_socket(struct stoker *stoker, const char *path, int64_t deadline)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return client_error(stoker, -errno, "socket: %s", strerror(errno));
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int error = errno;

		if (error == EINTR)
			continue;
		if (error == EAGAIN && client_poll(-1, 0, client_deadline(20)) == 0 &&
			client_deadline(0) < deadline)
			continue;
		close(fd);
		return refused(stoker, error, path);
	}
	return fd;
}

static int greet(struct stoker *stoker, const char *name)
{
	Stoker__V1__Hello hello = STOKER__V1__HELLO__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	Stoker__V1__ServerMessage *answer;
	int r;

	hello.protocol = PROTOCOL_VERSION;
	hello.client = (char *)name;
	hello.takes_fds = true;
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_HELLO;
	message.hello = &hello;
	r = client_send(stoker, &message);
	if (r < 0)
		return r;
	r = client_wait(stoker, 0, STOKER__V1__SERVER_MESSAGE__MESSAGE_WELCOME, CONNECT_TIMEOUT_MS,
		&answer);
	if (r < 0)
		return r;
	if (answer->welcome->protocol != PROTOCOL_VERSION)
		r = client_error(stoker, -EPROTONOSUPPORT,
			"the daemon at %s speaks version %u of the protocol, this library version "
			"%d",
			stoker->socket, answer->welcome->protocol, PROTOCOL_VERSION);
	stoker->max_inline_frame = answer->welcome->max_inline_frame < FRAME_INLINE_MAX
					   ? answer->welcome->max_inline_frame
					   : (uint64_t)FRAME_INLINE_MAX;
	stoker->greeted = true;
	stoker__v1__server_message__free_unpacked(answer, NULL);
	return r;
}

/* The program's name, cut to what the protocol allows. */
static void default_name(char name[PROTOCOL_CLIENT_NAME_MAX + 1])
{
	snprintf(name, PROTOCOL_CLIENT_NAME_MAX + 1, "%s", program_invocation_short_name);
	if (!text_is_utf8(name))
		strcpy(name, "libstoker");
}

/* Also false when the daemon has gone and nobody has noticed yet: then poll(2) tells of a hangup. */
static bool is_connected(const struct stoker *stoker)
{
	return stoker->io.fd >= 0 && !stoker->dead && !stoker->send_failed &&
	       client_poll(stoker->io.fd, 0, client_deadline(0)) == 0;
}

/* Streams that the caller has closed only wait for the daemon's word. */
static bool has_open_stream(const struct stoker *stoker)
{
	const struct stoker_stream *stream = stoker->streams;

	while (stream && stream->closed)
		stream = stream->next;
	return stream;
}

int stoker_connect(struct stoker *stoker, const char *socket, const char *name)
{
	char own_name[PROTOCOL_CLIENT_NAME_MAX + 1], path[4096];
	int r, fd;

	if (is_connected(stoker))
		return client_error(stoker, -EISCONN, "already connected to %s", stoker->socket);
	if (has_open_stream(stoker))
		return client_error(stoker, -EBUSY,
			"the lost connection still has streams: close them before connecting "
			"again");
	if (!name) {
		default_name(own_name);
		name = own_name;
	}
	if (strlen(name) > PROTOCOL_CLIENT_NAME_MAX || !text_is_utf8(name))
		return client_error(stoker, -EINVAL,
			"the client's name must be UTF-8 of at most %d bytes",
			PROTOCOL_CLIENT_NAME_MAX);
	if (socket && !*socket)
		return client_error(stoker, -EINVAL,
			"the path of the daemon's socket is empty: name it, or leave it out to "
			"use the usual one");
	r = socket ? snprintf(path, sizeof(path), "%s", socket) < sizeof(path) ? 0 : -ENAMETOOLONG
		   : stoker_default_socket(path, sizeof(path));
	if (r < 0 || strlen(path) >= sizeof(stoker->socket))
		return client_error(stoker, -ENAMETOOLONG,
			"the socket's path has %zu bytes and the kernel takes 107 at most: %.200s",
			strlen(socket ? socket : path), path);

	client_disconnect(stoker);
	fd = open_socket(stoker, path, client_deadline(CONNECT_TIMEOUT_MS));
	if (fd < 0)
		return fd;
	strcpy(stoker->socket, path);
	fdio_init(&stoker->io, fd, FRAME_CONTROL_MAX);
	r = greet(stoker, name);
	if (r < 0)
		client_disconnect(stoker);
	return r;
}
