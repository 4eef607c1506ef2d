/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/index.h"
#include "daemon/serve/index_store.h"
#include "daemon/util/error.h"
#include "daemon/worker/job.h"

#include <uv.h>

/*
 * Taking in what an index worker has made: nothing in it is believed before it is checked, which takes
 * some 25 ms per million samples, so a thread does it. The same thread lets a saved index take its place.
 */
struct intake;

struct intake_result {
	int checked; /* 0, or -errno with the reason in `error`; then there is no index */
	struct error_text error;
	struct index index; /* mapped; the callee's, like the descriptors */
	int index_fd, data_fd;
	enum index_origin origin; /* SAVED only if it has been kept */
	int kept;                 /* -errno: why an index that was saved is not */
};

/* Check the index of the data set at `path`. Takes the descriptors and the store, also on failure. `done`
 * is called exactly once, later, unless intake_abandon comes first. NULL without memory. */
struct intake *intake_start_consume(uv_loop_t *loop, const char *path, int index_fd, int data_fd,
	enum index_origin origin, struct index_store *store,
	void (*done)(struct intake_result *result, void *data), void *data);

/* Let go of an index that was taken in, also off the loop: giving 50 MB back takes 20 ms. Takes the
 * descriptors; at once with loop == NULL. */
void intake_release_consume(uv_loop_t *loop, struct index *index, int index_fd, int data_fd);

/* Nobody wants the result any more. NULL is fine. */
void intake_abandon(struct intake *intake);
