/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/worker_process.h"

#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"
#include "daemon/worker/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct worker_process *process = poll->data;

	(void)status; /* an error shows when the socket is read */
	(void)events;
	process->ops->on_readable(process);
}

static void on_exit_status(uv_process_t *handle, int64_t status, int signal)
{
	struct worker_process *process = handle->data;

	process->ops->on_exit(process, (int)status, signal);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct worker_process *process = handle->data;

	if (--process->open_handles == 0)
		process->ops->on_closed(process);
}

/* argv for uv_spawn: the array is the caller's to free, the strings are borrowed. */
static char **build_arguments(
	const struct worker_settings *settings, const char *mode, const char *const *extra)
{
	char **args = calloc(4 + WORKER_ARGS_MAX + settings->root_count, sizeof(*args));
	size_t n = 0;

	if (args == NULL)
		return NULL;
	args[n++] = (char *)settings->program;
	args[n++] = (char *)mode;
	args[n++] = (char *)settings->sandbox;
	while (extra != NULL && *extra != NULL)
		args[n++] = (char *)*extra++;
	for (size_t i = 0; i < settings->root_count; i++)
		args[n++] = (char *)settings->roots[i];
	return args;
}

static int spawn(
	struct worker_process *process, uv_loop_t *loop, char **args, int child_fd, int page_fd)
{
	uv_stdio_container_t stdio[JOB_PAGE_FD + 1] = {
		{.flags = UV_IGNORE},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
		[JOB_SOCKET_FD] = {.flags = UV_INHERIT_FD, .data.fd = child_fd},
		[JOB_PAGE_FD] = {.flags = UV_INHERIT_FD, .data.fd = page_fd},
	};
	uv_process_options_t options = {
		.file = args[0],
		.args = args,
		.stdio = stdio,
		.stdio_count = page_fd >= 0 ? JOB_PAGE_FD + 1 : JOB_SOCKET_FD + 1,
		.exit_cb = on_exit_status,
	};

	return uv_spawn(loop, &process->process, &options);
}

/* A pair of sockets: ours non-blocking, the worker's not. */
static int make_pair(int *ours, int *child)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ours = pair[0];
	*child = pair[1];
	return fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

int worker_process_start(struct worker_process *process, uv_loop_t *loop,
	const struct worker_settings *settings, const char *mode, const char *const *extra,
	int page_fd, const struct worker_process_ops *ops, struct error_text *error)
{
	_cleanup_free_ char **args = build_arguments(settings, mode, extra);
	_cleanup_fd_ int ours = -1, child = -1;
	int r = args == NULL ? -ENOMEM : make_pair(&ours, &child);

	process->ops = ops;
	process->fd = -1;
	if (r < 0) {
		ops->on_closed(process);
		return error_set(error, r, "a worker cannot be started: %s", strerror(-r));
	}
	process->process.data = process;
	process->poll.data = process;
	r = spawn(process, loop, args, child, page_fd);
	if (r < 0) {
		process->open_handles =
			1; /* one that failed to spawn has to be closed all the same */
		uv_close((uv_handle_t *)&process->process, on_handle_closed);
		return error_set(error, r, "%s cannot be started: %s",
			escape(settings->program).text, uv_strerror(r));
	}
	process->open_handles = 2;
	process->pid = process->process.pid;
	process->fd = steal_fd(&ours);
	uv_poll_init(loop, &process->poll, process->fd);
	uv_poll_start(&process->poll, UV_READABLE, on_poll);
	return 0;
}

void worker_process_hang_up(struct worker_process *process)
{
	uv_poll_stop(&process->poll);
	shutdown(process->fd, SHUT_WR);
}

void worker_process_close(struct worker_process *process)
{
	uv_close((uv_handle_t *)&process->poll, on_handle_closed);
	uv_close((uv_handle_t *)&process->process, on_handle_closed);
	process->fd = close_fd(process->fd);
}

bool signal_is_fault(int signal)
{
	switch (signal) {
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGABRT:
	case SIGSYS:
	case SIGFPE: return true;
	default: return false;
	}
}

const char *signal_name(int signal)
{
	static char text[32];
	const char *name = sigabbrev_np(signal);

	if (name != NULL)
		snprintf(text, sizeof(text), "SIG%s", name);
	else
		snprintf(text, sizeof(text), "signal %d", signal);
	return text;
}
