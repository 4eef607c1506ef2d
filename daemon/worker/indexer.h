/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"
#include "daemon/worker/job.h"
#include "daemon/worker/worker_process.h"

#include <stdint.h>
#include <uv.h>

/* Build the index of one data set in an extra sandboxed worker. */
struct indexer;

struct indexer_ops {
	void (*progress)(uint64_t samples, void *data);
	/* The index is there; both descriptors are the callee's, data_fd may be -1. `note` is for the
	 * log, or "". */
	void (*indexed)(
		int index_fd, int data_fd, enum index_origin origin, const char *note, void *data);
	void (*failed)(const char *why, void *data);
};

/* What to index, all borrowed. */
struct indexer_request {
	const char *path;
	const char *options; /* text of dataset_options_dup_text() */
	uint64_t max_memory; /* for unpacked data */
	uint64_t max_pixels; /* of one picture */
	int saved_fd;        /* a saved index, or -1 */
	int save_fd;         /* an empty file to save into, or -1 */
};

/* Start indexing. One of indexed and failed is called exactly once, later, unless
 * indexer_abandon comes first; then the indexer is gone. NULL with the reason on failure. */
struct indexer *indexer_start(uv_loop_t *loop, const struct worker_settings *settings,
	const struct indexer_request *request, const struct indexer_ops *ops, void *data,
	struct error_text *error);

/* Nobody wants the result any more: the process is killed, no callback follows. NULL is fine. */
void indexer_abandon(struct indexer *indexer);
