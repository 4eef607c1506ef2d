/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/batch/arena.h"
#include "daemon/data/index.h"
#include "daemon/image/transform.h"
#include "daemon/util/error.h"

#include <stdint.h>

/* One stream as whoever renders it sees it: where samples come from, what is done to them, and where
 * the rows go. */
struct view {
	uint32_t stream;
	struct index index;
	int source_fd; /* IDX: the file or memfd with the pixels; all others: the root (O_PATH) */
	int source_errno; /* why source_fd is -1: then every sample is bad, for this reason */
	struct arena arena;
	struct transform_plan plan;
	uint32_t on_bad_sample; /* enum bad_sample_policy; set after init, like seed */
	uint64_t seed;
};

#define VIEW_NULL                                                                                  \
	{                                                                                          \
		.source_fd = -1, .arena = ARENA_NULL                                               \
	}

/* Map everything. Takes all three descriptors also on failure; `data_fd` is -1 unless the index says
 * that pixels are in a memfd. 0, -EBADMSG with the reason, or -errno. */
int view_init_consume_fds(struct view *view, uint32_t stream, const struct transform_plan *plan,
	const struct arena_geometry *geometry, int arena_fd, int index_fd, int data_fd,
	struct error_text *error);
void view_finish(struct view *view);
