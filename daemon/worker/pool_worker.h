/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/worker/pool.h"

/* One worker of the pool: its process, the jobs it has and the streams it has mapped. */
struct pool_attachment {
	struct pool_stream *stream;
	uint32_t id;
	bool detaching; /* JOB_DETACH is sent */
};

struct pool_worker {
	struct worker_process process; /* first: callbacks get this pointer */
	struct pool *pool;
	struct worker_page *page;
	struct pool_job jobs[JOB_QUEUE]; /* oldest first */
	unsigned job_count;
	struct result bad[JOB_ROWS_MAX]; /* RESULT_BADs of jobs[0] so far */
	unsigned bad_count;
	struct pool_attachment *attachments;
	size_t attachment_count, attachment_capacity;
	bool greeted; /* has said that it is in its sandbox */
	bool ready;   /* takes jobs */
	bool leaving; /* gets no more work; our end is closed once it has none */
	bool hung_up;
	bool broken; /* has broken the rules or the time limit, and been killed for it */
	bool late;   /* ... the time limit */
	bool reaped;
	uint64_t progress_ms; /* loop time of its last progress, while it has jobs or is to end */
	uint64_t seen_job;    /* where it was then */
	uint32_t seen_row, seen_attempt;
	uint32_t seen_changes; /* of the above, since it finished a job or was idle */
	uint64_t samples, busy_ns, jobs_done;
};

/* Start one. NULL with the reason. on_gone (below) is called when it has been reaped. */
struct pool_worker *pool_worker_start(struct pool *pool, struct error_text *error);

/* Can it take another job? */
bool pool_worker_wants_job(const struct pool_worker *worker);

/* Give it one: 0, or -errno (-EAGAIN: its socket is full). The job is then still the caller's. */
int pool_worker_give(struct pool_worker *worker, const struct pool_job *job);

/* Send the JOB_DETACHes that are due. */
void pool_worker_detach_released(struct pool_worker *worker);

/* A worker that answers nonsense is not to be trusted with anything further: kill it, saying what it
 * did. */
void pool_worker_kill_broken(struct pool_worker *worker, const char *what);

/* Kill it if it has been at one row, or at ending, for longer than settings.image_timeout_ms. */
void pool_worker_check_time(struct pool_worker *worker, uint64_t now_ms);

/* Give it no more work, and let it end when it has none. */
void pool_worker_leave(struct pool_worker *worker);

/* pool.c: the worker is reaped, everything it sent has been read and its jobs are reported as lost.
 * Its memory goes after the handles are closed. */
void pool_worker_gone(struct pool_worker *worker, int status, int signal);
