/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/indexer.h"

#include "daemon/util/ownership.h"
#include "daemon/worker/job.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { RECORDS_PER_TURN = 16 };

struct indexer {
	struct worker_process process; /* first: callbacks get this pointer */
	const struct indexer_ops *ops; /* NULL once the result is delivered or unwanted */
	bool reaped;
	void *data;
};

static void fail(struct indexer *indexer, const char *why)
{
	const struct indexer_ops *ops = indexer->ops;

	indexer->ops = NULL;
	if (ops != NULL)
		ops->failed(why, indexer->data);
}

/* It has done what it was started for; nobody waits for it to end by itself. */
static void end(struct indexer *indexer)
{
	if (!indexer->reaped)
		uv_process_kill(&indexer->process.process, SIGKILL);
}

static void take_result(struct indexer *indexer, struct result *result, int fds[], unsigned count)
{
	const struct indexer_ops *ops = indexer->ops;

	result->reason.text[ERROR_TEXT_MAX - 1] = '\0';
	if (ops != NULL && result->kind == RESULT_PROGRESS) {
		ops->progress(result->samples, indexer->data);
	} else if (ops != NULL && result->kind == RESULT_FAILED) {
		fail(indexer, result->reason.text);
		end(indexer);
	} else if (ops != NULL && result->kind == RESULT_INDEXED && count >= 1) {
		indexer->ops = NULL;
		ops->indexed(steal_fd(&fds[0]), count >= 2 ? steal_fd(&fds[1]) : -1,
			(enum index_origin)result->origin, result->reason.text, indexer->data);
		end(indexer);
	}
	while (count > 0)
		close_fd(fds[--count]);
}

static void read_records(struct indexer *indexer, unsigned most)
{
	struct worker_process *process = &indexer->process;

	while (most-- > 0) {
		struct result result;
		int fds[JOB_FDS_MAX];
		unsigned fd_count;
		int size = job_receive(process->fd, false, &result, sizeof(result), fds, &fd_count);

		if (size == -EAGAIN)
			return;
		if (size != sizeof(result)) {
			uv_poll_stop(&process->poll);
			while (size > 0 && fd_count > 0)
				close_fd(fds[--fd_count]);
			return;
		}
		take_result(indexer, &result, fds, fd_count);
	}
}

static void on_readable(struct worker_process *process)
{
	read_records((struct indexer *)process, RECORDS_PER_TURN);
}

static void on_exit_indexer(struct worker_process *process, int status, int signal)
{
	struct indexer *indexer = (struct indexer *)process;
	char why[160];

	indexer->reaped = true;
	read_records(indexer, UINT_MAX);
	if (signal != 0)
		snprintf(why, sizeof(why), "the indexing process was killed by %s%s",
			signal_name(signal),
			signal == SIGKILL ? " (by an operator or for want of memory)" : "");
	else if (status == WORKER_EXIT_SANDBOX)
		snprintf(why, sizeof(why), "the indexing process could not enter its sandbox");
	else
		snprintf(why, sizeof(why), "the indexing process ended with status %d", status);
	fail(indexer, why);
	worker_process_close(process);
}

static void on_closed(struct worker_process *process)
{
	free(process);
}

/* Tell it what to reuse and to save into; it waits for that. */
static void send_job(struct indexer *indexer, const struct indexer_request *request)
{
	const struct job_index job = {
		.kind = JOB_INDEX,
		.has_saved = request->saved_fd >= 0,
		.has_save = request->save_fd >= 0,
	};
	int fds[2];
	unsigned count = 0;

	if (request->saved_fd >= 0)
		fds[count++] = request->saved_fd;
	if (request->save_fd >= 0)
		fds[count++] = request->save_fd;
	if (job_send(indexer->process.fd, &job, sizeof(job), fds, count) < 0)
		end(indexer);
}

struct indexer *indexer_start(uv_loop_t *loop, const struct worker_settings *settings,
	const struct indexer_request *request, const struct indexer_ops *ops, void *data,
	struct error_text *error)
{
	static const struct worker_process_ops process_ops = {
		.on_readable = on_readable,
		.on_exit = on_exit_indexer,
		.on_closed = on_closed,
	};
	struct indexer *indexer = calloc(1, sizeof(*indexer));
	char memory[32], pixels[32];

	if (indexer == NULL) {
		error_set(error, -ENOMEM, "out of memory");
		return NULL;
	}
	indexer->data = data;
	snprintf(memory, sizeof(memory), "%" PRIu64, request->max_memory);
	snprintf(pixels, sizeof(pixels), "%" PRIu64, request->max_pixels);

	const char *const extra[] = {memory, pixels, request->options, request->path, NULL};

	if (worker_process_start(
		    &indexer->process, loop, settings, "index", extra, -1, &process_ops, error) < 0)
		return NULL;
	indexer->ops = ops;
	send_job(indexer, request);
	return indexer;
}

void indexer_abandon(struct indexer *indexer)
{
	if (indexer == NULL)
		return;
	indexer->ops = NULL;
	end(indexer);
}
