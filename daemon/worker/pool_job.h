/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/worker/job.h"

#include <stdbool.h>
#include <stdint.h>

/* A stream as the pool sees it: what a worker must be given before it can render for it. Embedded in
 * serve's stream, which must stay until pool_release_stream has said that nobody has it mapped. */
struct pool_stream {
	struct job_attach attach;
	int fds[JOB_FDS_MAX]; /* borrowed: arena, index, then data and part, or -1 */
	uint32_t attached;    /* workers that have it mapped */
	bool released;        /* to be unmapped everywhere */
};

/* A job on its way. */
struct pool_job {
	struct pool_stream *stream;
	struct job_render render;
};

/* How a job was lost. */
struct pool_loss {
	uint32_t rows_done; /* rows that were finished before */
	bool fault;       /* the row after those was being worked on, and the worker died by a fault
	                     * of its own: SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGSYS, SIGFPE, an exit
	                     * with an error, or an answer that made no sense */
	uint32_t attempt; /* that was being made at that row, at most REPLACE_TRIES */
	const char *cause; /* "SIGSEGV", ... */
};

/* What the pool asks of the layer above. */
struct pool_ops {
	/* The most urgent work of at most `most_rows` rows: fill *job, or false when there is none. */
	bool (*next_job)(struct pool_job *job, uint32_t most_rows, void *data);
	/* The job is over: result->rows_done rows are rendered; if that is fewer than asked for, the
	 * next row is bad and result->reason says why. */
	void (*rendered)(const struct pool_job *job, const struct result *result, void *data);
	/* Row `row` of the job is done but bad: bad->bad and bad->reason say why. Before `rendered` or
	 * `lost`, once for each. */
	void (*bad)(const struct pool_job *job, uint32_t row, const struct result *bad, void *data);
	/* The job did not come back. */
	void (*lost)(const struct pool_job *job, const struct pool_loss *loss, void *data);
	/* Name the sample of attempt `attempt` at row `row` of the job for people. */
	void (*describe)(const struct pool_job *job, uint32_t row, uint32_t attempt, char *text,
		size_t size, void *data);
	/* No worker has the stream mapped any more. */
	void (*unmapped)(struct pool_stream *stream, void *data);
	/* Workers cannot run here at all. */
	void (*broken)(const char *why, void *data);
};
