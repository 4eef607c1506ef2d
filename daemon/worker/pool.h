/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/worker/pool_job.h"
#include "daemon/worker/worker_process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/*
 * The worker processes: keeps as many as asked for running, gives each two jobs at a time, and turns
 * the death of one into an event: its rows are reported as lost and a new one starts.
 *
 *   pool_init(&pool, loop, &ops, data);
 *   pool_configure(&pool, &settings);      // at start and at reload: workers are replaced
 *   pool_resize(&pool, 4);
 *   pool_kick(&pool);                      // whenever there may be work
 *   pool_release_stream(&pool, &stream);   // -> ops.unmapped, when nobody has it mapped
 *   pool_stop(&pool, on_stopped);          // workers end; those that do not are killed
 *
 * With 0 workers, jobs are rendered in this process, one row per turn of the loop, without a sandbox:
 * for a debugger, and as the baseline that more workers are compared with.
 */
struct pool_worker;
struct pool_local;

struct pool {
	uv_loop_t *loop;
	const struct pool_ops *ops;
	void *data;
	struct worker_settings settings;
	uint32_t target;              /* workers wanted */
	struct pool_worker **workers; /* running ones, leaving ones included */
	size_t count, capacity;
	size_t next_worker; /* the one that is offered work first */
	struct pool_local *local;
	uv_timer_t respawn; /* backoff after workers that die at once */
	uv_timer_t watch;   /* looks whether workers make progress */
	unsigned failures;  /* in a row, without a job done in between */
	bool respawn_armed, stopping, kicking;
	bool ever_ready;
	void (*on_stopped)(void *data);
	uint64_t next_job_id;
	uint64_t deaths;  /* workers that ended unasked, since the start */
	uint32_t sandbox; /* as the last worker reported: enum sandbox_part bits */
};

/* Needs a running loop. `ops` and `data` are borrowed for the pool's life. */
int pool_init(struct pool *pool, uv_loop_t *loop, const struct pool_ops *ops, void *data);

/* Set how workers are started (strings borrowed until the next call) and replace those that run. */
void pool_configure(struct pool *pool, const struct worker_settings *settings);

/* Change the number of workers: new ones start now, surplus ones finish their jobs and end. */
void pool_resize(struct pool *pool, uint32_t workers);

/* Hand out jobs until every worker has its two or nothing is left to do. */
void pool_kick(struct pool *pool);

/* Have the stream unmapped everywhere. No job of it may be out. ops.unmapped follows, perhaps at once. */
void pool_release_stream(struct pool *pool, struct pool_stream *stream);

/* End all workers; `on_stopped` follows when they are reaped. */
void pool_stop(struct pool *pool, void (*on_stopped)(void *data));

/* Kill what is still there, at the end of the daemon's patience. */
void pool_kill(struct pool *pool);

/* After on_stopped, and after the loop has run its close callbacks. */
void pool_finish(struct pool *pool);

struct pool_worker_info {
	int pid;
	uint64_t samples, busy_ns;
	uint32_t queued;
};

/* Fill up to `most` entries with the workers that are in their sandbox and take jobs, or did; returns
 * how many. */
size_t pool_list(const struct pool *pool, struct pool_worker_info *infos, size_t most);
