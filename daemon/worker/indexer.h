/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"
#include "daemon/worker/worker_process.h"

#include <stdint.h>
#include <uv.h>

/* Build the index of one data set in an extra sandboxed worker. */
struct indexer;

struct indexer_ops {
	void (*progress)(uint64_t samples, void *data);
	/* The index is there; both descriptors are the callee's, data_fd may be -1. */
	void (*indexed)(int index_fd, int data_fd, void *data);
	void (*failed)(const char *why, void *data);
};

/* Start indexing `path`, with the options of dataset_options_dup_text(). One of indexed and failed is called exactly once, later, unless
 * indexer_abandon comes first; then the indexer is gone. NULL with the reason on failure. */
struct indexer *indexer_start(uv_loop_t *loop, const struct worker_settings *settings,
	const char *path, const char *options, uint64_t max_memory, const struct indexer_ops *ops,
	void *data, struct error_text *error);

/* Nobody wants the result any more: the process is killed, no callback follows. NULL is fine. */
void indexer_abandon(struct indexer *indexer);
