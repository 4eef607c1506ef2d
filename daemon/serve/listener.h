/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/serve/service.h"
#include "daemon/util/error.h"

#include <stdbool.h>
#include <uv.h>

/*
 * The socket that clients connect to: made here, or inherited from systemd (then it is neither
 * unlinked nor chmodded). A socket file that a dead daemon left behind is taken over; a living
 * daemon's is not. A lock beside it decides between two that start at once.
 */
struct listener {
	uv_poll_t poll;
	uv_timer_t pause; /* after a failure to accept for want of descriptors */
	struct service *service;
	int fd, lock_fd;
	char *path;      /* NULL when inherited */
	char *lock_path; /* NULL while the lock is not held */
	bool paused;
};

#define LISTENER_NULL                                                                              \
	{                                                                                          \
		.fd = -1, .lock_fd = -1                                                            \
	}

/* Make and bind the socket at `path`, mode 0660, and the directory it stands in. */
int listener_bind(struct listener *listener, const char *path, struct error_text *error);

/* Use a listening socket from the service manager; takes `fd`. */
int listener_adopt_consume_fd(struct listener *listener, int fd, struct error_text *error);

/* Start accepting. */
int listener_start(struct listener *listener, struct service *service, struct error_text *error);

/* Accept again at once, if that had to pause. */
void listener_resume(struct listener *listener);

/* Stop, and remove what listener_bind made. Safe after any failure. */
void listener_stop(struct listener *listener);
