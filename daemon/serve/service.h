/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/serve/budget.h"
#include "daemon/serve/catalog.h"
#include "daemon/serve/stream.h"
#include "daemon/util/log.h"
#include "daemon/worker/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/*
 * What all sessions share: the pool, the data sets, the memory and the streams. It is the pool's
 * upper layer: it chooses whose job is next and passes results to the streams.
 */
struct session;
struct served_stream;

enum {
	SERVICE_CLIENTS_MAX = 1000,
	BAD_LOG_LINES = 5, /* a minute about bad samples, of all data sets together */
};

struct service {
	uv_loop_t *loop;
	struct pool pool;
	struct catalog catalog;
	struct budget budget;
	struct session *sessions; /* linked list */
	uint32_t session_count;
	struct served_stream **streams;
	size_t stream_count, stream_capacity;
	uint32_t next_stream_id;
	uint64_t clock; /* jobs handed out; orders streams by when they were last served */
	uint64_t started_ns;
	const char *version;
	struct log_limit clients_log, faults_log,
		bad_log; /* clients come; clients are at fault; samples are bad */
	bool stopping;
	/* For the layer above; set before anything can happen. */
	void (*on_idle)(struct service *service);           /* stopping: the last stream is gone */
	void (*on_session_closed)(struct service *service); /* a descriptor has become free */
	void (*on_broken)(struct service *service, const char *why); /* workers cannot run */
};

int service_init(struct service *service, uv_loop_t *loop, const char *version);

/* Take part in the schedule, from the next pool_kick on. -ENOMEM. */
int service_add_stream(struct service *service, struct served_stream *stream);

/* Nobody wants it any more; its memory goes when no worker has it mapped. The owner forgets it. */
void service_drop_stream(struct served_stream *stream);

void service_finish(struct service *service);

/* session_stream.c: a stream of this session may have something to send. */
void session_pump(struct session *session);
