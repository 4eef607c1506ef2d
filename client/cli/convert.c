/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/cli.h"
#include "client/cli/png_tree.h"
#include "client/cli/private_daemon.h"
#include "client/cli/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"Usage: stoker convert SRC DEST [--json]\n"
	"\n"
	"Write the data set at SRC - an IDX images file (.gz or not), class folders, a manifest (.csv,\n"
	".tsv) or tar archives - as PNG files: DEST/LABEL/ID.png, RGB but for grey IDX files. An\n"
	"ID is the index of the sample in SRC. DEST appears when it is complete; it must not exist yet,\n"
	"or be empty.\n"
	"\n"
	"A stokerd of its own reads SRC, so none needs to run: the one beside this program, or on PATH,\n"
	"or named by the variable STOKERD.\n"
	"\n"
	"  --json             print the summary as JSON\n"
	"\n"
	"Example: stoker convert train-images-idx3-ubyte.gz fashion/train\n";

enum { BATCH_SIZE = 64 }; /* several must fit into memory, whatever the size of the images */

static int explain_destination(const struct cli *cli, const char *destination, int r)
{
	if (r == -ENOTEMPTY || r == -EEXIST)
		return cli_error(cli, CLI_FAILED,
			"%s is not empty: remove it, or give another destination", destination);
	if (r == -ELOOP)
		return cli_error(cli, CLI_FAILED,
			"%s is a symbolic link: remove it, or give the path that it leads to",
			destination);
	if (r == -EINVAL)
		return cli_error(cli, CLI_FAILED,
			"%s: give the directory by its name, not as '.' or '..'", destination);
	return cli_error(cli, CLI_FAILED, "%s: %s", destination, strerror(-r));
}

/* Every batch becomes files. CLI_OK, or CLI_FAILED after saying why (but for an interruption). */
static int receive(const struct cli *cli, struct stoker *stoker, struct stoker_stream *stream,
	struct png_tree *tree, const char *destination)
{
	const struct stoker_info *info = stoker_stream_info(stream);
	struct stoker_batch *batch;
	uint64_t images = 0;
	int r = STOKER_AGAIN, w = 0;

	while (w == 0 && (r = stoker_next(stream, CLI_POLL_MS, &batch)) != STOKER_END && r >= 0) {
		if (cli_interrupted)
			return CLI_FAILED;
		if (r != STOKER_BATCH)
			continue;
		w = png_tree_add(tree, batch, info->row_bytes);
		images += batch->rows;
		stoker_release(batch);
		progress_show("%" PRIu64 " of %" PRIu64 " images", images, info->dataset_samples);
	}
	progress_clear();
	if (cli_interrupted)
		return CLI_FAILED;
	if (r < 0)
		return cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
	if (w == 0 && images != info->dataset_samples)
		return cli_error(cli, CLI_FAILED,
			"the data set has %" PRIu64 " images, but %" PRIu64 " came",
			info->dataset_samples, images);
	if (w == 0)
		w = png_tree_commit(tree);
	return w == 0 ? CLI_OK : explain_destination(cli, destination, w);
}

static void summarise(const struct cli *cli, const char *source, const struct png_tree *tree,
	const struct stoker_info *info, double seconds)
{
	struct json json = {.out = stdout};
	uint32_t empty = 0;

	for (uint32_t i = 0; i < tree->classes; i++)
		empty += !tree->made[i];

	if (!cli->json) {
		printf("%s: %" PRIu64 " PNG files of %ux%u %s in %u classes, in %s\n",
			tree->destination, info->dataset_samples, info->shape[1], info->shape[0],
			info->shape[2] == 1 ? "grey" : "RGB", info->classes,
			format_seconds(seconds).text);
		if (empty > 0)
			printf("%u of the classes have no images: a loader of class folders will number "
			       "the others anew\n",
				empty);
		return;
	}
	json_open(&json, NULL, '{');
	json_text(&json, "source", source);
	json_text(&json, "destination", tree->destination);
	json_number(&json, "images", info->dataset_samples);
	json_number(&json, "classes", info->classes);
	json_number(&json, "empty_classes", empty);
	json_number(&json, "width", info->shape[1]);
	json_number(&json, "height", info->shape[0]);
	json_number(&json, "channels", info->shape[2]);
	json_real(&json, "seconds", seconds);
	json_close(&json, '}');
	putchar('\n');
}

static int convert(struct cli *cli, const char *source, const char *destination)
{
	struct private_daemon daemon = PRIVATE_DAEMON_NULL;
	struct png_tree tree = PNG_TREE_NULL;
	struct stoker *stoker = NULL;
	struct stoker_stream *stream = NULL;
	struct stoker_options options;
	double begin = cli_now();
	int r = private_daemon_serve(&daemon, cli, source, &stoker), c;

	stoker_options_init(&options);
	options.dataset = PRIVATE_DATASET;
	options.batch_size = BATCH_SIZE;
	options.transforms = NULL;
	options.dtype = STOKER_U8;
	options.layout = STOKER_NHWC;
	if (r == CLI_OK)
		r = cli_open(cli, stoker, &options, &stream);
	if (r == CLI_OK) {
		c = png_tree_create(&tree, destination, stoker_stream_info(stream));
		if (c < 0)
			r = explain_destination(cli, destination, c);
	}
	if (r == CLI_OK)
		r = receive(cli, stoker, stream, &tree, destination);
	if (r == CLI_OK)
		summarise(cli, source, &tree, stoker_stream_info(stream), cli_now() - begin);
	stoker_destroy(stoker);
	private_daemon_finish(&daemon);
	png_tree_finish(&tree);
	return r;
}

int cmd_convert(struct cli *cli, int argc, char **argv)
{
	static const struct cli_option options[] = {{NULL}};
	char *source;
	int r;

	cli->help = help;
	r = cli_parse(cli, options, argc, argv, 2, 2);
	if (r != CLI_OK)
		return r == CLI_DONE ? CLI_OK : r;
	if (cli->arguments[1][0] == '\0')
		return cli_error(cli, CLI_USAGE, "where to? DEST is empty");
	r = png_tree_check(cli->arguments[1]);
	if (r < 0)
		return explain_destination(cli, cli->arguments[1], r);
	source = realpath(cli->arguments[0], NULL);
	if (source == NULL)
		return cli_error(cli, CLI_FAILED, "%s: %s", cli->arguments[0], strerror(errno));
	r = convert(cli, source, cli->arguments[1]);
	free(source);
	return r;
}
