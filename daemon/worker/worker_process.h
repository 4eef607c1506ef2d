/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/*
 * One running stoker-worker and our end of its socket, watched by the loop. Used by the pool and by
 * the indexer.
 *
 *   on_readable  records may be waiting in `fd`
 *   on_exit      the process has been reaped; whatever it sent can still be read from `fd`
 *   on_closed    after worker_process_close: the struct may be freed
 */
struct worker_process;

struct worker_process_ops {
	void (*on_readable)(struct worker_process *process);
	void (*on_exit)(struct worker_process *process, int status, int signal);
	void (*on_closed)(struct worker_process *process);
};

struct worker_process {
	uv_process_t process;
	uv_poll_t poll;
	int fd; /* non-blocking, ours */
	int pid;
	const struct worker_process_ops *ops;
	unsigned open_handles;
};

/* How workers are started, by everybody. All borrowed. */
struct worker_settings {
	const char *program;      /* path of stoker-worker */
	const char *sandbox;      /* "require" or "auto" */
	const char *const *roots; /* what may be read */
	size_t root_count;
	uint32_t image_timeout_ms; /* of pool workers, for one image; 0 = no limit */
};

enum { WORKER_ARGS_MAX = 4 };

/* Start `settings->program MODE SANDBOX EXTRA... ROOT...`; `page_fd` (borrowed, or -1) becomes its
 * fd 4. 0, or -errno with a reason; then on_closed is called too, at once or later, and the caller
 * leaves `process` to it. */
int worker_process_start(struct worker_process *process, uv_loop_t *loop,
	const struct worker_settings *settings, const char *mode, const char *const *extra,
	int page_fd, const struct worker_process_ops *ops, struct error_text *error);

/* Close our end: the worker ends when it has finished the job at hand. */
void worker_process_hang_up(struct worker_process *process);

/* Let go of the handles; only after on_exit. on_closed follows. */
void worker_process_close(struct worker_process *process);

/* "SIGKILL" and the like; "signal N" for rare ones, from a static buffer. */
const char *signal_name(int signal);

/* Did the process die by a fault of its own? */
bool signal_is_fault(int signal);
