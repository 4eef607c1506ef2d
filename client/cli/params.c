/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/params.h"

#include "client/cli/new_file.h"
#include "client/cli/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
	PLACES =
		16, /* of one transform: its kind and what it drew (PROTOCOL.md, "Drawn parameters") */
	KINDS = 11,
	NAMES = 9,
	ORDER = 4, /* of ColorJitter's four */
};

/* What stands in the places, by kind. A name that begins with '?' is a yes or no, with '[' a list of
 * ORDER places. */
static const struct {
	const char *name;
	const char *places[NAMES];
} kinds[KINDS] = {
	[1] = {"RandomCrop", {"top", "left", "height", "width"}},
	[2] = {"RandomResizedCrop", {"top", "left", "height", "width"}},
	[3] = {"RandomHorizontalFlip", {"?flipped"}},
	[4] = {"RandomVerticalFlip", {"?flipped"}},
	[5] = {"RandomRotation", {"angle"}},
	[6] = {"RandomAffine",
		{"angle", "translate_x", "translate_y", "scale", "shear_x", "shear_y"}},
	[7] = {"ColorJitter", {"[order", "brightness", "contrast", "saturation", "hue"}},
	[8] = {"RandomGrayscale", {"?grey"}},
	[9] = {"GaussianBlur", {"sigma"}},
	[10] = {"RandomErasing", {"?erased", "top", "left", "height", "width"}},
};

static void write_order(struct json *json, const char *name, const double *values)
{
	json_open(json, name, '[');
	for (int i = 0; i < ORDER; i++)
		json_exact(json, NULL, values[i]);
	json_close(json, ']');
}

static void write_transform(struct json *json, uint32_t place, const double *values)
{
	uint32_t kind = values[0] >= 1 && values[0] < KINDS ? (uint32_t)values[0] : 0;

	if (kind == 0) /* nothing is drawn there, or by a daemon that is newer than we are */
		return;
	json_open(json, NULL, '{');
	json_number(json, "place", place);
	json_text(json, "name", kinds[kind].name);
	values++;
	for (int i = 0; i < NAMES && kinds[kind].places[i] != NULL; i++) {
		const char *name = kinds[kind].places[i];

		if (name[0] == '[') {
			write_order(json, name + 1, values);
			values += ORDER;
		} else if (name[0] == '?') {
			json_bool(json, name + 1, *values++ == 1);
		} else {
			json_exact(json, name, *values++);
		}
	}
	json_close(json, '}');
}

static void write_sample(
	FILE *out, const struct stoker_batch *batch, uint32_t row, const struct stoker_info *info)
{
	static const char *const statuses[] = {"ok", "masked", "replaced"};
	const double *values = (const double *)batch->data + (size_t)row * info->row_bytes / 8;
	uint8_t status = batch->statuses != NULL ? batch->statuses[row] : STOKER_ROW_OK;
	struct json json = {.out = out};

	json_open(&json, NULL, '{');
	json_number(&json, "sample", batch->samples[row]);
	json_number(&json, "epoch", batch->epoch);
	if (status != STOKER_ROW_OK)
		json_text(&json, "status", statuses[status]);
	json_open(&json, "transforms", '[');
	for (uint32_t i = 0; i < info->shape[1] && status != STOKER_ROW_MASKED; i++)
		write_transform(&json, i, values + i * PLACES);
	json_close(&json, ']');
	json_close(&json, '}');
	fputc('\n', out);
}

static int receive(const struct cli *cli, struct stoker *stoker, struct stoker_stream *stream,
	FILE *out, uint64_t total)
{
	const struct stoker_info *info = stoker_stream_info(stream);
	struct stoker_batch *batch;
	uint64_t rows = 0;
	int r;

	if (info->shape[0] != 1 || info->shape[2] != PLACES)
		return cli_error(cli, CLI_FAILED,
			"the daemon tells parameters in another form: is it of another version?");
	while ((r = stoker_next(stream, CLI_POLL_MS, &batch)) != STOKER_END && r >= 0) {
		if (cli_interrupted)
			return CLI_FAILED;
		if (r != STOKER_BATCH)
			continue;
		for (uint32_t i = 0; i < batch->rows; i++)
			write_sample(out, batch, i, info);
		rows += batch->rows;
		stoker_release(batch);
		progress_show("parameters of %" PRIu64 " of %" PRIu64 " images", rows, total);
	}
	progress_clear();
	if (r < 0)
		return cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
	if (rows != total)
		return cli_error(cli, CLI_FAILED,
			"the daemon announced %" PRIu64 " images and told of %" PRIu64, total,
			rows);
	return CLI_OK;
}

int params_open(const struct cli *cli, struct stoker *stoker, const struct stoker_options *options,
	struct stoker_stream **stream)
{
	struct stoker_options parameters = *options;

	parameters.rows = STOKER_ROWS_PARAMETERS;
	parameters.dtype = STOKER_F64;
	parameters.layout = STOKER_NCHW;
	return cli_open(cli, stoker, &parameters, stream);
}

int params_write(const struct cli *cli, struct stoker *stoker, struct stoker_stream *stream,
	const char *directory, uint64_t total)
{
	struct new_file file = NEW_FILE_NULL;
	int r = CLI_OK, w = new_file_create(&file, directory, "params.jsonl");

	if (w == 0)
		r = receive(cli, stoker, stream, file.out, total);
	if (w == 0 && r == CLI_OK)
		w = new_file_commit(&file);
	if (w < 0)
		r = cli_error(cli, CLI_FAILED, "%s/params.jsonl: %s", directory, strerror(-w));
	new_file_abandon(&file);
	return r;
}
