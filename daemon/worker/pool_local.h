/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/worker/pool_job.h"

struct pool;
struct pool_local;

/* Rendering inside stokerd, for --workers 0: one row per turn of the loop. */
struct pool_local *pool_local_create(struct pool *pool);

/* There may be work. */
void pool_local_kick(struct pool_local *local);

/* Drop the job at hand; it is reported as lost. */
void pool_local_stop(struct pool_local *local);

/* Unmap the stream, if it is mapped here; lowers stream->attached. */
void pool_local_detach(struct pool_local *local, struct pool_stream *stream);

/* Unmaps what is mapped; its memory goes when the loop has closed its handle. NULL is fine. */
void pool_local_destroy(struct pool_local *local);
