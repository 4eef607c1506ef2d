/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/pool.h"

#include "daemon/util/log.h"
#include "daemon/worker/pool_local.h"
#include "daemon/worker/pool_worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
	RESPAWN_FIRST_MS = 100,
	RESPAWN_MOST_MS = 10000,
	WATCH_MOST_MS = 5000,
};

static uint32_t staying(const struct pool *pool)
{
	uint32_t n = 0;

	for (size_t i = 0; i < pool->count; i++)
		n += !pool->workers[i]->leaving;
	return n;
}

static int add_worker(struct pool *pool, struct error_text *error)
{
	struct pool_worker *worker;

	if (pool->count == pool->capacity) {
		size_t capacity = 8 + 2 * pool->capacity;
		struct pool_worker **workers =
			realloc(pool->workers, capacity * sizeof(struct pool_worker *));

		if (workers == NULL)
			return error_set(
				error, -ENOMEM, "a worker cannot be started: out of memory");
		pool->workers = workers;
		pool->capacity = capacity;
	}
	worker = pool_worker_start(pool, error);
	if (worker == NULL)
		return -EAGAIN;
	pool->workers[pool->count++] = worker;
	return 0;
}

static void on_respawn(uv_timer_t *timer);

/* Wait before the next try: 0.1 s, doubled with each failure in a row. */
static void arm_respawn(struct pool *pool)
{
	uint64_t delay = RESPAWN_FIRST_MS;

	for (unsigned i = 1; i < pool->failures && delay < RESPAWN_MOST_MS; i++)
		delay *= 2;
	pool->respawn_armed = true;
	uv_timer_start(
		&pool->respawn, on_respawn, delay < RESPAWN_MOST_MS ? delay : RESPAWN_MOST_MS, 0);
}

/* Bring the number of workers to what is wanted. */
static void adjust(struct pool *pool)
{
	if (pool->stopping)
		return;
	for (size_t i = pool->count; i > 0 && staying(pool) > pool->target; i--) {
		if (!pool->workers[i - 1]->leaving)
			pool_worker_leave(pool->workers[i - 1]);
	}
	while (!pool->respawn_armed && staying(pool) < pool->target) {
		struct error_text error;

		if (add_worker(pool, &error) < 0) {
			log_error("%s", error.text);
			pool->failures++;
			arm_respawn(pool);
		}
	}
}

static void on_respawn(uv_timer_t *timer)
{
	struct pool *pool = timer->data;

	pool->respawn_armed = false;
	adjust(pool);
}

static void on_watch(uv_timer_t *timer)
{
	struct pool *pool = timer->data;

	for (size_t i = 0; i < pool->count; i++)
		pool_worker_check_time(pool->workers[i], uv_now(pool->loop));
}

int pool_init(struct pool *pool, uv_loop_t *loop, const struct pool_ops *ops, void *data)
{
	*pool = (struct pool){.loop = loop, .ops = ops, .data = data, .next_job_id = 1};
	uv_timer_init(loop, &pool->respawn);
	pool->respawn.data = pool;
	uv_timer_init(loop, &pool->watch);
	pool->watch.data = pool;
	pool->local = pool_local_create(pool);
	return pool->local == NULL ? -ENOMEM : 0;
}

void pool_configure(struct pool *pool, const struct worker_settings *settings)
{
	uint64_t interval = settings->image_timeout_ms / 4;

	pool->settings = *settings;
	if (interval == 0 || interval > WATCH_MOST_MS)
		interval = WATCH_MOST_MS;
	uv_timer_start(&pool->watch, on_watch, interval, interval);
	for (size_t i = 0; i < pool->count; i++)
		pool_worker_leave(pool->workers[i]);
	adjust(pool);
}

void pool_resize(struct pool *pool, uint32_t workers)
{
	pool->target = workers;
	adjust(pool);
	pool_kick(pool);
}

/* Give one more job to `worker`. False when there is no work at all. */
static bool give_one(struct pool *pool, struct pool_worker *worker)
{
	struct pool_job job;
	int r;

	if (!pool->ops->next_job(&job, JOB_ROWS_MAX, pool->data))
		return false;
	job.render.id = pool->next_job_id++;
	r = pool_worker_give(worker, &job);
	if (r < 0) {
		/* Nothing was rendered and nobody is to blame: the rows go back. */
		pool->ops->lost(&job, &(struct pool_loss){.cause = strerror(-r)}, pool->data);
		/* A full socket is tried again later; a closed one means that the worker is dying, which
		 * on_exit will tell. */
		if (r == -EPIPE || r == -ECONNRESET)
			worker->ready = false;
		else if (r != -EAGAIN)
			pool_worker_kill_broken(worker, strerror(-r));
	}
	return r != -EAGAIN;
}

void pool_kick(struct pool *pool)
{
	bool any = true;

	if (pool->kicking || pool->stopping)
		return;
	if (pool->target == 0) {
		pool_local_kick(pool->local);
		return;
	}
	pool->kicking = true;
	while (any) {
		any = false;
		/* Around the workers, one job each, so that a batch is spread over them. */
		for (size_t i = 0; i < pool->count; i++) {
			struct pool_worker *worker =
				pool->workers[(pool->next_worker + i) % pool->count];

			if (!pool_worker_wants_job(worker))
				continue;
			if (!give_one(pool, worker)) {
				any = false;
				break;
			}
			any = true;
		}
	}
	if (pool->count > 0)
		pool->next_worker = (pool->next_worker + 1) % pool->count;
	pool->kicking = false;
}

void pool_release_stream(struct pool *pool, struct pool_stream *stream)
{
	stream->released = true;
	pool_local_detach(pool->local, stream);
	for (size_t i = 0; i < pool->count; i++)
		pool_worker_detach_released(pool->workers[i]);
	if (stream->attached == 0)
		pool->ops->unmapped(stream, pool->data);
}

static void check_stopped(struct pool *pool)
{
	if (pool->stopping && pool->count == 0 && pool->on_stopped != NULL) {
		void (*on_stopped)(void *) = pool->on_stopped;

		pool->on_stopped = NULL;
		on_stopped(pool->data);
	}
}

void pool_worker_gone(struct pool_worker *worker, int status, int signal)
{
	struct pool *pool = worker->pool;

	for (size_t i = 0; i < pool->count; i++) {
		if (pool->workers[i] == worker) {
			memmove(&pool->workers[i], &pool->workers[i + 1],
				(pool->count - i - 1) * sizeof(struct pool_worker *));
			pool->count--;
			break;
		}
	}
	if (signal == 0 && status == WORKER_EXIT_SANDBOX && !pool->ever_ready) {
		pool->ops->broken("the workers' sandbox cannot be had", pool->data);
	} else if (!worker->hung_up && !pool->stopping) {
		pool->deaths++;
		/* One that has worked is replaced at once; one that dies before its first job may be
		 * the first of an endless row. */
		if (worker->jobs_done == 0 && !pool->respawn_armed) {
			pool->failures++;
			if (pool->failures > 1)
				arm_respawn(pool);
		}
	}
	adjust(pool);
	check_stopped(pool);
	pool_kick(pool);
}

void pool_stop(struct pool *pool, void (*on_stopped)(void *data))
{
	pool->stopping = true;
	pool->on_stopped = on_stopped;
	uv_timer_stop(&pool->respawn);
	pool_local_stop(pool->local);
	for (size_t i = 0; i < pool->count; i++) {
		struct pool_worker *worker = pool->workers[i];

		if (!worker->hung_up) {
			worker->leaving = worker->hung_up = true;
			worker_process_hang_up(&worker->process);
		}
	}
	check_stopped(pool);
}

void pool_kill(struct pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		uv_process_kill(&pool->workers[i]->process.process, SIGKILL);
}

void pool_finish(struct pool *pool)
{
	uv_close((uv_handle_t *)&pool->respawn, NULL);
	uv_close((uv_handle_t *)&pool->watch, NULL);
	pool_local_destroy(pool->local);
	pool->local = NULL;
	free(pool->workers);
	pool->workers = NULL;
}

size_t pool_list(const struct pool *pool, struct pool_worker_info *infos, size_t most)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->count && n < most; i++) {
		const struct pool_worker *worker = pool->workers[i];

		if (!worker->greeted)
			continue;
		infos[n++] = (struct pool_worker_info){
			.pid = worker->process.pid,
			.samples = worker->samples,
			.busy_ns = worker->busy_ns,
			.queued = worker->job_count,
		};
	}
	return n;
}
