/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_TIMEOUT_MS = 10000 };

void stoker_status_free(struct stoker_status *status)
{
	if (!status)
		return;
	for (size_t i = 0; i < status->dataset_count; i++) {
		struct stoker_dataset_status *dataset = &status->datasets[i];

		free(dataset->name);
		free(dataset->path);
		free(dataset->kind);
		free(dataset->state);
		free(dataset->error);
		for (size_t n = 0; n < dataset->bad_listed; n++) {
			free(dataset->bad[n].name);
			free(dataset->bad[n].text);
		}
		free(dataset->bad);
		free(dataset->bad_counts);
	}
	for (size_t i = 0; i < status->stream_count; i++) {
		free(status->streams[i].client);
		free(status->streams[i].dataset);
	}
	free(status->version);
	free(status->sandbox);
	free(status->worker);
	free(status->datasets);
	free(status->streams);
	free(status);
}

static bool copy_string(char **copy, const char *text)
{
	*copy = strdup(text);
	if (*copy)
		text_clean(*copy);
	return *copy;
}

static bool copy_bytes(char **copy, const ProtobufCBinaryData *bytes)
{
	*copy = text_dup_escaped(bytes->data, bytes->len);
	return *copy;
}

static const char *state_name(Stoker__V1__DatasetState state)
{
	switch (state) {
	case STOKER__V1__DATASET_STATE__DATASET_INDEXING: return "indexing";
	case STOKER__V1__DATASET_STATE__DATASET_READY: return "ready";
	case STOKER__V1__DATASET_STATE__DATASET_FAILED: return "failed";
	default: return "unknown";
	}
}

static bool copy_workers(struct stoker_status *status, const Stoker__V1__StatusReply *reply)
{
	status->worker = calloc(reply->n_worker + 1, sizeof(*status->worker));
	if (!status->worker)
		return false;
	for (size_t i = 0; i < reply->n_worker; i++) {
		const Stoker__V1__WorkerStatus *from = reply->worker[i];

		status->worker[i] = (struct stoker_worker_status){
			.pid = from->pid,
			.samples = from->samples,
			.busy_ms = from->busy_ms,
			.queued = from->queued,
		};
	}
	status->worker_count = reply->n_worker;
	return true;
}

static bool copy_bad(struct stoker_dataset_status *status, const Stoker__V1__DatasetStatus *message)
{
	status->bad_rows = message->bad_rows;
	status->bad_counts = calloc(message->n_bad_count + 1, sizeof(*status->bad_counts));
	status->bad = calloc(message->n_bad_sample + 1, sizeof(*status->bad));
	if (!status->bad_counts || !status->bad)
		return false;
	for (size_t i = 0; i < message->n_bad_count; i++) {
		status->bad_counts[i].reason = bad_reason_name(message->bad_count[i]->reason);
		status->bad_counts[i].samples = message->bad_count[i]->samples;
		status->bad_samples += message->bad_count[i]->samples;
	}
	status->bad_count_count = message->n_bad_count;
	for (size_t i = 0; i < message->n_bad_sample; i++) {
		const Stoker__V1__BadSample *from = message->bad_sample[i];
		struct stoker_bad_sample *to = &status->bad[i];

		status->bad_listed++;
		to->sample = from->sample;
		to->reason = bad_reason_name(from->reason);
		if (!copy_string(&to->name, from->name) || !copy_string(&to->text, from->text))
			return false;
	}
	return true;
}

static bool copy_datasets(struct stoker_status *status, const Stoker__V1__StatusReply *reply)
{
	status->datasets = calloc(reply->n_dataset + 1, sizeof(*status->datasets));
	if (!status->datasets)
		return false;
	for (size_t i = 0; i < reply->n_dataset; i++) {
		const Stoker__V1__DatasetStatus *from = reply->dataset[i];
		struct stoker_dataset_status *to = &status->datasets[i];

		status->dataset_count++;
		to->samples = from->samples;
		to->classes = from->classes;
		to->width = from->width;
		to->height = from->height;
		to->channels = from->channels;
		if (!copy_bytes(&to->name, &from->name) || !copy_bytes(&to->path, &from->path) ||
			!copy_string(&to->kind, from->kind) ||
			!copy_string(&to->state, state_name(from->state)) ||
			!copy_string(&to->error, from->error) || !copy_bad(to, from))
			return false;
	}
	return true;
}

static bool copy_streams(struct stoker_status *status, const Stoker__V1__StatusReply *reply)
{
	status->streams = calloc(reply->n_stream + 1, sizeof(*status->streams));
	if (!status->streams)
		return false;
	for (size_t i = 0; i < reply->n_stream; i++) {
		const Stoker__V1__StreamStatus *from = reply->stream[i];
		struct stoker_stream_status *to = &status->streams[i];

		status->stream_count++;
		*to = (struct stoker_stream_status){
			.client_pid = from->client_pid,
			.epoch = from->epoch,
			.step = from->step,
			.epoch_batches = from->epoch_batches,
			.batch_size = from->batch_size,
			.depth = from->depth,
			.filling = from->filling,
			.ready = from->ready,
			.lent = from->lent,
			.batches = from->batches,
			.samples = from->samples,
			.arena_bytes = from->arena_bytes,
			.payload = from->payload == STOKER__V1__PAYLOAD__PAYLOAD_INLINE ? "inline"
											: "shared",
			.rank = from->rank,
			.world = from->world,
		};
		if (!copy_string(&to->client, from->client) ||
			!copy_bytes(&to->dataset, &from->dataset))
			return false;
	}
	return true;
}

static struct stoker_status *status_from_message(const Stoker__V1__StatusReply *reply)
{
	struct stoker_status *status = calloc(1, sizeof(*status));

	if (!status)
		return NULL;
	status->pid = reply->pid;
	status->uptime_ms = reply->uptime_ms;
	status->workers = reply->workers;
	status->clients = reply->clients;
	status->memory_limit = reply->memory_limit;
	status->memory_used = reply->memory_used;
	status->worker_deaths = reply->worker_deaths;
	status->truncated = reply->truncated;
	if (!copy_string(&status->version, reply->version) ||
		!copy_string(&status->sandbox, reply->sandbox) || !copy_workers(status, reply) ||
		!copy_datasets(status, reply) || !copy_streams(status, reply)) {
		stoker_status_free(status);
		return NULL;
	}
	return status;
}

int stoker_status(struct stoker *stoker, struct stoker_status **status)
{
	Stoker__V1__StatusRequest request = STOKER__V1__STATUS_REQUEST__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	Stoker__V1__ServerMessage *answer;
	int r;

	*status = NULL;
	request.request = client_next_request(stoker);
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_STATUS;
	message.status = &request;
	r = client_send(stoker, &message);
	if (r < 0)
		return r;
	r = client_wait(stoker, request.request, STOKER__V1__SERVER_MESSAGE__MESSAGE_STATUS,
		STATUS_TIMEOUT_MS, &answer);
	if (r < 0)
		return r;
	*status = status_from_message(answer->status);
	stoker__v1__server_message__free_unpacked(answer, NULL);
	return *status ? 0 : client_error(stoker, -ENOMEM, "out of memory");
}
