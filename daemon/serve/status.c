/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/served_stream.h"
#include "daemon/serve/session.h"
#include "daemon/worker/sandbox.h"

#include <stdlib.h>
#include <string.h>

/* The answer's lists, with the memory behind them. */
struct status_lists {
	struct pool_worker_info *infos;
	Stoker__V1__WorkerStatus *workers, **worker_list;
	Stoker__V1__DatasetStatus *datasets, **dataset_list;
	Stoker__V1__StreamStatus *streams, **stream_list;
	size_t worker_count, dataset_count, stream_count;
};

static bool allocate(struct status_lists *lists, const struct service *service)
{
	size_t workers = service->pool.count + 1, datasets = service->catalog.count + 1,
	       streams = service->stream_count + 1;

	lists->infos = calloc(workers, sizeof(*lists->infos));
	lists->workers = calloc(workers, sizeof(*lists->workers));
	lists->worker_list = calloc(workers, sizeof(*lists->worker_list));
	lists->datasets = calloc(datasets, sizeof(*lists->datasets));
	lists->dataset_list = calloc(datasets, sizeof(*lists->dataset_list));
	lists->streams = calloc(streams, sizeof(*lists->streams));
	lists->stream_list = calloc(streams, sizeof(*lists->stream_list));
	return lists->infos != NULL && lists->workers != NULL && lists->worker_list != NULL &&
	       lists->datasets != NULL && lists->dataset_list != NULL && lists->streams != NULL &&
	       lists->stream_list != NULL;
}

static void release(struct status_lists *lists)
{
	free(lists->infos);
	free(lists->workers);
	free(lists->worker_list);
	free(lists->datasets);
	free(lists->dataset_list);
	free(lists->streams);
	free(lists->stream_list);
}

static void list_workers(struct status_lists *lists, const struct service *service)
{
	lists->worker_count = pool_list(&service->pool, lists->infos, service->pool.count);
	for (size_t i = 0; i < lists->worker_count; i++) {
		Stoker__V1__WorkerStatus *status = &lists->workers[i];

		stoker__v1__worker_status__init(status);
		status->pid = (uint32_t)lists->infos[i].pid;
		status->samples = lists->infos[i].samples;
		status->busy_ms = lists->infos[i].busy_ns / 1000000;
		status->queued = lists->infos[i].queued;
		lists->worker_list[i] = status;
	}
}

static void fill_dataset(Stoker__V1__DatasetStatus *status, struct dataset *dataset)
{
	stoker__v1__dataset_status__init(status);
	status->name.data = (uint8_t *)dataset->name;
	status->name.len = strlen(dataset->name);
	status->path.data = (uint8_t *)dataset->path;
	status->path.len = strlen(dataset->path);
	status->samples = dataset->found;
	switch (dataset->state) {
	case DATASET_STATE_INDEXING:
		status->state = STOKER__V1__DATASET_STATE__DATASET_INDEXING;
		break;
	case DATASET_STATE_FAILED:
		status->state = STOKER__V1__DATASET_STATE__DATASET_FAILED;
		status->error = dataset->error.text;
		break;
	case DATASET_STATE_READY:
		status->state = STOKER__V1__DATASET_STATE__DATASET_READY;
		status->kind = (char *)index_kind_name(dataset->index.header->kind);
		status->classes = dataset->index.header->classes;
		status->width = dataset->index.header->width;
		status->height = dataset->index.header->height;
		status->channels = dataset->index.header->channels;
		break;
	}
}

static void list_datasets(struct status_lists *lists, const struct service *service)
{
	lists->dataset_count = service->catalog.count;
	for (size_t i = 0; i < lists->dataset_count; i++) {
		fill_dataset(&lists->datasets[i], service->catalog.datasets[i]);
		lists->dataset_list[i] = &lists->datasets[i];
	}
}

static void fill_stream(Stoker__V1__StreamStatus *status, const struct served_stream *served)
{
	const struct stream *stream = &served->stream;
	const struct session *session = stream->owner;

	stoker__v1__stream_status__init(status);
	status->client_pid = (uint32_t)session->pid;
	status->client = (char *)session->name;
	status->dataset.data = (uint8_t *)served->dataset->name;
	status->dataset.len = strlen(served->dataset->name);
	status->epoch = stream->send_epoch;
	status->step = stream->send_position / stream->params.batch_size;
	status->epoch_batches = stream_epoch_batches(&stream->params);
	status->batch_size = stream->params.batch_size;
	status->depth = stream->arena.geometry.slots;
	stream_count_slots(stream, &status->filling, &status->ready, &status->lent);
	status->batches = stream->batches_sent;
	status->samples = stream->samples_sent;
	status->arena_bytes = stream->arena.geometry.bytes;
	status->payload = served->is_inline ? STOKER__V1__PAYLOAD__PAYLOAD_INLINE
					    : STOKER__V1__PAYLOAD__PAYLOAD_SHARED;
	status->rank = stream->params.order.rank;
	status->world = stream->params.order.world;
}

static void list_streams(struct status_lists *lists, const struct service *service)
{
	for (size_t i = 0; i < service->stream_count; i++) {
		const struct served_stream *served = service->streams[i];

		if (served->stream.owner == NULL)
			continue; /* its client is gone, a job is still out */
		fill_stream(&lists->streams[lists->stream_count], served);
		lists->stream_list[lists->stream_count] = &lists->streams[lists->stream_count];
		lists->stream_count++;
	}
}

/* Cut the lists until the frame is small enough. */
static void fit(Stoker__V1__StatusReply *reply)
{
	while (stoker__v1__status_reply__get_packed_size(reply) > FRAME_CONTROL_MAX - 16) {
		size_t *longest = &reply->n_stream;

		if (reply->n_dataset > *longest)
			longest = &reply->n_dataset;
		if (reply->n_worker > *longest)
			longest = &reply->n_worker;
		if (*longest == 0)
			return;
		*longest /= 2;
		reply->truncated = true;
	}
}

void session_handle_status(struct session *session, const Stoker__V1__StatusRequest *request)
{
	const struct service *service = session->service;
	Stoker__V1__StatusReply reply = STOKER__V1__STATUS_REPLY__INIT;
	struct status_lists lists = {.infos = NULL};
	char sandbox[64];

	if (!allocate(&lists, service)) {
		release(&lists);
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, request->request, 0,
			"out of memory");
		return;
	}
	list_workers(&lists, service);
	list_datasets(&lists, service);
	list_streams(&lists, service);
	sandbox_describe(service->pool.sandbox, sandbox, sizeof(sandbox));
	reply.request = request->request;
	reply.version = (char *)service->version;
	reply.pid = (uint32_t)getpid();
	reply.uptime_ms = (uv_hrtime() - service->started_ns) / 1000000;
	reply.workers = service->pool.target;
	reply.sandbox = sandbox;
	reply.memory_limit = service->budget.limit;
	reply.memory_used = service->budget.used;
	reply.worker_deaths = service->pool.deaths;
	reply.clients = service->session_count;
	reply.n_worker = lists.worker_count;
	reply.worker = lists.worker_list;
	reply.n_dataset = lists.dataset_count;
	reply.dataset = lists.dataset_list;
	reply.n_stream = lists.stream_count;
	reply.stream = lists.stream_list;
	fit(&reply);
	session_send(session, &SERVER_MESSAGE(STATUS, status, &reply), -1);
	release(&lists);
}
