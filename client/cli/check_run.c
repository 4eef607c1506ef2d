/* SPDX-License-Identifier: Apache-2.0 */
/* One data set: its digests are taken from a daemon, and what is bad is told. */
#include "client/cli/check.h"
#include "client/cli/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	BATCH_SIZE =
		64, /* few, so that a bad file is soon told; why a row is bad is said of more */
	NAMES_MIN = 256, /* paths asked for at once where only those of bad files are needed */
};

struct run {
	struct check *check;
	struct stoker *stoker;
	const char *name;
	char *whole; /* NULL, or the name of the data set of which that is a part */
	const struct check_files *files;
	uint64_t fingerprint;        /* of what the stream reads */
	struct stoker_samples *page; /* NULL, or the paths around the last one that was needed */
	uint64_t done, total, bad;   /* samples of this data set */
	double begin;
};

/* Have the path of sample `index` in the page. CLI_OK, or CLI_FAILED after saying why. */
static int turn_page(struct run *run, uint64_t index)
{
	const char *name = run->whole != NULL ? run->whole : run->name;
	uint64_t many = run->check->digest ? 0 : NAMES_MIN;

	if (run->page != NULL && index >= run->page->first &&
		index - run->page->first < run->page->count)
		return CLI_OK;
	stoker_samples_free(run->page);
	if (stoker_samples(run->stoker, name, index, many, &run->page) < 0)
		return cli_error(run->check->cli, CLI_FAILED, "%s", stoker_message(run->stoker));
	/* The upper half of all parts of a data set is the same. */
	if (run->page->fingerprint >> 32 != run->fingerprint >> 32)
		return cli_error(run->check->cli, CLI_FAILED,
			"data set %s has become another while it was checked: check it again",
			name);
	if (run->page->count == 0)
		return cli_error(run->check->cli, CLI_FAILED,
			"the daemon does not name sample %" PRIu64, index);
	return CLI_OK;
}

/* The name of sample `index`, escaped; the caller frees. NULL after a failure, which has been told. */
static char *name_of(struct run *run, uint64_t index)
{
	char *name;

	if (run->files != NULL && index >= run->files->count) {
		cli_error(run->check->cli, CLI_FAILED,
			"the daemon speaks of file %" PRIu64 " of %zu", index, run->files->count);
		return NULL;
	}
	if (run->files != NULL) {
		name = stoker_escape(
			run->files->list[index].path, strlen(run->files->list[index].path));
	} else {
		const struct stoker_sample *sample;

		if (turn_page(run, index) != CLI_OK)
			return NULL;
		sample = &run->page->list[index - run->page->first];
		name = stoker_escape(sample->path, sample->length);
	}
	if (name == NULL)
		cli_error(run->check->cli, CLI_FAILED, "out of memory");
	return name;
}

static void tell_bad(struct run *run, const char *name, const char *reason, const char *text)
{
	struct check *check = run->check;
	struct json json = {.out = check->out};

	progress_clear();
	run->bad++;
	check->bad++;
	if (!check->cli->json) {
		fprintf(check->out, "%s: ", name);
		print_plain(check->out, text);
		fputc('\n', check->out);
		return;
	}
	json_open(&json, NULL, '{');
	json_text(&json, "path", name);
	json_text(&json, "reason", reason);
	json_text(&json, "text", text);
	json_close(&json, '}');
	fputc('\n', check->out);
}

static void tell_digest(struct run *run, const char *name, const struct stoker_digest *digest)
{
	struct json json = {.out = stdout};
	char hex[17];

	progress_clear();
	snprintf(hex, sizeof(hex), "%016" PRIx64, digest->xxh3);
	if (!run->check->cli->json) {
		printf("%s  %s\n", hex, name);
		return;
	}
	json_open(&json, NULL, '{');
	json_text(&json, "path", name);
	json_text(&json, "xxh3", hex);
	json_number(&json, "width", digest->width);
	json_number(&json, "height", digest->height);
	json_number(&json, "bytes", digest->bytes);
	json_close(&json, '}');
	putchar('\n');
}

/* Why row `row` is bad. *at goes through the reasons, which come in the order of the rows. */
static void bad_reason(const struct stoker_batch *batch, uint32_t row, uint32_t *at,
	const char **reason, const char **text)
{
	*reason = "other";
	*text = "cannot be decoded";
	while (*at < batch->bad_row_count && batch->bad_rows[*at].row < row)
		++*at;
	if (*at < batch->bad_row_count && batch->bad_rows[*at].row == row) {
		*reason = batch->bad_rows[*at].reason;
		*text = batch->bad_rows[*at].text;
	}
}

/* CLI_OK or CLI_FAILED. */
static int tell_batch(struct run *run, const struct stoker_batch *batch)
{
	const struct stoker_digest *digests = batch->data;
	uint32_t at = 0;

	for (uint32_t row = 0; row < batch->rows; row++) {
		bool bad = batch->statuses != NULL && batch->statuses[row] != STOKER_ROW_OK;
		uint64_t index = batch->samples[row]; /* masked rows keep their own */
		const char *reason, *text;
		char *name;

		if (!bad && !run->check->digest)
			continue;
		name = name_of(run, index);
		if (name == NULL)
			return CLI_FAILED;
		if (bad) {
			bad_reason(batch, row, &at, &reason, &text);
			if (run->files != NULL && run->files->list[index].error != 0)
				text = strerror(run->files->list[index].error);
			tell_bad(run, name, reason, text);
		} else {
			tell_digest(run, name, &digests[row]);
		}
		free(name);
	}
	run->done += batch->rows;
	return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED; /* cli_finish says why */
}

static void show_progress(const struct run *run)
{
	enum { WIDTH = 20 };
	char bar[WIDTH + 1];
	int filled = run->total > 0 ? (int)(WIDTH * run->done / run->total) : WIDTH;
	double seconds = cli_now() - run->begin;

	for (int i = 0; i < WIDTH; i++)
		bar[i] = i < filled ? '#' : '-';
	bar[WIDTH] = '\0';
	progress_show("[%s] %s of %s images, %s bad, %s images/s", bar,
		format_count(run->done).text, format_count(run->total).text,
		format_count(run->bad).text,
		format_count(seconds > 0 ? (uint64_t)((double)run->done / seconds) : 0).text);
}

static int receive(struct run *run, struct stoker_stream *stream)
{
	struct stoker_batch *batch;
	int r = STOKER_AGAIN, status = CLI_OK;

	show_progress(run);
	while (status == CLI_OK && (r = stoker_next(stream, CLI_POLL_MS, &batch)) != STOKER_END &&
		r >= 0) {
		if (cli_interrupted)
			return CLI_FAILED;
		if (r == STOKER_BATCH) {
			status = tell_batch(run, batch);
			stoker_release(batch);
		}
		show_progress(run);
	}
	progress_clear();
	if (cli_interrupted)
		return CLI_FAILED;
	if (r < 0)
		return cli_error(run->check->cli, CLI_FAILED, "%s", stoker_message(run->stoker));
	return status;
}

static void show_indexing(uint64_t samples, void *data)
{
	(void)data;
	progress_show("indexing, %s so far", format_count(samples).text);
}

/* The daemon names the data set before it says what is wrong; `name` means nothing to our user where
 * it is one of our own making. */
static const char *without_name(const char *message, const char *name)
{
	static const char words[] = "data set ";
	size_t length = strlen(name);

	if (strncmp(message, words, strlen(words)) != 0)
		return message;
	if (strncmp(message + strlen(words), name, length) != 0 ||
		strncmp(message + strlen(words) + length, ": ", 2) != 0)
		return message;
	return message + strlen(words) + length + 2;
}

static int open_stream(const struct run *run, struct stoker_stream **stream)
{
	struct stoker_options options;
	int r;

	stoker_options_init(&options);
	options.dataset = run->name;
	options.batch_size = BATCH_SIZE;
	options.transforms = NULL;
	options.dtype = STOKER_U8;
	options.rows = STOKER_ROWS_DIGESTS;
	options.exif_orientation = run->check->exif_orientation;
	options.grey16_clip = run->check->grey16_clip;
	options.on_bad_sample = STOKER_BAD_MASK;
	options.indexing = show_indexing;
	r = stoker_open(run->stoker, &options, stream);
	progress_clear();
	if (r < 0 && !cli_interrupted)
		cli_error(run->check->cli, CLI_FAILED, "%s",
			without_name(stoker_message(run->stoker), run->name));
	return r < 0 ? CLI_FAILED : CLI_OK;
}

int check_run(struct check *check, struct stoker *stoker, const char *name,
	const struct check_files *files)
{
	struct run run = {.check = check, .stoker = stoker, .name = name, .files = files};
	struct stoker_stream *stream = NULL;
	const char *bracket = strchr(name, '[');
	int r = open_stream(&run, &stream);

	if (r != CLI_OK)
		return r;
	if (bracket != NULL) {
		run.whole = strndup(name, (size_t)(bracket - name));
		if (run.whole == NULL)
			r = cli_error(check->cli, CLI_FAILED, "out of memory");
	}
	run.total = stoker_stream_info(stream)->epoch_samples;
	run.fingerprint = stoker_stream_info(stream)->fingerprint;
	run.begin = cli_now();
	if (r == CLI_OK && files != NULL && run.total != files->count)
		r = cli_error(
			check->cli, CLI_FAILED, "the daemon counts other files than there are");
	if (r == CLI_OK)
		r = receive(&run, stream);
	check->images += run.done;
	check->seconds += cli_now() - run.begin;
	stoker_samples_free(run.page);
	free(run.whole);
	stoker_close(stream);
	return r;
}
