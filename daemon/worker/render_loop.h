/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/worker/job.h"
#include "daemon/worker/render.h"
#include "daemon/worker/view.h"

#include <stdint.h>

/* A worker's life: take jobs from the socket in order, render them, say so. */
struct render_loop {
	int fd;
	struct worker_page *page;
	struct view *views; /* of attached streams */
	size_t view_count, view_capacity;
	struct renderer renderer;
	union job
		ahead; /* a record received before its turn, so that its files can be read ahead */
	int ahead_size;
	long blocks_read; /* by this process so far: grows when files are not in the page cache */
};

#define RENDER_LOOP_NULL                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Take the socket and map the page. 0 or -errno. */
int render_loop_init(struct render_loop *loop, int socket_fd, int page_fd);

/* Announce RESULT_READY with `sandbox`, then work until stokerd closes the socket: 0, or -errno
 * (-EBADMSG: a record made no sense). */
int render_loop_run(struct render_loop *loop, uint32_t sandbox);

void render_loop_finish(struct render_loop *loop);
