/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/served_stream.h"
#include "daemon/serve/session.h"
#include "daemon/worker/sandbox.h"

#include <stdlib.h>
#include <string.h>

/* What one data set's bad samples take in the answer. */
struct bad_lists {
	Stoker__V1__BadCount counts[BAD_REASONS], *count_list[BAD_REASONS];
	Stoker__V1__BadSample samples[BAD_SAMPLES_LISTED], *sample_list[BAD_SAMPLES_LISTED];
	char names[BAD_SAMPLES_LISTED][ERROR_TEXT_MAX];
};

/* The answer's lists, with the memory behind them. */
struct status_lists {
	struct bad_lists **bad;      /* one per data set, NULL where nothing is bad */
	struct error_text *problems; /* one per data set */
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
	lists->bad = calloc(datasets, sizeof(struct bad_lists *));
	lists->problems = calloc(datasets, sizeof(*lists->problems));
	lists->datasets = calloc(datasets, sizeof(*lists->datasets));
	lists->dataset_list = calloc(datasets, sizeof(*lists->dataset_list));
	lists->streams = calloc(streams, sizeof(*lists->streams));
	lists->stream_list = calloc(streams, sizeof(*lists->stream_list));
	return lists->infos != NULL && lists->workers != NULL && lists->worker_list != NULL &&
	       lists->datasets != NULL && lists->dataset_list != NULL && lists->streams != NULL &&
	       lists->stream_list != NULL && lists->bad != NULL && lists->problems != NULL;
}

static void release(struct status_lists *lists)
{
	for (size_t i = 0; lists->bad != NULL && i < lists->dataset_count; i++)
		free(lists->bad[i]);
	free(lists->bad);
	free(lists->problems);
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

/* `problem` has room for a sentence and stays until the answer is sent. */
static void fill_dataset(
	Stoker__V1__DatasetStatus *status, struct dataset *dataset, char problem[ERROR_TEXT_MAX])
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
		status->error = problem;
		index_problem(&dataset->index, problem, ERROR_TEXT_MAX);
		status->state = STOKER__V1__DATASET_STATE__DATASET_READY;
		status->kind = (char *)index_kind_name(dataset->index.header->kind);
		status->classes = dataset->index.header->classes;
		status->width = dataset->index.header->width;
		status->height = dataset->index.header->height;
		status->channels = dataset->index.header->channels;
		break;
	}
}

static void fill_bad(
	Stoker__V1__DatasetStatus *status, const struct dataset *dataset, struct bad_lists *lists)
{
	const struct bad_samples *bad = &dataset->bad;

	for (size_t reason = 0; reason < BAD_REASONS; reason++) {
		Stoker__V1__BadCount *count = &lists->counts[status->n_bad_count];

		if (bad->samples[reason] == 0)
			continue;
		stoker__v1__bad_count__init(count);
		count->reason = (Stoker__V1__BadReason)reason;
		count->samples = bad->samples[reason];
		lists->count_list[status->n_bad_count++] = count;
	}
	for (size_t i = 0; i < bad->listed; i++) {
		Stoker__V1__BadSample *sample = &lists->samples[i];

		stoker__v1__bad_sample__init(sample);
		index_describe(&dataset->index, bad->list[i].sample, lists->names[i],
			sizeof(lists->names[i]));
		sample->sample = bad->list[i].sample;
		sample->name = lists->names[i];
		sample->reason = (Stoker__V1__BadReason)bad->list[i].reason;
		sample->text = bad->list[i].text.text;
		lists->sample_list[i] = sample;
	}
	status->bad_count = lists->count_list;
	status->n_bad_sample = bad->listed;
	status->bad_sample = lists->sample_list;
}

static void list_bad(struct status_lists *lists, const struct service *service)
{
	for (size_t i = 0; i < lists->dataset_count; i++) {
		const struct dataset *dataset = service->catalog.datasets[i];

		lists->datasets[i].bad_rows = dataset->bad.rows;
		if (dataset->bad.listed == 0)
			continue;
		lists->bad[i] = malloc(sizeof(*lists->bad[i]));
		if (lists->bad[i] != NULL)
			fill_bad(&lists->datasets[i], dataset, lists->bad[i]);
	}
}

static void list_datasets(struct status_lists *lists, const struct service *service)
{
	lists->dataset_count = service->catalog.count;
	for (size_t i = 0; i < lists->dataset_count; i++) {
		fill_dataset(
			&lists->datasets[i], service->catalog.datasets[i], lists->problems[i].text);
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
	status->dataset.data = (uint8_t *)served->name;
	status->dataset.len = strlen(served->name);
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

/* The longest list of bad samples. */
static size_t *longest_bad(Stoker__V1__StatusReply *reply)
{
	size_t *longest = NULL;

	for (size_t i = 0; i < reply->n_dataset; i++) {
		size_t *n = &reply->dataset[i]->n_bad_sample;

		if (*n > 0 && (longest == NULL || *n > *longest))
			longest = n;
	}
	return longest;
}

/* Cut the lists until the frame is small enough, those of bad samples first. */
static void fit(Stoker__V1__StatusReply *reply)
{
	size_t *bad;

	while (stoker__v1__status_reply__get_packed_size(reply) > FRAME_CONTROL_MAX - 16 &&
		(bad = longest_bad(reply)) != NULL) {
		*bad /= 2;
		reply->truncated = true;
	}
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
	list_bad(&lists, service);
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
