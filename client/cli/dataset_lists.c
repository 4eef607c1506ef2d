/* SPDX-License-Identifier: Apache-2.0 */
/* The classes and the samples of one data set, for `stoker datasets NAME`. */
#include "client/cli/datasets.h"

#include <inttypes.h>
#include <stdlib.h>

static int failed(const struct cli *cli, struct stoker *stoker)
{
	return cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
}

static void print_classes_json(const struct stoker_classes *classes, char *const *names)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '[');
	for (uint32_t i = 0; i < classes->count; i++) {
		json_open(&json, NULL, '{');
		json_number(&json, "label", i);
		json_text(&json, "name", names[i]);
		json_number(&json, "samples", classes->list[i].samples);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	putchar('\n');
}

static void print_classes_table(const struct stoker_classes *classes, char *const *names)
{
	struct table table = {.columns = "LABEL> SAMPLES> CLASS"};

	for (uint32_t i = 0; i < classes->count; i++) {
		table_cell(&table, "%u", i);
		table_cell(&table, "%" PRIu64, classes->list[i].samples);
		table_cell(&table, "%s", names[i]);
	}
	table_print(&table, stdout);
}

int dataset_print_classes(const struct cli *cli, struct stoker *stoker, const char *name)
{
	struct stoker_classes *classes;
	char **names;
	int r = CLI_OK;

	if (stoker_classes(stoker, name, &classes) < 0)
		return failed(cli, stoker);
	names = calloc((size_t)classes->count + 1, sizeof(*names));
	for (uint32_t i = 0; names != NULL && i < classes->count && r == CLI_OK; i++) {
		names[i] = stoker_escape(classes->list[i].name, classes->list[i].length);
		r = names[i] != NULL ? CLI_OK : CLI_FAILED;
	}
	if (names == NULL || r != CLI_OK)
		r = cli_error(cli, CLI_FAILED, "out of memory");
	else if (cli->json)
		print_classes_json(classes, names);
	else
		print_classes_table(classes, names);
	for (uint32_t i = 0; names != NULL && i < classes->count; i++)
		free(names[i]);
	free(names);
	stoker_classes_free(classes);
	return r;
}

static int print_sample(
	const struct cli *cli, struct json *json, const struct stoker_sample *sample)
{
	char *path = stoker_escape(sample->path, sample->length);

	if (path == NULL)
		return cli_error(cli, CLI_FAILED, "out of memory");
	if (cli->json) {
		json_open(json, NULL, '{');
		json_number(json, "index", sample->index);
		json_number(json, "label", (uint64_t)sample->label);
		json_text(json, "path", path);
		json_close(json, '}');
	} else {
		printf("%" PRIu64 "\t%d\t%s\n", sample->index, sample->label, path);
	}
	free(path);
	return CLI_OK;
}

int dataset_print_samples(const struct cli *cli, struct stoker *stoker, const char *name)
{
	struct json json = {.out = stdout};
	struct stoker_samples *page;
	uint64_t fingerprint = 0, at = 0, total = 1;
	int r = CLI_OK;

	if (cli->json)
		json_open(&json, NULL, '[');
	while (at < total && r == CLI_OK) {
		if (stoker_samples(stoker, name, at, 0, &page) < 0)
			return failed(cli, stoker);
		if (at > 0 && page->fingerprint != fingerprint)
			r = cli_error(cli, CLI_FAILED,
				"data set %s was indexed anew meanwhile: its list is cut here",
				name);
		for (size_t i = 0; i < page->count && r == CLI_OK; i++)
			r = print_sample(cli, &json, &page->list[i]);
		fingerprint = page->fingerprint;
		at += page->count;
		total = page->total;
		stoker_samples_free(page);
		if (ferror(stdout))
			return CLI_FAILED; /* cli_finish says why */
	}
	if (cli->json) {
		json_close(&json, ']');
		putchar('\n');
	}
	return r;
}
