/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/batch/arena.h"
#include "daemon/data/index.h"
#include "daemon/data/part.h"
#include "daemon/image/transform.h"
#include "daemon/util/error.h"
#include "daemon/worker/job.h"

#include <stdint.h>

/* One stream as whoever renders it sees it: where samples come from, what is done to them, and where
 * the rows go. */
struct view {
	uint32_t stream;
	struct index index;
	int source_fd; /* IDX: the file or memfd with the pixels; all others: the root (O_PATH) */
	int source_errno; /* why source_fd is -1: then every sample is bad, for this reason */
	struct part part; /* what stands in for bad samples comes from it */
	struct arena arena;
	struct transform_plan plan;
	uint32_t on_bad_sample; /* enum bad_sample_policy */
	uint64_t seed;
};

#define VIEW_NULL                                                                                  \
	{                                                                                          \
		.source_fd = -1, .arena = ARENA_NULL                                               \
	}

/* Map everything. Takes the descriptors (arena, index, then data and part, each -1 unless `job` says that
 * it is there) also on failure. 0, -EBADMSG with the reason, or -errno. */
int view_init_consume_fds(struct view *view, const struct job_attach *job,
	const int fds[JOB_FDS_MAX], struct error_text *error);
void view_finish(struct view *view);
