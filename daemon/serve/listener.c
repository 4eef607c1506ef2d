/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/listener.h"

#include "daemon/serve/session.h"
#include "daemon/util/escape.h"
#include "daemon/util/log.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
	BACKLOG = 128,
	ACCEPT_PAUSE_MS = 100,
	ACCEPTS_PER_TURN = 16, /* then those who are connected have their turn */
};

static int fail(struct error_text *error, int r, const char *path, const char *what)
{
	return error_set(error, r, "%s: %s: %s", escape(path).text, what, strerror(-r));
}

/* The directory of a user's own socket need not be there yet. */
static void make_directory(const char *path)
{
	char directory[PATH_MAX];

	snprintf(directory, sizeof(directory), "%s", path);
	if (mkdir(dirname(directory), 0755) < 0 && errno != EEXIST)
		log_debug("%s: %s", directory, strerror(errno));
}

/* It is another daemon's, or cannot be had: it must not be removed at the end. */
static void forget_lock(struct listener *listener)
{
	listener->lock_fd = close_fd(listener->lock_fd);
	free(listener->lock_path);
	listener->lock_path = NULL;
}

/* Hold PATH.lock for as long as this daemon lives. The file that is locked must still be the one at
 * that name: another daemon that ends removes it. */
static int take_lock(struct listener *listener, const char *path, struct error_text *error)
{
	char name[PATH_MAX];
	struct stat locked, named;

	snprintf(name, sizeof(name), "%s.lock", path);
	listener->lock_path = strdup(name);
	if (listener->lock_path == NULL)
		return error_set(error, -ENOMEM, "out of memory");
	for (;;) {
		listener->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (listener->lock_fd < 0 || flock(listener->lock_fd, LOCK_EX | LOCK_NB) < 0) {
			int r = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;

			forget_lock(listener);
			if (r != -EADDRINUSE)
				return fail(error, r, name, "cannot be used");
			return error_set(
				error, r, "%s: another stokerd is running here", escape(path).text);
		}
		if (fstat(listener->lock_fd, &locked) == 0 && stat(name, &named) == 0 &&
			locked.st_ino == named.st_ino && locked.st_dev == named.st_dev)
			return 0;
		listener->lock_fd = close_fd(listener->lock_fd);
	}
}

/* May the socket file at this address be removed? Only when nobody can be listening on it. */
static int check_stale(const struct sockaddr_un *address, struct error_text *error)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return fail(error, -errno, address->sun_path, "socket");
	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0
				       : fail(error, -errno, address->sun_path, "cannot be used");
	if (!S_ISSOCK(st.st_mode))
		return error_set(error, -EEXIST,
			"%s is there already and is no socket; move it away or choose another path",
			escape(address->sun_path).text);
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		errno == ECONNREFUSED)
		return 0;
	return error_set(error, -EADDRINUSE, "%s: another program is listening here",
		escape(address->sun_path).text);
}

/* Clients are those of the socket's group; a daemon started by root gives it to `stoker`. */
static void give_to_group(const char *path)
{
	struct group *group;

	if (geteuid() != 0)
		return;
	group = getgrnam("stoker");
	if (group != NULL && lchown(path, (uid_t)-1, group->gr_gid) < 0)
		log_warning("%s: cannot be given to group stoker: %s", path, strerror(errno));
}

static int bind_socket(
	struct listener *listener, const struct sockaddr_un *address, struct error_text *error)
{
	mode_t mask = umask(0117); /* the socket is born with mode 0660 */
	int r = bind(listener->fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno
											   : 0;

	umask(mask);
	if (r < 0)
		return fail(error, r, address->sun_path, "cannot listen here");
	listener->path = strdup(address->sun_path);
	if (listener->path == NULL) {
		unlink(address->sun_path);
		return error_set(error, -ENOMEM, "out of memory");
	}
	give_to_group(address->sun_path);
	if (listen(listener->fd, BACKLOG) < 0)
		return fail(error, -errno, address->sun_path, "cannot listen here");
	return 0;
}

int listener_bind(struct listener *listener, const char *path, struct error_text *error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(error, -ENAMETOOLONG,
			"%s: a socket's path has at most %zu bytes, this one has %zu",
			escape(path).text, sizeof(address.sun_path) - 1, strlen(path));
	strcpy(address.sun_path, path);
	make_directory(path);
	r = take_lock(listener, path, error);
	if (r == 0)
		r = check_stale(&address, error);
	if (r < 0)
		return r;
	if (unlink(path) < 0 && errno != ENOENT)
		return fail(error, -errno, path, "the old socket cannot be removed");
	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return fail(error, -errno, path, "socket");
	return bind_socket(listener, &address, error);
}

int listener_adopt_consume_fd(struct listener *listener, int fd, struct error_text *error)
{
	int type = 0, listening = 0, domain = 0;
	socklen_t size = sizeof(int);

	listener->fd = fd;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 ||
		domain != AF_UNIX || type != SOCK_STREAM || !listening)
		return error_set(error, -EINVAL,
			"the descriptor passed by the service manager is no listening Unix stream "
			"socket: use ListenStream= with a path");
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ||
		fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return error_set(error, -errno, "fcntl: %s", strerror(errno));
	return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
	listener_resume(timer->data);
}

void listener_resume(struct listener *listener)
{
	if (!listener->paused || listener->fd < 0)
		return;
	uv_timer_stop(&listener->pause);
	uv_poll_start(&listener->poll, UV_READABLE, on_poll);
	/* Still paused for the log's sake: cleared by the next success. */
}

/* Without descriptors nobody can be accepted; clients wait in the backlog meanwhile. */
static void pause_accepting(struct listener *listener, int error)
{
	if (!listener->paused)
		log_warning("no client can be accepted: %s; %u are connected (raise LimitNOFILE)",
			strerror(error), listener->service->session_count);
	listener->paused = true;
	uv_poll_stop(&listener->poll);
	uv_timer_start(&listener->pause, on_pause_over, ACCEPT_PAUSE_MS, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct listener *listener = poll->data;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			listener->paused = false;
			session_start_consume_fd(listener->service, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accepting(listener, errno);
		else if (errno == EINTR || errno == ECONNABORTED)
			continue;
		return;
	}
}

/* A descriptor that nobody asked for has to be closed, and closing what a client has prepared (a socket
 * that lingers, a file on a dead server) can take as long as the client likes. Linux 6.16 and later
 * refuse to send it; accepted sockets inherit that. */
static void refuse_descriptors(int fd)
{
#ifndef SO_PASSRIGHTS
	enum { SO_PASSRIGHTS = 83 };
#endif
	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
}

int listener_start(struct listener *listener, struct service *service, struct error_text *error)
{
	int r = uv_poll_init(service->loop, &listener->poll, listener->fd);

	if (r < 0)
		return error_set(error, r, "the socket cannot be polled: %s", uv_strerror(r));
	refuse_descriptors(listener->fd);
	listener->service = service;
	listener->poll.data = listener;
	uv_timer_init(service->loop, &listener->pause);
	listener->pause.data = listener;
	uv_poll_start(&listener->poll, UV_READABLE, on_poll);
	return 0;
}

void listener_stop(struct listener *listener)
{
	if (listener->service != NULL) {
		uv_close((uv_handle_t *)&listener->poll, NULL);
		uv_close((uv_handle_t *)&listener->pause, NULL);
		listener->service = NULL;
	}
	listener->fd = close_fd(listener->fd);
	if (listener->path != NULL)
		unlink(listener->path);
	if (listener->lock_path != NULL)
		unlink(listener->lock_path);
	free(listener->path);
	free(listener->lock_path);
	listener->path = listener->lock_path = NULL;
	listener->lock_fd = close_fd(listener->lock_fd);
}
