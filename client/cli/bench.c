/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/cli.h"
#include "client/cli/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

static const char help[] =
	"Usage: stoker bench DATASET [OPTION]...\n"
	"\n"
	"Measure how fast the daemon delivers: take batches as a trainer does and give them back unread.\n"
	"A wait is the time from asking for a batch to having it.\n"
	"\n"
	"  --batch-size N     samples per batch (64)\n"
	"  --epochs N         stop after so many passes over the data set (1)\n"
	"  --seconds S        stop after this time; without --epochs, go on as long\n"
	"  --no-shuffle       in the order of the data set, not shuffled\n"
	"  --transform SPEC   as in torchvision: \"ToTensor(), Normalize((0.5,), (0.5,))\"\n"
	"                     (default: ToTensor() for floats, none for u8)\n"
	"  --dtype T          of the images: f32 (default), f16, bf16 or u8\n"
	"  --payload P        shared or inline (default: shared where possible)\n"
	"  --depth N          batches in flight (default: the daemon's choice)\n"
	"  --step-ms T        pretend to train on each batch for T milliseconds (0)\n"
	"  --on-bad-sample P  error (default), mask or replace: what becomes of a sample that cannot be\n"
	"                     decoded\n"
	"  --exif-orientation turn pictures as their EXIF data say\n"
	"  --grey16 high|clip of 16-bit grey the high byte (default), or clipped at 255 as in Pillow\n"
	"  --socket PATH      the daemon's socket\n"
	"  --json             print the result as JSON\n";

enum { UNSET = 0 };

struct bench {
	double *waits; /* seconds, of each batch */
	size_t count, capacity;
	uint64_t images, bad;
	double begin;       /* before stoker_open */
	double opened;      /* after it */
	double first_batch; /* when it was there */
	double end;
};

static int note_wait(struct bench *bench, double seconds)
{
	if (bench->count == bench->capacity) {
		size_t capacity = bench->capacity == 0 ? 4096 : bench->capacity * 2;
		double *waits = reallocarray(bench->waits, capacity, sizeof(*waits));

		if (waits == NULL)
			return -ENOMEM;
		bench->waits = waits;
		bench->capacity = capacity;
	}
	bench->waits[bench->count++] = seconds;
	return 0;
}

static void train(double step_ms)
{
	struct timespec step = {.tv_sec = (time_t)(step_ms / 1000)};

	step.tv_nsec = (long)((step_ms - (double)step.tv_sec * 1000) * 1e6);
	if (step_ms > 0)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &step, NULL);
}

/* Until the stream ends, `seconds` are over or a signal comes. 0 or negative errno. */
static int consume(
	struct bench *bench, struct stoker_stream *stream, double seconds, double step_ms)
{
	double asked = cli_now();
	int r;

	for (;;) {
		struct stoker_batch *batch;
		double now;

		r = stoker_next(stream, CLI_POLL_MS, &batch);
		now = cli_now();
		if (r < 0 || r == STOKER_END || cli_interrupted)
			break;
		if (r == STOKER_BATCH) {
			if (bench->count == 0)
				bench->first_batch = now;
			if (note_wait(bench, now - asked) < 0)
				return -ENOMEM;
			bench->images += batch->rows;
			bench->bad += batch->bad;
			train(step_ms);
			stoker_release(batch);
			asked = cli_now();
			progress_show("%" PRIu64 " images, %.0f images/s", bench->images,
				(double)bench->images / (asked - bench->opened));
		}
		if (seconds > 0 && now - bench->opened >= seconds)
			break;
	}
	bench->end = cli_now();
	progress_clear();
	return r < 0 ? r : 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct result {
	double seconds, images_per_second, mib_per_second, first_batch;
	double wait_total, wait_median, wait_p99;
};

static struct result evaluate(struct bench *bench, const struct stoker_info *info)
{
	struct result result = {
		.seconds = bench->end - bench->opened,
		.first_batch = bench->first_batch - bench->begin,
	};

	result.images_per_second = (double)bench->images / result.seconds;
	result.mib_per_second = result.images_per_second * (double)info->row_bytes / (1 << 20);
	for (size_t i = 0; i < bench->count; i++)
		result.wait_total += bench->waits[i];
	qsort(bench->waits, bench->count, sizeof(*bench->waits), compare);
	result.wait_median = bench->waits[bench->count / 2];
	result.wait_p99 = bench->waits[(bench->count - 1) * 99 / 100];
	return result;
}

static void print_json(const struct bench *bench, const struct result *result,
	const struct stoker_options *options, const struct stoker_info *info)
{
	struct json json = {.out = stdout};

	json_open(&json, NULL, '{');
	json_text(&json, "dataset", options->dataset);
	json_number(&json, "batch_size", info->batch_size);
	json_number(&json, "depth", info->depth);
	json_text(&json, "dtype", cli_choice_name(cli_dtypes, (int)info->dtype));
	json_text(&json, "payload", info->payload == STOKER_SHARED ? "shared" : "inline");
	json_number(&json, "images", bench->images);
	json_number(&json, "bad", bench->bad);
	json_number(&json, "batches", bench->count);
	json_real(&json, "seconds", result->seconds);
	json_real(&json, "images_per_second", result->images_per_second);
	json_real(&json, "mib_per_second", result->mib_per_second);
	json_real(&json, "first_batch_seconds", result->first_batch);
	json_real(&json, "data_wait_seconds", result->wait_total);
	json_real(&json, "wait_median_ms", result->wait_median * 1000);
	json_real(&json, "wait_p99_ms", result->wait_p99 * 1000);
	json_close(&json, '}');
	putchar('\n');
}

static void print_text(const struct bench *bench, const struct result *result,
	const struct stoker_options *options, const struct stoker_info *info)
{
	printf("%s: %" PRIu64 " images of %ux%ux%u %s in %zu batches of %u, %s\n", options->dataset,
		bench->images, info->shape[0], info->shape[1], info->shape[2],
		cli_choice_name(cli_dtypes, (int)info->dtype), bench->count, info->batch_size,
		info->payload == STOKER_SHARED ? "shared memory" : "inline");
	printf("  rate         %.0f images/s  %.1f MiB/s  in %s\n", result->images_per_second,
		result->mib_per_second, format_seconds(result->seconds).text);
	if (bench->bad > 0)
		printf("  bad          %" PRIu64 " of the images were masked or replaced\n",
			bench->bad);
	printf("  first batch  after %.1f ms\n", result->first_batch * 1000);
	printf("  wait         median %.3f ms  p99 %.3f ms  %.0f %% of the time\n",
		result->wait_median * 1000, result->wait_p99 * 1000,
		100 * result->wait_total / result->seconds);
}

static int run(
	const struct cli *cli, struct stoker_options *options, double seconds, double step_ms)
{
	struct bench bench = {.waits = NULL};
	struct stoker *stoker = NULL;
	struct stoker_stream *stream = NULL;
	int r = cli_connect(cli, &stoker), c;

	bench.begin = cli_now();
	if (r == CLI_OK)
		r = cli_open(cli, stoker, options, &stream);
	if (r != CLI_OK)
		goto out;
	cli_catch_signals(0);
	bench.opened = cli_now();
	c = consume(&bench, stream, seconds, step_ms);
	if (c == -ENOMEM)
		r = cli_error(cli, CLI_FAILED, "out of memory");
	else if (c < 0)
		r = cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
	else if (bench.count == 0)
		r = cli_error(cli, CLI_FAILED, "no batch came within %s",
			format_seconds(bench.end - bench.opened).text);
	if (r == CLI_OK) {
		const struct stoker_info *info = stoker_stream_info(stream);
		struct result result = evaluate(&bench, info);

		if (cli->json)
			print_json(&bench, &result, options, info);
		else
			print_text(&bench, &result, options, info);
	}
out:
	free(bench.waits);
	stoker_destroy(stoker);
	return r;
}

int cmd_bench(struct cli *cli, int argc, char **argv)
{
	struct stoker_options options;
	uint64_t batch_size, depth, epochs = UNSET;
	double seconds = UNSET, step_ms = 0;
	bool no_shuffle = false;
	int dtype, on_bad = STOKER_BAD_ERROR, grey16 = false, r;

	stoker_options_init(&options);
	batch_size = options.batch_size;
	depth = options.depth;
	dtype = options.dtype;
	options.transforms = NULL;
	const struct cli_option table[] = {
		{"batch-size", 0, CLI_NUMBER, &batch_size, 1, UINT32_MAX},
		{"epochs", 0, CLI_NUMBER, &epochs, 1, INT64_MAX},
		{"seconds", 0, CLI_REAL, &seconds, 0, 1000000000},
		{"no-shuffle", 0, CLI_FLAG, &no_shuffle},
		{"transform", 0, CLI_TEXT, &options.transforms},
		{"dtype", 0, CLI_CHOICE, &dtype, .choices = cli_dtypes},
		{"payload", 0, CLI_CHOICE, &options.payload, .choices = cli_payloads},
		{"depth", 0, CLI_NUMBER, &depth, 1, UINT32_MAX},
		{"step-ms", 0, CLI_REAL, &step_ms, 0, 1000000},
		{"on-bad-sample", 0, CLI_CHOICE, &on_bad, .choices = cli_on_bad_sample},
		{"exif-orientation", 0, CLI_FLAG, &options.exif_orientation},
		{"grey16", 0, CLI_CHOICE, &grey16, .choices = cli_grey16},
		{NULL},
	};

	cli->help = help;
	r = cli_parse(cli, table, argc, argv, 1, 1);
	if (r != CLI_OK)
		return r == CLI_DONE ? CLI_OK : r;
	options.dataset = cli->arguments[0];
	options.batch_size = (uint32_t)batch_size;
	options.depth = (uint32_t)depth;
	options.dtype = (enum stoker_dtype)dtype;
	options.grey16_clip = grey16;
	options.on_bad_sample = (enum stoker_on_bad_sample)on_bad;
	options.shuffle = !no_shuffle;
	options.epochs = epochs != UNSET ? epochs : seconds > 0 ? 0 : 1;
	if (options.transforms == NULL)
		options.transforms = cli_default_transforms(options.dtype);
	return run(cli, &options, seconds, step_ms);
}
