/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/cli.h"
#include "client/cli/npy.h"
#include "client/cli/params.h"
#include "client/cli/text.h"
#include "client/cli/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
	"Usage: stoker dump DATASET -o DIR [OPTION]...\n"
	"\n"
	"Write the batches of one epoch, in the order in which a trainer gets them, as NumPy files:\n"
	"DIR/images.npy (samples x shape), DIR/labels.npy and DIR/ids.npy (int64; an id is the index of a\n"
	"sample in the data set). The files appear when they are complete.\n"
	"\n"
	"  -o, --output DIR   where to write; made if it does not exist\n"
	"  --batch-size N     samples per batch (64)\n"
	"  --shuffle          in the order of torch's DistributedSampler, not in the data set's\n"
	"  --seed N           of the shuffle, which it implies, and of random transforms (0)\n"
	"  --no-shuffle       in the data set's order, with --seed too\n"
	"  --epoch N          which epoch, as in set_epoch (0)\n"
	"  --rank R           this shard (0) ...\n"
	"  --world W          ... of so many (1)\n"
	"  --shard-drop       drop the tail of the data set instead of padding the shards\n"
	"  --drop-last        drop the last batch if it is short\n"
	"  --transform SPEC   as in torchvision: \"Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))\"\n"
	"                     (default: ToTensor() for floats, none for u8);\n"
	"                     stoker(1) lists them\n"
	"  --dtype T          of the images: f32 (default), f16, bf16 (as its bits, in uint16) or u8\n"
	"  --layout L         NCHW (default) or NHWC\n"
	"  --on-bad-sample P  error (default), mask or replace: what becomes of a sample that cannot be\n"
	"                     decoded. With mask and replace, DIR/statuses.npy (uint8) says of each row\n"
	"                     whether it is 0 itself, 1 masked or 2 another sample\n"
	"  --exif-orientation turn pictures as their EXIF data say\n"
	"  --grey16 high|clip of 16-bit grey the high byte (default), or clipped at 255 as in Pillow\n"
	"  --params           also write DIR/params.jsonl: for each image, in order, an object with what\n"
	"                     the random transforms drew for it\n"
	"  --socket PATH      the daemon's socket\n"
	"  --json             print the summary as JSON\n";

struct dump {
	struct npy images, labels, ids, statuses;
	bool with_statuses, with_params;
	uint64_t rows, bad;
};

/* NumPy has no bfloat16: its bits are written. */
static const struct item {
	const char *descr, *name;
	size_t bytes;
} items[] = {
	[STOKER_U8] = {"|u1", "uint8", 1},
	[STOKER_F16] = {"<f2", "float16", 2},
	[STOKER_BF16] = {"<u2", "bfloat16", 2},
	[STOKER_F32] = {"<f4", "float32", 4},
};

static int create_files(const struct cli *cli, struct dump *dump, const char *directory,
	const struct stoker_info *info, uint64_t rows)
{
	const uint64_t shape[] = {rows, info->shape[0], info->shape[1], info->shape[2]};
	const struct item *item = &items[info->dtype];
	int r;

	r = tree_make_parents(directory);
	if (r == 0 && mkdir(directory, 0777) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0)
		r = npy_create(
			&dump->images, directory, "images.npy", item->descr, item->bytes, 4, shape);
	if (r == 0)
		r = npy_create(&dump->labels, directory, "labels.npy", "<i8", 8, 1, shape);
	if (r == 0)
		r = npy_create(&dump->ids, directory, "ids.npy", "<i8", 8, 1, shape);
	if (r == 0 && dump->with_statuses)
		r = npy_create(&dump->statuses, directory, "statuses.npy", "|u1", 1, 1, shape);
	if (r < 0)
		return cli_error(cli, CLI_FAILED, "%s: %s", directory, strerror(-r));
	return CLI_OK;
}

/* int64 is what torch wants for labels, and what NumPy indexes with. */
static int write_batch(struct dump *dump, const struct stoker_batch *batch, uint64_t row_bytes)
{
	static const uint8_t ok = STOKER_ROW_OK;
	int r = npy_write(&dump->images, batch->data, batch->rows * row_bytes);

	for (uint32_t i = 0; i < batch->rows && r == 0; i++) {
		int64_t label = batch->labels[i], id = (int64_t)batch->samples[i];

		r = npy_write(&dump->labels, &label, sizeof(label));
		if (r == 0)
			r = npy_write(&dump->ids, &id, sizeof(id));
		if (r == 0 && dump->with_statuses)
			r = npy_write(&dump->statuses,
				batch->statuses != NULL ? &batch->statuses[i] : &ok, 1);
	}
	dump->rows += batch->rows;
	dump->bad += batch->bad;
	return r;
}

static int receive(const struct cli *cli, struct dump *dump, struct stoker *stoker,
	struct stoker_stream *stream, const char *directory, uint64_t total)
{
	const struct stoker_info *info = stoker_stream_info(stream);
	struct stoker_batch *batch;
	int r = STOKER_AGAIN, w = 0;

	while (w == 0 && (r = stoker_next(stream, CLI_POLL_MS, &batch)) != STOKER_END && r >= 0) {
		if (cli_interrupted)
			return CLI_FAILED;
		if (r != STOKER_BATCH)
			continue;
		w = write_batch(dump, batch, info->row_bytes);
		stoker_release(batch);
		progress_show("%" PRIu64 " of %" PRIu64 " images", dump->rows, total);
	}
	progress_clear();
	if (r < 0)
		return cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
	if (w == 0)
		w = npy_commit(&dump->labels);
	if (w == 0)
		w = npy_commit(&dump->ids);
	if (w == 0 && dump->with_statuses)
		w = npy_commit(&dump->statuses);
	if (w == 0)
		w = npy_commit(&dump->images);
	if (w == -ENODATA || w == -EOVERFLOW)
		return cli_error(cli, CLI_FAILED,
			"the daemon announced %" PRIu64 " images and sent %" PRIu64, total,
			dump->rows);
	if (w < 0)
		return cli_error(cli, CLI_FAILED, "%s: %s", directory, strerror(-w));
	return CLI_OK;
}

static void summarise(const struct cli *cli, const struct stoker_options *options,
	const struct stoker_info *info, const char *directory, const struct dump *dump)
{
	const char *dtype = items[info->dtype].name;
	struct json json = {.out = stdout};

	if (!cli->json) {
		printf("%s: %" PRIu64 " images of %ux%ux%u %s in %" PRIu64
		       " batches: epoch %" PRIu64 " of %s, images.npy labels.npy ids.npy%s\n",
			directory, dump->rows, info->shape[0], info->shape[1], info->shape[2],
			dtype, info->epoch_batches, options->first_epoch, options->dataset,
			dump->with_params ? " params.jsonl" : "");
		if (info->dtype == STOKER_BF16)
			printf("bfloat16 is written as uint16, its bits: NumPy has no such type; "
			       "torch.from_numpy(x.view(numpy.int16)).view(torch.bfloat16)\n");
		if (dump->bad > 0)
			printf("%" PRIu64
			       " of them stand for bad samples: statuses.npy; the names are "
			       "in 'stoker status'\n",
				dump->bad);
		return;
	}
	json_open(&json, NULL, '{');
	json_text(&json, "dataset", options->dataset);
	json_text(&json, "directory", directory);
	json_number(&json, "images", dump->rows);
	json_number(&json, "bad", dump->bad);
	json_number(&json, "batches", info->epoch_batches);
	json_number(&json, "epoch", options->first_epoch);
	json_open(&json, "shape", '[');
	for (int i = 0; i < 3; i++)
		json_number(&json, NULL, info->shape[i]);
	json_close(&json, ']');
	json_text(&json, "dtype", dtype);
	json_number(&json, "classes", info->classes);
	json_close(&json, '}');
	putchar('\n');
}

static int dump_epoch(const struct cli *cli, struct stoker_options *options, const char *directory,
	bool with_params)
{
	struct dump dump = {
		.images = NPY_NULL,
		.labels = NPY_NULL,
		.ids = NPY_NULL,
		.statuses = NPY_NULL,
		.with_statuses = options->on_bad_sample != STOKER_BAD_ERROR,
		.with_params = with_params,
	};
	struct stoker *stoker = NULL;
	struct stoker_stream *stream = NULL, *params = NULL;
	int r = cli_connect(cli, &stoker);

	if (r == CLI_OK)
		r = cli_open(cli, stoker, options, &stream);
	if (r == CLI_OK && dump.with_params)
		r = params_open(cli, stoker, options, &params);
	if (r == CLI_OK) {
		const struct stoker_info *info = stoker_stream_info(stream);
		uint64_t total = options->drop_last ? info->epoch_batches * info->batch_size
						    : info->epoch_samples;

		cli_catch_signals(0);
		r = create_files(cli, &dump, directory, info, total);
		if (r == CLI_OK)
			r = receive(cli, &dump, stoker, stream, directory, total);
		if (r == CLI_OK && dump.with_params)
			r = params_write(cli, stoker, params, directory, total);
		if (r == CLI_OK)
			summarise(cli, options, info, directory, &dump);
	}
	npy_abandon(&dump.images);
	npy_abandon(&dump.labels);
	npy_abandon(&dump.ids);
	npy_abandon(&dump.statuses);
	stoker_destroy(stoker);
	return r;
}

int cmd_dump(struct cli *cli, int argc, char **argv)
{
	struct stoker_options options;
	uint64_t batch_size, rank = 0, world = 1;
	const char *directory = NULL;
	int dtype, layout, on_bad = STOKER_BAD_ERROR, grey16 = false, r;
	bool with_params = false, no_shuffle = false;

	stoker_options_init(&options);
	batch_size = options.batch_size;
	dtype = options.dtype;
	layout = options.layout;
	options.transforms = NULL;
	const struct cli_option table[] = {
		{"output", 'o', CLI_TEXT, &directory},
		{"batch-size", 0, CLI_NUMBER, &batch_size, 1, UINT32_MAX},
		{"shuffle", 0, CLI_FLAG, &options.shuffle},
		{"seed", 0, CLI_NUMBER, &options.seed, 0, UINT64_MAX, .given = &options.shuffle},
		{"no-shuffle", 0, CLI_FLAG, &no_shuffle},
		{"epoch", 0, CLI_NUMBER, &options.first_epoch, 0, INT64_MAX},
		{"rank", 0, CLI_NUMBER, &rank, 0, UINT32_MAX},
		{"world", 0, CLI_NUMBER, &world, 1, UINT32_MAX},
		{"shard-drop", 0, CLI_FLAG, &options.shard_drop},
		{"drop-last", 0, CLI_FLAG, &options.drop_last},
		{"transform", 0, CLI_TEXT, &options.transforms},
		{"dtype", 0, CLI_CHOICE, &dtype, .choices = cli_dtypes},
		{"layout", 0, CLI_CHOICE, &layout, .choices = cli_layouts},
		{"on-bad-sample", 0, CLI_CHOICE, &on_bad, .choices = cli_on_bad_sample},
		{"exif-orientation", 0, CLI_FLAG, &options.exif_orientation},
		{"grey16", 0, CLI_CHOICE, &grey16, .choices = cli_grey16},
		{"params", 0, CLI_FLAG, &with_params},
		{NULL},
	};

	cli->help = help;
	r = cli_parse(cli, table, argc, argv, 1, 1);
	if (r != CLI_OK)
		return r == CLI_DONE ? CLI_OK : r;
	if (directory == NULL || directory[0] == '\0')
		return cli_error(cli, CLI_USAGE, "where to? Give a directory: -o DIR");
	options.dataset = cli->arguments[0];
	options.shuffle = options.shuffle && !no_shuffle;
	options.batch_size = (uint32_t)batch_size;
	options.rank = (uint32_t)rank;
	options.world = (uint32_t)world;
	options.dtype = (enum stoker_dtype)dtype;
	options.grey16_clip = grey16;
	options.on_bad_sample = (enum stoker_on_bad_sample)on_bad;
	options.layout = (enum stoker_layout)layout;
	if (options.transforms == NULL)
		options.transforms = cli_default_transforms(options.dtype);
	return dump_epoch(cli, &options, directory, with_params);
}
