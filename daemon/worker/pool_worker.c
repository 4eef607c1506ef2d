/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/pool_worker.h"

#include "daemon/util/escape.h"
#include "daemon/util/log.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RECORDS_PER_TURN = 64 };

/* The page through which a worker says where it is; returns its fd, and the mapping in *page. */
static int create_page(struct worker_page **page)
{
	_cleanup_fd_ int fd = memfd_create("stoker-worker-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *mapping;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(**page)) < 0)
		return -errno;
	/* A page that the worker could shrink would be our SIGBUS. */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	mapping = mmap(NULL, sizeof(**page), PROT_READ, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		return -errno;
	*page = mapping;
	return steal_fd(&fd);
}

/* A worker that answers nonsense is not to be trusted with anything further. */
void pool_worker_kill_broken(struct pool_worker *worker, const char *what)
{
	if (worker->broken)
		return;
	log_error("worker %d %s; it is replaced", worker->process.pid, what);
	worker->broken = true;
	uv_poll_stop(&worker->process.poll);
	if (!worker->reaped)
		uv_process_kill(&worker->process.process, SIGKILL);
}

static void hang_up_when_idle(struct pool_worker *worker)
{
	if (worker->leaving && worker->job_count == 0 && !worker->hung_up) {
		worker->hung_up = true;
		worker->progress_ms = uv_now(worker->pool->loop);
		worker_process_hang_up(&worker->process);
	}
}

static void forget_attachment(struct pool_worker *worker, size_t i)
{
	struct pool_stream *stream = worker->attachments[i].stream;
	struct pool *pool = worker->pool;

	worker->attachments[i] = worker->attachments[--worker->attachment_count];
	if (--stream->attached == 0 && stream->released)
		pool->ops->unmapped(stream, pool->data);
}

/* A bad row counts once its job is over, or its worker dead: rows that are rendered again report
 * again. */
static void take_bad(struct pool_worker *worker, struct result *result)
{
	const struct pool_job *job = &worker->jobs[0];
	unsigned n = worker->bad_count;

	if (worker->job_count == 0 || result->id != job->render.id ||
		result->rows_done >= job->render.rows ||
		(n > 0 && result->rows_done <= worker->bad[n - 1].rows_done) || result->bad == 0 ||
		result->bad >= BAD_REASONS) {
		pool_worker_kill_broken(worker, "told of a bad row that it does not have");
		return;
	}
	result->reason.text[ERROR_TEXT_MAX - 1] = '\0';
	worker->bad[worker->bad_count++] = *result;
}

/* Pass on the bad rows among the first `rows_done` of `job`, which jobs[0] was. */
static void settle_bad(struct pool_worker *worker, const struct pool_job *job, uint32_t rows_done)
{
	struct pool *pool = worker->pool;

	for (unsigned i = 0; i < worker->bad_count; i++) {
		if (worker->bad[i].rows_done < rows_done)
			pool->ops->bad(job, worker->bad[i].rows_done, &worker->bad[i], pool->data);
	}
	worker->bad_count = 0;
}

static void take_rendered(struct pool_worker *worker, struct result *result)
{
	struct pool *pool = worker->pool;
	struct pool_job job = worker->jobs[0];

	if (worker->job_count == 0 || result->id != job.render.id ||
		result->rows_done > job.render.rows || result->bad >= BAD_REASONS) {
		pool_worker_kill_broken(worker, "answered a job that it does not have");
		return;
	}
	result->reason.text[ERROR_TEXT_MAX - 1] = '\0';
	memmove(&worker->jobs[0], &worker->jobs[1], sizeof(worker->jobs[0]) * (JOB_QUEUE - 1));
	worker->job_count--;
	worker->jobs_done++;
	worker->samples += result->rows_done;
	worker->busy_ns += result->busy_ns;
	worker->progress_ms = uv_now(pool->loop);
	worker->seen_changes = 0;
	if (worker->jobs_done == 1)
		pool->failures = 0;
	settle_bad(worker, &job, result->rows_done);
	pool->ops->rendered(&job, result, pool->data);
}

static void take_detached(struct pool_worker *worker, uint32_t stream)
{
	for (size_t i = 0; i < worker->attachment_count; i++) {
		if (worker->attachments[i].id == stream && worker->attachments[i].detaching) {
			forget_attachment(worker, i);
			return;
		}
	}
	pool_worker_kill_broken(worker, "unmapped a stream that it was not asked to");
}

static void take_ready(struct pool_worker *worker, const struct result *result)
{
	if (worker->greeted) {
		pool_worker_kill_broken(worker, "said twice that it is ready");
		return;
	}
	worker->greeted = worker->ready = true;
	worker->pool->ever_ready = true;
	worker->pool->sandbox = result->sandbox;
}

/* Its last words. It has no stderr: that would be the daemon's. */
static void take_failed(struct pool_worker *worker, struct result *result)
{
	result->reason.text[ERROR_TEXT_MAX - 1] = '\0';
	escape_sanitize(result->reason.text);
	log_error("worker %d: %s", worker->process.pid, result->reason.text);
	worker->ready = false;
}

/* Read the records that are there, up to `most`: the loop calls again while there are more. */
static void drain(struct pool_worker *worker, unsigned most)
{
	while (!worker->broken && most-- > 0) {
		struct result result;
		int fds[JOB_FDS_MAX];
		unsigned fd_count;
		int size = job_receive(
			worker->process.fd, false, &result, sizeof(result), fds, &fd_count);

		while (size > 0 && fd_count > 0)
			close_fd(fds[--fd_count]);
		if (size == -EAGAIN)
			return;
		if (size == 0) {
			/* It is on its way out, and on_exit tells the rest. One that has closed its socket
			 * and lives on is of no use. */
			uv_poll_stop(&worker->process.poll);
			if (!worker->reaped && !worker->hung_up)
				uv_process_kill(&worker->process.process, SIGKILL);
			return;
		}
		if (size != sizeof(result)) {
			pool_worker_kill_broken(worker, "sent a record of the wrong size");
			return;
		}
		switch (result.kind) {
		case RESULT_READY: take_ready(worker, &result); break;
		case RESULT_FAILED: take_failed(worker, &result); break;
		case RESULT_RENDERED: take_rendered(worker, &result); break;
		case RESULT_BAD: take_bad(worker, &result); break;
		case RESULT_DETACHED: take_detached(worker, result.stream); break;
		default: pool_worker_kill_broken(worker, "sent a record of an unknown kind"); break;
		}
	}
}

static void on_readable(struct worker_process *process)
{
	struct pool_worker *worker = (struct pool_worker *)process;

	drain(worker, RECORDS_PER_TURN);
	pool_worker_detach_released(worker);
	hang_up_when_idle(worker);
	pool_kick(worker->pool);
}

/* What the page says is only as good as the worker. */
static uint32_t attempt_at_hand(const struct pool_worker *worker)
{
	uint32_t attempt = atomic_load(&worker->page->attempt);

	return attempt <= REPLACE_TRIES ? attempt : 0;
}

/* Was the worker at job `i` of those that it has, and at which row? One that has finished all rows and
 * said so in its page, but not in a record, died of the last one. One that was too late was at its first
 * job, whatever the page says. */
static bool at_hand(const struct pool_worker *worker, unsigned i, uint32_t *row)
{
	const struct job_render *job = &worker->jobs[i].render;

	*row = atomic_load(&worker->page->row);
	if (*row >= job->rows)
		*row = job->rows - 1;
	if (job->id == atomic_load(&worker->page->job))
		return true;
	*row = 0;
	return worker->late && i == 0;
}

/* Tell the layer above about the jobs that died with the worker, and name the file at hand. */
static void report_losses(struct pool_worker *worker, int status, int signal)
{
	bool fault = worker->broken || signal_is_fault(signal) || (signal == 0 && status != 0);
	struct pool *pool = worker->pool;

	for (unsigned i = 0; i < worker->job_count; i++) {
		const struct pool_job *job = &worker->jobs[i];
		uint32_t row;
		struct pool_loss loss = {
			.cause = worker->late     ? "it took longer than image_timeout"
				 : worker->broken ? "it answered nonsense"
				 : signal != 0    ? signal_name(signal)
						  : "an error of its own",
		};

		if (at_hand(worker, i, &row)) {
			loss.rows_done = row;
			loss.fault = fault;
			loss.attempt = attempt_at_hand(worker);
		}
		if (i == 0)
			settle_bad(worker, job, loss.rows_done);
		pool->ops->lost(job, &loss, pool->data);
	}
	worker->job_count = 0;
}

/* Where the worker was: at a sample, before the first one of a job that it had not begun, or idle.
 * Returns the number of samples that have to be rendered again. */
static uint32_t describe_position(const struct pool_worker *worker, char *text, size_t size)
{
	const struct pool *pool = worker->pool;
	uint32_t samples = 0;
	int used = snprintf(text, size, "while idle");

	for (unsigned i = 0; i < worker->job_count; i++) {
		const struct pool_job *job = &worker->jobs[i];
		uint32_t row;
		bool is_at_hand = at_hand(worker, i, &row);

		samples += job->render.rows - row;
		if (i > 0)
			continue;
		used = snprintf(text, size, is_at_hand ? "at " : "before ");
		pool->ops->describe(job, row, is_at_hand ? attempt_at_hand(worker) : 0, text + used,
			size - (size_t)used, pool->data);
	}
	return samples;
}

static void log_death(struct pool_worker *worker, int status, int signal)
{
	char where[ERROR_TEXT_MAX];
	uint32_t samples = describe_position(worker, where, sizeof(where));
	const char *cause = signal == SIGKILL  ? "an operator, or the kernel for want of memory"
			    : signal == SIGSYS ? "a system call that its sandbox does not allow"
			    : signal_is_fault(signal) ? "a fault while decoding"
						      : "an operator";

	if (signal == 0)
		log_error(
			"worker %d exited with status %d %s; its %u samples are rendered again and a "
			"new worker starts",
			worker->process.pid, status, where, samples);
	else
		log_error(
			"worker %d was killed by %s %s (likely cause: %s); its %u samples are rendered "
			"again and a new worker starts",
			worker->process.pid, signal_name(signal), where, cause, samples);
}

static void on_exit_worker(struct worker_process *process, int status, int signal)
{
	struct pool_worker *worker = (struct pool_worker *)process;

	worker->reaped = true;
	drain(worker, UINT_MAX);
	if (!worker->hung_up && !worker->broken && !worker->pool->stopping &&
		status != WORKER_EXIT_SANDBOX)
		log_death(worker, status, signal);
	report_losses(worker, status, signal);
	while (worker->attachment_count > 0)
		forget_attachment(worker, worker->attachment_count - 1);
	pool_worker_gone(worker, status, signal);
	worker_process_close(process);
}

static void on_closed(struct worker_process *process)
{
	struct pool_worker *worker = (struct pool_worker *)process;

	if (worker->page != NULL)
		munmap(worker->page, sizeof(*worker->page));
	free(worker->attachments);
	free(worker);
}

struct pool_worker *pool_worker_start(struct pool *pool, struct error_text *error)
{
	static const struct worker_process_ops ops = {
		.on_readable = on_readable,
		.on_exit = on_exit_worker,
		.on_closed = on_closed,
	};
	struct pool_worker *worker = calloc(1, sizeof(*worker));
	_cleanup_fd_ int page_fd = -1;

	if (worker == NULL) {
		error_set(error, -ENOMEM, "a worker cannot be started: out of memory");
		return NULL;
	}
	worker->pool = pool;
	page_fd = create_page(&worker->page);
	if (page_fd < 0) {
		error_set(error, page_fd, "a worker cannot be started: memfd_create: %s",
			strerror(-page_fd));
		free(worker);
		return NULL;
	}
	if (worker_process_start(&worker->process, pool->loop, &pool->settings, "render", NULL,
		    page_fd, &ops, error) < 0)
		return NULL;
	return worker;
}

bool pool_worker_wants_job(const struct pool_worker *worker)
{
	return worker->ready && !worker->leaving && !worker->broken &&
	       worker->job_count < JOB_QUEUE;
}

static int send_attach(struct pool_worker *worker, const struct pool_stream *stream)
{
	int fds[JOB_FDS_MAX];
	unsigned fd_count = 0;

	for (unsigned i = 0; i < JOB_FDS_MAX; i++) {
		if (stream->fds[i] >= 0)
			fds[fd_count++] = stream->fds[i];
	}
	return job_send(worker->process.fd, &stream->attach, sizeof(stream->attach), fds, fd_count);
}

/* Make sure that the worker has the job's stream mapped. */
static int attach(struct pool_worker *worker, struct pool_stream *stream)
{
	int r;

	for (size_t i = 0; i < worker->attachment_count; i++) {
		if (worker->attachments[i].stream == stream)
			return 0;
	}
	if (worker->attachment_count == worker->attachment_capacity) {
		size_t capacity = 8 + 2 * worker->attachment_capacity;
		struct pool_attachment *attachments =
			realloc(worker->attachments, capacity * sizeof(*attachments));

		if (attachments == NULL)
			return -ENOMEM;
		worker->attachments = attachments;
		worker->attachment_capacity = capacity;
	}
	r = send_attach(worker, stream);
	if (r < 0)
		return r;
	worker->attachments[worker->attachment_count++] =
		(struct pool_attachment){.stream = stream, .id = stream->attach.stream};
	stream->attached++;
	return 0;
}

int pool_worker_give(struct pool_worker *worker, const struct pool_job *job)
{
	int r = attach(worker, job->stream);

	if (r == 0)
		r = job_send(worker->process.fd, &job->render, sizeof(job->render), NULL, 0);
	if (r < 0)
		return r;
	if (worker->job_count == 0) {
		worker->progress_ms = uv_now(worker->pool->loop);
		worker->seen_changes = 0;
	}
	worker->jobs[worker->job_count++] = *job;
	return 0;
}

void pool_worker_detach_released(struct pool_worker *worker)
{
	if (worker->broken)
		return;
	for (size_t i = 0; i < worker->attachment_count; i++) {
		struct pool_attachment *attachment = &worker->attachments[i];
		struct job_detach job = {.kind = JOB_DETACH, .stream = attachment->id};

		if (!attachment->stream->released || attachment->detaching)
			continue;
		/* A full socket is tried again when the worker has answered something. */
		if (job_send(worker->process.fd, &job, sizeof(job), NULL, 0) < 0)
			return;
		attachment->detaching = true;
	}
}

/* How often its page can change before the jobs that it has are done: with each attempt at a row, with
 * the row, and at the begin and end of a job, which take more than one store. */
static uint32_t possible_changes(const struct pool_worker *worker)
{
	uint32_t changes = 0;

	for (unsigned i = 0; i < worker->job_count; i++) {
		const struct pool_job *job = &worker->jobs[i];
		bool replace = job->stream->attach.on_bad_sample == BAD_SAMPLE_REPLACE;

		changes += job->render.rows * (replace ? REPLACE_TRIES + 2 : 1) + 4;
	}
	return changes;
}

void pool_worker_check_time(struct pool_worker *worker, uint64_t now_ms)
{
	uint64_t job = atomic_load(&worker->page->job);
	uint32_t row = atomic_load(&worker->page->row);
	uint32_t attempt = atomic_load(&worker->page->attempt);
	uint32_t patience = worker->pool->settings.image_timeout_ms;
	char where[ERROR_TEXT_MAX], what[ERROR_TEXT_MAX + 64];

	if (worker->broken || (worker->job_count == 0 && !worker->hung_up))
		return;
	/* Each finished row or attempt is progress; a job has few, so a worker that lies gains
	 * little. */
	if (!worker->hung_up && worker->seen_changes < possible_changes(worker) &&
		(job != worker->seen_job || row != worker->seen_row ||
			attempt != worker->seen_attempt)) {
		worker->seen_changes++;
		worker->seen_job = job;
		worker->seen_row = row;
		worker->seen_attempt = attempt;
		worker->progress_ms = now_ms;
	}
	if (patience != 0 && now_ms - worker->progress_ms >= patience) {
		describe_position(worker, where, sizeof(where));
		snprintf(what, sizeof(what), "has made no progress for %u s %s", patience / 1000,
			where);
		worker->late = true;
		pool_worker_kill_broken(worker, what);
	}
}

void pool_worker_leave(struct pool_worker *worker)
{
	worker->leaving = true;
	hang_up_when_idle(worker);
}
