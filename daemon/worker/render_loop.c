/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/render_loop.h"

#include "daemon/util/ownership.h"
#include "daemon/worker/render_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

int render_loop_init(struct render_loop *loop, int socket_fd, int page_fd)
{
	void *page = mmap(
		NULL, sizeof(struct worker_page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	close(page_fd);
	loop->page = page;
	loop->fd = socket_fd;
	return 0;
}

void render_loop_finish(struct render_loop *loop)
{
	for (size_t i = 0; i < loop->view_count; i++)
		view_finish(&loop->views[i]);
	free(loop->views);
	renderer_finish(&loop->renderer);
	if (loop->page != NULL)
		munmap(loop->page, sizeof(*loop->page));
	loop->fd = close_fd(loop->fd);
	*loop = (struct render_loop)RENDER_LOOP_NULL;
}

static struct view *find_view(struct render_loop *loop, uint32_t stream)
{
	for (size_t i = 0; i < loop->view_count; i++) {
		if (loop->views[i].stream == stream)
			return &loop->views[i];
	}
	return NULL;
}

static int attach(struct render_loop *loop, const struct job_attach *job, int fds[JOB_FDS_MAX])
{
	struct error_text error;
	struct view *view;
	int r;

	if (loop->view_count == loop->view_capacity) {
		size_t capacity = loop->view_capacity == 0 ? 8 : 2 * loop->view_capacity;
		struct view *views = realloc(loop->views, capacity * sizeof(*views));

		if (views == NULL)
			return -ENOMEM;
		loop->views = views;
		loop->view_capacity = capacity;
	}
	view = &loop->views[loop->view_count];
	if (job->has_data == 0) { /* what is there comes without a gap */
		fds[3] = fds[2];
		fds[2] = -1;
	}
	r = view_init_consume_fds(view, job, fds, &error);
	if (r < 0) {
		struct result last_words = {.kind = RESULT_FAILED};

		error_set(&last_words.reason, 0, "stream %u cannot be attached: %s", job->stream,
			error.text);
		job_send(loop->fd, &last_words, sizeof(last_words), NULL, 0);
		return r;
	}
	loop->view_count++;
	return 0;
}

static int detach(struct render_loop *loop, uint32_t stream)
{
	struct result result = {.kind = RESULT_DETACHED, .stream = stream};
	struct view *view = find_view(loop, stream);

	if (view == NULL)
		return -EBADMSG;
	view_finish(view);
	*view = loop->views[--loop->view_count];
	return job_send(loop->fd, &result, sizeof(result), NULL, 0);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Row result->rows_done of the job is bad, and something stands in its place. */
static int report_bad(struct render_loop *loop, const struct result *result)
{
	struct result bad = *result;

	bad.kind = RESULT_BAD;
	return job_send(loop->fd, &bad, sizeof(bad), NULL, 0);
}

static int render(struct render_loop *loop, const struct job_render *job)
{
	struct result result = {.kind = RESULT_RENDERED, .id = job->id};
	const struct view *view = find_view(loop, job->stream);
	uint64_t start = now_ns();
	int r = 0;

	if (view == NULL || !render_job_fits(view, job))
		return -EBADMSG;
	loop->renderer.notes = 0;
	atomic_store_explicit(&loop->page->row, 0, memory_order_relaxed);
	atomic_store_explicit(&loop->page->attempt, 0, memory_order_relaxed);
	atomic_store_explicit(&loop->page->job, job->id, memory_order_release);
	for (uint32_t i = 0; i < job->rows && r == 0; i++) {
		result.bad = (uint32_t)render_job_row(
			&loop->renderer, view, job, i, &loop->page->attempt, &result.reason);
		if (result.bad != 0 && view->on_bad_sample == BAD_SAMPLE_ERROR)
			break;
		if (result.bad != 0)
			r = report_bad(loop, &result);
		result.rows_done = i + 1;
		atomic_store_explicit(&loop->page->attempt, 0, memory_order_relaxed);
		atomic_store_explicit(&loop->page->row, result.rows_done, memory_order_release);
	}
	if (r < 0)
		return r;
	atomic_store_explicit(&loop->page->job, 0, memory_order_release);
	result.notes = loop->renderer.notes;
	result.busy_ns = now_ns() - start;
	return job_send(loop->fd, &result, sizeof(result), NULL, 0);
}

/* Has this process waited for a disk since the last call? */
static bool disk_was_read(struct render_loop *loop)
{
	struct rusage usage;
	long before = loop->blocks_read;

	if (getrusage(RUSAGE_SELF, &usage) < 0)
		return false;
	loop->blocks_read = usage.ru_inblock;
	return usage.ru_inblock > before;
}

static bool record_has_size(const union job *job, int size, unsigned fd_count)
{
	switch (job->kind) {
	case JOB_ATTACH:
		return size == sizeof(job->attach) &&
		       fd_count ==
			       2u + (job->attach.has_data != 0) + (job->attach.part_samples != 0);
	case JOB_RENDER: return size == sizeof(job->render) && fd_count == 0;
	case JOB_DETACH: return size == sizeof(job->detach) && fd_count == 0;
	default: return false;
	}
}

/* Look whether the next job is here already, and have the kernel read its files while this one is
 * worked on. With everything in the page cache that would only cost, so it is done while jobs wait
 * for the disk. */
static int look_ahead(struct render_loop *loop)
{
	int fds[JOB_FDS_MAX] = {-1, -1, -1, -1};
	unsigned fd_count;
	const struct view *view;
	int r = job_receive(loop->fd, false, &loop->ahead, sizeof(loop->ahead), fds, &fd_count);

	if (r == -EAGAIN || r == 0)
		return 0; /* 0, the peer is gone, shows again at the next blocking receive */
	if (r < 0)
		return r;
	if (!record_has_size(&loop->ahead, r, fd_count))
		return -EBADMSG;
	if (loop->ahead.kind == JOB_ATTACH)
		return attach(loop, &loop->ahead.attach, fds);
	loop->ahead_size = r;
	if (loop->ahead.kind != JOB_RENDER || !disk_was_read(loop))
		return 0;
	view = find_view(loop, loop->ahead.render.stream);
	if (view == NULL || !render_job_fits(view, &loop->ahead.render))
		return 0; /* judged when its turn comes */
	for (uint32_t i = 0; i < loop->ahead.render.rows; i++)
		render_read_ahead(view, loop->ahead.render.samples[i]);
	return 0;
}

/* The next record, in order: 1 = got one, 0 = stokerd is gone. Attaching happens on receipt. */
static int next_record(struct render_loop *loop, union job *job, int fds[JOB_FDS_MAX])
{
	unsigned fd_count;
	int size;

	if (loop->ahead_size > 0) {
		*job = loop->ahead;
		loop->ahead_size = 0;
		return 1;
	}
	size = job_receive(loop->fd, true, job, sizeof(*job), fds, &fd_count);
	if (size <= 0)
		return size;
	return record_has_size(job, size, fd_count) ? 1 : -EBADMSG;
}

int render_loop_run(struct render_loop *loop, uint32_t sandbox)
{
	struct result ready = {.kind = RESULT_READY, .sandbox = sandbox};
	int r = job_send(loop->fd, &ready, sizeof(ready), NULL, 0);

	while (r >= 0) {
		int fds[JOB_FDS_MAX] = {-1, -1, -1, -1};
		union job job;

		r = next_record(loop, &job, fds);
		if (r <= 0)
			break;
		switch (job.kind) {
		case JOB_ATTACH: r = attach(loop, &job.attach, fds); break;
		case JOB_DETACH: r = detach(loop, job.detach.stream); break;
		case JOB_RENDER:
			r = look_ahead(loop);
			if (r == 0)
				r = render(loop, &job.render);
			break;
		}
	}
	return r == -EPIPE ? 0 : r;
}
