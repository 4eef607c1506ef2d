/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/cli.h"
#include "client/cli/datasets.h"
#include "client/cli/text.h"

#include <inttypes.h>

static const char help[] =
	"Usage: stoker status [--socket PATH] [--json]\n"
	"\n"
	"Show what the daemon is doing: its memory and sandbox, the worker processes, one line for each\n"
	"open stream and the data sets. A stream's batches are FILLING (being decoded), READY (finished)\n"
	"or LENT (at the client); at a client that is slower than the daemon nearly all are READY.\n"
	"Of each data set, the samples that were found bad are counted by reason, and the first 100 named.\n";

static void print_workers_json(struct json *json, const struct stoker_status *status)
{
	json_open(json, "workers", '[');
	for (size_t i = 0; i < status->worker_count; i++) {
		const struct stoker_worker_status *worker = &status->worker[i];

		json_open(json, NULL, '{');
		json_number(json, "pid", worker->pid);
		json_number(json, "images", worker->samples);
		json_real(json, "busy_seconds", (double)worker->busy_ms / 1000);
		json_number(json, "queued", worker->queued);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void print_streams_json(struct json *json, const struct stoker_status *status)
{
	json_open(json, "streams", '[');
	for (size_t i = 0; i < status->stream_count; i++) {
		const struct stoker_stream_status *stream = &status->streams[i];

		json_open(json, NULL, '{');
		json_text(json, "client", stream->client);
		json_number(json, "client_pid", stream->client_pid);
		json_text(json, "dataset", stream->dataset);
		json_number(json, "epoch", stream->epoch);
		json_number(json, "step", stream->step);
		json_number(json, "epoch_batches", stream->epoch_batches);
		json_number(json, "batch_size", stream->batch_size);
		json_number(json, "depth", stream->depth);
		json_number(json, "filling", stream->filling);
		json_number(json, "ready", stream->ready);
		json_number(json, "lent", stream->lent);
		json_number(json, "batches", stream->batches);
		json_number(json, "images", stream->samples);
		json_number(json, "arena_bytes", stream->arena_bytes);
		json_text(json, "payload", stream->payload);
		json_number(json, "rank", stream->rank);
		json_number(json, "world", stream->world);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void print_json(const struct stoker_status *status)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '{');
	json_text(&json, "version", status->version);
	json_number(&json, "pid", status->pid);
	json_real(&json, "uptime_seconds", (double)status->uptime_ms / 1000);
	json_number(&json, "clients", status->clients);
	json_text(&json, "sandbox", status->sandbox);
	json_number(&json, "memory_used", status->memory_used);
	json_number(&json, "memory_limit", status->memory_limit);
	json_number(&json, "workers_configured", status->workers);
	json_number(&json, "worker_deaths", status->worker_deaths);
	json_bool(&json, "truncated", status->truncated);
	print_workers_json(&json, status);
	print_streams_json(&json, status);
	datasets_print_json(&json, "datasets", status);
	json_close(&json, '}');
	putchar('\n');
}

static void print_workers(const struct stoker_status *status)
{
	struct table table = {.columns = "WORKER> IMAGES> BUSY> QUEUED>"};

	for (size_t i = 0; i < status->worker_count; i++) {
		const struct stoker_worker_status *worker = &status->worker[i];

		table_cell(&table, "%u", worker->pid);
		table_cell(&table, "%" PRIu64, worker->samples);
		table_cell(&table, "%s", format_seconds((double)worker->busy_ms / 1000).text);
		table_cell(&table, "%u", worker->queued);
	}
	table_print(&table, stdout);
}

static void print_streams(const struct stoker_status *status)
{
	struct table table = {.columns = "CLIENT PID> DATASET SHARD EPOCH> STEP> FILLING> READY> "
					 "LENT> IMAGES> MEMORY> PAYLOAD"};

	for (size_t i = 0; i < status->stream_count; i++) {
		const struct stoker_stream_status *stream = &status->streams[i];

		table_cell(&table, "%s", stream->client);
		table_cell(&table, "%u", stream->client_pid);
		table_cell(&table, "%s", stream->dataset);
		if (stream->world > 1)
			table_cell(&table, "%u of %u", stream->rank, stream->world);
		else
			table_cell(&table, "-");
		table_cell(&table, "%" PRIu64, stream->epoch);
		table_cell(&table, "%" PRIu64 "/%" PRIu64, stream->step, stream->epoch_batches);
		table_cell(&table, "%u", stream->filling);
		table_cell(&table, "%u", stream->ready);
		table_cell(&table, "%u", stream->lent);
		table_cell(&table, "%" PRIu64, stream->samples);
		table_cell(&table, "%s", format_bytes(stream->arena_bytes).text);
		table_cell(&table, "%s", stream->payload);
	}
	table_print(&table, stdout);
}

static void print_text(const struct stoker_status *status)
{
	printf("stokerd %s  pid %u  up %s  %u client%s\n", status->version, status->pid,
		format_seconds((double)status->uptime_ms / 1000).text, status->clients,
		status->clients == 1 ? "" : "s");
	printf("memory   %s of %s\n", format_bytes(status->memory_used).text,
		format_bytes(status->memory_limit).text);
	printf("sandbox  %s\n", status->sandbox[0] != '\0' ? status->sandbox : "none");
	printf("workers  %u, %" PRIu64 " died since the start\n", status->workers,
		status->worker_deaths);
	if (status->worker_count > 0) {
		putchar('\n');
		print_workers(status);
	}
	putchar('\n');
	if (status->stream_count > 0)
		print_streams(status);
	else
		puts("no streams");
	putchar('\n');
	if (status->dataset_count > 0)
		datasets_print_table(status, stdout);
	else
		puts("no data sets");
	datasets_print_bad(status, stdout);
	if (status->truncated)
		puts("\n(the lists are longer than one answer of the daemon and were cut)");
}

int cmd_status(struct cli *cli, int argc, char **argv)
{
	static const struct cli_option options[] = {{NULL}};
	struct stoker *stoker = NULL;
	struct stoker_status *status = NULL;
	int r;

	cli->help = help;
	r = cli_parse(cli, options, argc, argv, 0, 0);
	if (r != CLI_OK)
		return r == CLI_DONE ? CLI_OK : r;
	r = cli_connect(cli, &stoker);
	if (r == CLI_OK && stoker_status(stoker, &status) < 0)
		r = cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
	if (r == CLI_OK && cli->json)
		print_json(status);
	else if (r == CLI_OK)
		print_text(status);
	stoker_status_free(status);
	stoker_destroy(stoker);
	return r;
}
