/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/service.h"

#include "daemon/serve/served_stream.h"
#include "daemon/worker/render_policy.h"

#include <errno.h>
#include <stdlib.h>

/* The stream that is to get the next job: of those with work the one with the fewest ready batches,
 * and among equals the one that has waited longest. */
static struct served_stream *neediest(const struct service *service)
{
	struct served_stream *best = NULL;

	for (size_t i = 0; i < service->stream_count; i++) {
		struct served_stream *candidate = service->streams[i];

		if (!stream_has_work(&candidate->stream))
			continue;
		if (best == NULL || candidate->stream.ready < best->stream.ready ||
			(candidate->stream.ready == best->stream.ready &&
				candidate->stream.served < best->stream.served))
			best = candidate;
	}
	return best;
}

/* Small enough that a batch is spread over all workers. */
static uint32_t share_of_batch(const struct service *service, const struct stream *stream)
{
	uint32_t workers = service->pool.target > 0 ? service->pool.target : 1;
	uint32_t share = (stream->params.batch_size + workers - 1) / workers;

	return share > 0 ? share : 1;
}

static bool next_job(struct pool_job *job, uint32_t most_rows, void *data)
{
	struct service *service = data;
	struct served_stream *best;

	while ((best = neediest(service)) != NULL) {
		uint32_t share = share_of_batch(service, &best->stream);

		best->stream.served = ++service->clock;
		if (stream_next_job(&best->stream, share < most_rows ? share : most_rows, job))
			return true;
		/* It had only an end to find, and has no work any more. */
	}
	return false;
}

/* A stopped stream goes once its last job is back. */
static void release_if_done(struct served_stream *stream)
{
	if (stream->stream.stopped && stream->stream.jobs == 0 && !stream->releasing) {
		stream->releasing = true;
		pool_release_stream(&stream->service->pool, &stream->stream.source);
	}
}

static void after_job(struct served_stream *stream)
{
	if (stream->stream.stopped)
		release_if_done(stream);
	else if (stream->stream.owner != NULL)
		session_pump(stream->stream.owner);
}

static void rendered(const struct pool_job *job, const struct result *result, void *data)
{
	struct served_stream *stream = (struct served_stream *)job->stream;
	uint32_t ready = stream->stream.ready;

	(void)data;
	served_stream_note(stream, result->notes);
	stream_job_rendered(&stream->stream, job, result);
	if (stream->stream.stopped || stream->stream.fault.set || stream->stream.ready != ready)
		after_job(stream);
}

static void lost(const struct pool_job *job, const struct pool_loss *loss, void *data)
{
	struct served_stream *stream = (struct served_stream *)job->stream;

	(void)data;
	stream_job_lost(&stream->stream, job, loss);
	after_job(stream);
}

static void bad(const struct pool_job *job, uint32_t row, const struct result *result, void *data)
{
	struct served_stream *stream = (struct served_stream *)job->stream;

	(void)data;
	stream_row_bad(&stream->stream, job, row, (enum bad_reason)result->bad, &result->reason);
	served_stream_note_bad(
		stream, job->render.samples[row], (enum bad_reason)result->bad, &result->reason);
}

static void describe(const struct pool_job *job, uint32_t row, uint32_t attempt, char *text,
	size_t size, void *data)
{
	struct served_stream *stream = (struct served_stream *)job->stream;
	const struct part *part = &stream->stream.part;
	uint64_t sample = job->render.samples[row];

	(void)data;
	/* A worker may claim any attempt; with one sample there is nothing to replace it. */
	if (part->count > 1)
		sample = job_attempt_sample(
			&job->render, stream->stream.params.order.seed, row, attempt, part);
	index_describe(&stream->dataset->index, sample, text, size);
}

static void unmapped(struct pool_stream *source, void *data)
{
	struct served_stream *stream = (struct served_stream *)source;
	struct service *service = data;

	for (size_t i = 0; i < service->stream_count; i++) {
		if (service->streams[i] == stream) {
			service->streams[i] = service->streams[--service->stream_count];
			break;
		}
	}
	served_stream_destroy(stream);
	if (service->stopping && service->stream_count == 0)
		service->on_idle(service);
}

static void broken(const char *why, void *data)
{
	struct service *service = data;

	service->on_broken(service, why);
}

int service_init(struct service *service, uv_loop_t *loop, const char *version)
{
	static const struct pool_ops ops = {
		.next_job = next_job,
		.rendered = rendered,
		.bad = bad,
		.lost = lost,
		.describe = describe,
		.unmapped = unmapped,
		.broken = broken,
	};

	*service = (struct service){
		.loop = loop,
		.version = version,
		.started_ns = uv_hrtime(),
		.next_stream_id = 1,
		.bad_log = {.most = BAD_LOG_LINES},
	};
	catalog_init(&service->catalog, loop);
	return pool_init(&service->pool, loop, &ops, service);
}

int service_add_stream(struct service *service, struct served_stream *stream)
{
	if (service->stream_count == service->stream_capacity) {
		size_t capacity = 8 + 2 * service->stream_capacity;
		struct served_stream **streams =
			realloc(service->streams, capacity * sizeof(struct served_stream *));

		if (streams == NULL)
			return -ENOMEM;
		service->streams = streams;
		service->stream_capacity = capacity;
	}
	service->streams[service->stream_count++] = stream;
	return 0;
}

void service_drop_stream(struct served_stream *stream)
{
	stream->stream.owner = NULL;
	stream_stop(&stream->stream);
	release_if_done(stream);
}

void service_finish(struct service *service)
{
	catalog_finish(&service->catalog);
	pool_finish(&service->pool);
	free(service->streams);
}
