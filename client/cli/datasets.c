/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/datasets.h"
#include "client/cli/cli.h"

#include <inttypes.h>
#include <string.h>

static const char help[] =
	"Usage: stoker datasets [DATASET [--samples]] [--socket PATH] [--json]\n"
	"\n"
	"List the data sets that the daemon serves: kind, state, samples, classes, size of the first\n"
	"image (width x height x channels) and path, or why a data set cannot be used.\n"
	"\n"
	"With the name of a data set, list its classes: label, samples and name.\n"
	"\n"
	"  --samples        list its samples instead: index, label and path in each line, with tabs between\n"
	"\n"
	"In names and paths, control bytes and what is no UTF-8 are shown as \\xHH, and a backslash as \\\\.\n";

static void print_bad_json(struct json *json, const struct stoker_dataset_status *dataset)
{
	json_number(json, "bad_samples", dataset->bad_samples);
	json_number(json, "bad_rows", dataset->bad_rows);
	json_open(json, "bad_reasons", '{');
	for (size_t i = 0; i < dataset->bad_count_count; i++)
		json_number(json, dataset->bad_counts[i].reason, dataset->bad_counts[i].samples);
	json_close(json, '}');
	json_open(json, "bad", '[');
	for (size_t i = 0; i < dataset->bad_listed; i++) {
		json_open(json, NULL, '{');
		json_number(json, "sample", dataset->bad[i].sample);
		json_text(json, "name", dataset->bad[i].name);
		json_text(json, "reason", dataset->bad[i].reason);
		json_text(json, "text", dataset->bad[i].text);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void print_one_json(struct json *json, const struct stoker_dataset_status *dataset)
{
	json_open(json, NULL, '{');
	json_text(json, "name", dataset->name);
	json_text(json, "path", dataset->path);
	json_text(json, "kind", dataset->kind);
	json_text(json, "state", dataset->state);
	json_number(json, "samples", dataset->samples);
	json_number(json, "classes", dataset->classes);
	json_number(json, "width", dataset->width);
	json_number(json, "height", dataset->height);
	json_number(json, "channels", dataset->channels);
	json_text(json, "error", dataset->error);
	print_bad_json(json, dataset);
	json_close(json, '}');
}

void datasets_print_json(struct json *json, const char *key, const struct stoker_status *status)
{
	json_open(json, key, '[');
	for (size_t i = 0; i < status->dataset_count; i++)
		print_one_json(json, &status->datasets[i]);
	json_close(json, ']');
}

void datasets_print_table(const struct stoker_status *status, FILE *out)
{
	struct table table = {.columns = "DATASET KIND STATE SAMPLES> CLASSES> IMAGE PATH"};

	for (size_t i = 0; i < status->dataset_count; i++) {
		const struct stoker_dataset_status *dataset = &status->datasets[i];

		table_cell(&table, "%s", dataset->name);
		table_cell(&table, "%s", dataset->kind[0] != '\0' ? dataset->kind : "-");
		table_cell(&table, "%s", dataset->state);
		table_cell(&table, "%" PRIu64, dataset->samples);
		if (dataset->classes > 0)
			table_cell(&table, "%u", dataset->classes);
		else
			table_cell(&table, "-");
		if (dataset->width > 0)
			table_cell(&table, "%ux%ux%u", dataset->width, dataset->height,
				dataset->channels);
		else
			table_cell(&table, "-");
		table_cell(&table, "%s", dataset->path);
	}
	table_print(&table, out);
	for (size_t i = 0; i < status->dataset_count; i++) {
		if (status->datasets[i].error == NULL || status->datasets[i].error[0] == '\0')
			continue;
		fprintf(out, "\n%s: ", status->datasets[i].name);
		print_plain(out, status->datasets[i].error);
		fputc('\n', out);
	}
}

static void print_bad(const struct stoker_dataset_status *dataset, FILE *out)
{
	fprintf(out, "\n%s: %" PRIu64 " bad sample%s (", dataset->name, dataset->bad_samples,
		dataset->bad_samples == 1 ? "" : "s");
	for (size_t i = 0; i < dataset->bad_count_count; i++)
		fprintf(out, "%s%s %" PRIu64, i > 0 ? ", " : "", dataset->bad_counts[i].reason,
			dataset->bad_counts[i].samples);
	fprintf(out, "), met %" PRIu64 " time%s\n", dataset->bad_rows,
		dataset->bad_rows == 1 ? "" : "s");
	for (size_t i = 0; i < dataset->bad_listed; i++) {
		fprintf(out, "  %s: ", dataset->bad[i].name);
		print_plain(out, dataset->bad[i].text);
		fputc('\n', out);
	}
	if (dataset->bad_listed < dataset->bad_samples)
		fprintf(out, "  ... and %" PRIu64 " more\n",
			dataset->bad_samples - dataset->bad_listed);
}

void datasets_print_bad(const struct stoker_status *status, FILE *out)
{
	for (size_t i = 0; i < status->dataset_count; i++) {
		if (status->datasets[i].bad_samples > 0)
			print_bad(&status->datasets[i], out);
	}
}

static int print_all(const struct cli *cli, struct stoker *stoker)
{
	struct stoker_status *status = NULL;
	struct json json = {.out = stdout};

	if (stoker_status(stoker, &status) < 0)
		return cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
	if (cli->json) {
		datasets_print_json(&json, NULL, status);
		putchar('\n');
	} else if (status->dataset_count == 0) {
		puts("The daemon serves no data sets. Add one: stokerd --dataset NAME=PATH, or a group\n"
		     "[dataset NAME] in its config file.");
	} else {
		datasets_print_table(status, stdout);
	}
	stoker_status_free(status);
	return CLI_OK;
}

int cmd_datasets(struct cli *cli, int argc, char **argv)
{
	bool samples = false;
	const struct cli_option options[] = {{"samples", 0, CLI_FLAG, &samples}, {NULL}};
	struct stoker *stoker = NULL;
	int r;

	cli->help = help;
	r = cli_parse(cli, options, argc, argv, 0, 1);
	if (r != CLI_OK)
		return r == CLI_DONE ? CLI_OK : r;
	if (samples && cli->argument_count == 0)
		return cli_error(cli, CLI_USAGE, "--samples of which data set? Name it");
	r = cli_connect(cli, &stoker);
	if (r == CLI_OK && cli->argument_count == 0)
		r = print_all(cli, stoker);
	else if (r == CLI_OK && samples)
		r = dataset_print_samples(cli, stoker, cli->arguments[0]);
	else if (r == CLI_OK)
		r = dataset_print_classes(cli, stoker, cli->arguments[0]);
	stoker_destroy(stoker);
	return r;
}
