/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/pool_local.h"

#include "daemon/worker/pool.h"
#include "daemon/worker/render_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct local_view {
	struct pool_stream *stream;
	struct view view;
};

struct pool_local {
	uv_idle_t idle; /* runs each turn of the loop while there is work */
	struct pool *pool;
	struct pool_job job; /* at hand; rows == 0 when none */
	struct result result;
	uint64_t started_ns;
	struct renderer renderer;
	struct local_view *views;
	size_t view_count, view_capacity;
};

static int dup_fd(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static struct view *find_or_attach(
	struct pool_local *local, struct pool_stream *stream, struct error_text *error)
{
	struct local_view *entry;
	int fds[JOB_FDS_MAX];

	for (size_t i = 0; i < local->view_count; i++) {
		if (local->views[i].stream == stream)
			return &local->views[i].view;
	}
	if (local->view_count == local->view_capacity) {
		size_t capacity = 8 + 2 * local->view_capacity;
		struct local_view *views = realloc(local->views, capacity * sizeof(*views));

		if (views == NULL) {
			error_set(error, -ENOMEM, "out of memory");
			return NULL;
		}
		local->views = views;
		local->view_capacity = capacity;
	}
	entry = &local->views[local->view_count];
	entry->stream = stream;
	for (unsigned i = 0; i < JOB_FDS_MAX; i++)
		fds[i] = dup_fd(stream->fds[i]);
	if (view_init_consume_fds(&entry->view, &stream->attach, fds, error) < 0)
		return NULL;
	local->view_count++;
	stream->attached++;
	return &entry->view;
}

static void finish_job(struct pool_local *local)
{
	struct pool_job job = local->job;

	local->job.render.rows = 0;
	local->result.notes = local->renderer.notes;
	local->result.busy_ns = uv_hrtime() - local->started_ns;
	local->pool->ops->rendered(&job, &local->result, local->pool->data);
}

static bool begin_job(struct pool_local *local)
{
	if (local->pool->stopping || local->pool->target > 0 ||
		!local->pool->ops->next_job(&local->job, JOB_ROWS_MAX, local->pool->data)) {
		local->job.render.rows = 0;
		return false;
	}
	memset(&local->result, 0, sizeof(local->result));
	local->renderer.notes = 0;
	local->started_ns = uv_hrtime();
	return true;
}

static void on_idle(uv_idle_t *idle)
{
	struct pool_local *local = idle->data;
	const struct job_render *job = &local->job.render;
	struct view *view;
	struct result *result = &local->result;
	uint32_t row;

	if (job->rows == 0 && !begin_job(local)) {
		uv_idle_stop(&local->idle);
		return;
	}
	row = result->rows_done;
	view = find_or_attach(local, local->job.stream, &result->reason);
	if (view == NULL) {
		result->bad = BAD_UNREADABLE;
		finish_job(local);
		return;
	}
	result->bad =
		(uint32_t)render_job_row(&local->renderer, view, job, row, NULL, &result->reason);
	if (result->bad != 0 && view->on_bad_sample == BAD_SAMPLE_ERROR) {
		finish_job(local);
		return;
	}
	if (result->bad != 0)
		local->pool->ops->bad(&local->job, row, result, local->pool->data);
	result->rows_done = row + 1;
	if (result->rows_done == job->rows)
		finish_job(local);
}

struct pool_local *pool_local_create(struct pool *pool)
{
	struct pool_local *local = calloc(1, sizeof(*local));

	if (local == NULL)
		return NULL;
	local->pool = pool;
	uv_idle_init(pool->loop, &local->idle);
	local->idle.data = local;
	return local;
}

void pool_local_kick(struct pool_local *local)
{
	uv_idle_start(&local->idle, on_idle);
}

void pool_local_stop(struct pool_local *local)
{
	struct pool_job job = local->job;

	uv_idle_stop(&local->idle);
	if (job.render.rows == 0)
		return;
	local->job.render.rows = 0;
	local->pool->ops->lost(&job, &(struct pool_loss){.cause = "the end"}, local->pool->data);
}

void pool_local_detach(struct pool_local *local, struct pool_stream *stream)
{
	for (size_t i = 0; i < local->view_count; i++) {
		if (local->views[i].stream == stream) {
			view_finish(&local->views[i].view);
			local->views[i] = local->views[--local->view_count];
			stream->attached--;
			return;
		}
	}
}

static void on_closed(uv_handle_t *handle)
{
	struct pool_local *local = handle->data;

	for (size_t i = 0; i < local->view_count; i++)
		view_finish(&local->views[i].view);
	free(local->views);
	renderer_finish(&local->renderer);
	free(local);
}

void pool_local_destroy(struct pool_local *local)
{
	if (local != NULL)
		uv_close((uv_handle_t *)&local->idle, on_closed);
}
