/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/batch/arena.h"
#include "daemon/image/transform.h"

#include <stdatomic.h>
#include <stdint.h>

/*
 * What stokerd and a worker say to each other, over a SOCK_SEQPACKET pair: one record per message,
 * each of a fixed size, told apart by its first field. Both sides are the same build.
 *
 *   stokerd -> worker   JOB_ATTACH  + 2 to 4 descriptors: arena, index [, data] [, part]
 *                       JOB_RENDER  render rows of a slot of an attached stream
 *                       JOB_DETACH  unmap a stream
 *   worker -> stokerd   RESULT_READY     sandboxed and waiting for work
 *                       RESULT_BAD       one per bad row of the job at hand, unless it ends the stream
 *                       RESULT_RENDERED  one per JOB_RENDER, in order
 *                       RESULT_DETACHED  one per JOB_DETACH
 *
 *   stokerd -> index worker   JOB_INDEX  + 0 to 2 descriptors: a saved index, a file to save into
 *   index worker -> stokerd   RESULT_PROGRESS  samples so far
 *                             RESULT_INDEXED   + 1 or 2 descriptors: index [, data]
 *                             RESULT_FAILED    with the reason
 */
enum job_kind {
	JOB_ATTACH = 1,
	JOB_RENDER,
	JOB_DETACH,
	JOB_INDEX,
};

enum {
	JOB_ROWS_MAX = 32, /* samples in one job */
	JOB_FDS_MAX = 4,   /* descriptors with one record */
	JOB_QUEUE = 2,     /* jobs out with one worker: it never waits for stokerd */
	JOB_SOCKET_FD = 3, /* a worker's end of the pair */
	JOB_PAGE_FD = 4,   /* a worker's struct worker_page */
};

/* What becomes of a sample that cannot be delivered; see render_policy.h. */
enum bad_sample_policy {
	BAD_SAMPLE_ERROR = 0,
	BAD_SAMPLE_MASK,
	BAD_SAMPLE_REPLACE,
};

enum {
	REPLACE_TRIES = 8, /* samples tried in place of a bad one */
};

/* Why a sample cannot be delivered, in a word. */
enum bad_reason {
	BAD_PICTURE = 1, /* its bytes are no picture that we decode */
	BAD_UNREADABLE,  /* missing, forbidden, no regular file, too large, shrunk */
	BAD_SIZE,        /* a picture of another size or number of channels than the first */
	BAD_KILLER,      /* its decoding has killed a worker twice */
	BAD_REASONS,     /* one more than the last */
};

/* What is worth telling of samples that are fine. */
enum render_note {
	NOTE_GREY16 = 1, /* of grey of 16 bits the high byte was taken */
};

struct job_attach {
	uint32_t kind;
	uint32_t stream;
	uint32_t on_bad_sample; /* enum bad_sample_policy */
	uint32_t has_data;      /* 1 = pixels come in a memfd */
	uint64_t part_samples;  /* of a part of the data set, which comes too; 0 = all of it */
	uint64_t seed;          /* of the stream: its order, replacements and random transforms */
	struct arena_geometry geometry;
	struct transform_plan plan;
};

struct job_render {
	uint32_t kind;
	uint32_t stream;
	uint64_t id;
	uint32_t slot;
	uint32_t first_row;
	uint32_t rows; /* 1 .. JOB_ROWS_MAX */
	uint32_t reserved;
	uint64_t epoch;
	uint64_t samples[JOB_ROWS_MAX];
	/* Attempts not to make, since their sample kills workers: bit 0 the row's own sample, bit n
	 * its n-th replacement. Never set with BAD_SAMPLE_ERROR. */
	uint16_t skip[JOB_ROWS_MAX];
};

struct job_detach {
	uint32_t kind;
	uint32_t stream;
};

struct job_index {
	uint32_t kind;
	uint32_t has_saved; /* 0 or 1: a file to read the index from, if it still matches */
	uint32_t has_save;  /* 0 or 1: an empty file to save it into */
};

/* Where an index has come from, and whether it has been written into the file to save it into. */
enum index_origin {
	INDEX_BUILT = 0,
	INDEX_BUILT_AND_SAVED,
	INDEX_REUSED,
};

union job {
	uint32_t kind;
	struct job_attach attach;
	struct job_render render;
	struct job_detach detach;
	struct job_index index;
};

enum result_kind {
	RESULT_READY = 1,
	RESULT_RENDERED,
	RESULT_DETACHED,
	RESULT_PROGRESS,
	RESULT_INDEXED,
	RESULT_FAILED, /* also a render worker's last words */
	RESULT_BAD,
};

struct result {
	uint32_t kind;
	uint32_t stream; /* DETACHED */
	uint64_t id;     /* RENDERED, BAD: of the job */
	/* RENDERED: rows done; fewer than asked for = the next one is bad and ends the stream.
	 * BAD: the bad row, counted from the job's first; it is done all the same. */
	uint32_t rows_done;
	uint32_t bad;     /* of the bad row: enum bad_reason */
	uint32_t notes;   /* RENDERED: enum render_note bits, of any of the job's samples */
	uint32_t sandbox; /* READY: enum sandbox_part bits, Landlock's ABI in the upper half */
	uint32_t origin;  /* INDEXED: enum index_origin */
	uint64_t samples; /* PROGRESS */
	uint64_t busy_ns; /* RENDERED: time spent on the job */
	/* Of the bad row, or of FAILED; INDEXED: why a saved index is not used, or none was saved, or "". */
	struct error_text reason;
};

/* Where a worker says which row it is at, for the case that it dies there. One memfd page each. */
struct worker_page {
	_Atomic uint64_t job;     /* id of the job at hand, 0 = none */
	_Atomic uint32_t row;     /* rows of it that are finished; the row at hand is this one */
	_Atomic uint32_t attempt; /* at that row: 0 its own sample, n its n-th replacement */
};

/* Exit statuses of stoker-worker. */
enum {
	WORKER_EXIT_OK = 0,      /* stokerd closed the socket */
	WORKER_EXIT_FAILED = 1,  /* said why on stderr */
	WORKER_EXIT_SANDBOX = 3, /* the sandbox that was asked for cannot be had */
};

/* Send one record with up to JOB_FDS_MAX descriptors (borrowed). Never blocks when `fd` is
 * non-blocking: -EAGAIN. Never raises SIGPIPE: -EPIPE. */
int job_send(int fd, const void *record, size_t size, const int *fds, unsigned fd_count);

/* Receive one record, waiting for it if `wait`: its size, 0 = the peer closed, -EAGAIN, -EBADMSG (cut,
 * or lost descriptors). Descriptors are the caller's. */
int job_receive(
	int fd, bool wait, void *record, size_t capacity, int fds[JOB_FDS_MAX], unsigned *fd_count);
