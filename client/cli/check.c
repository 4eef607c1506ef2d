/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/check.h"
#include "client/cli/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char help[] =
	"Usage: stoker check DATASET|PATH... [OPTION]...\n"
	"\n"
	"Decode every image and name those that are bad, one line each: PATH: REASON.\n"
	"\n"
	"An argument that has a '/' in it or exists is a PATH: a directory is searched for images (.jpg\n"
	".jpeg .png .ppm .bmp .pgm .tif .tiff .webp; hidden entries are left out); a manifest (.csv, .tsv),\n"
	"an IDX images file, a tar archive, a pattern of them ('train-{000..099}.tar') or a directory\n"
	"without images is a data set; any other file is an image. A stokerd of its own reads PATHs, so\n"
	"none needs to run. Any other argument is the name of a data set of the running daemon.\n"
	"\n"
	"  --digest         print of each good image, in order, XXH3-64 of its RGB pixels (16 hexadecimal\n"
	"                   digits), two spaces and its path; what is bad goes to standard error then\n"
	"  --exif-orientation\n"
	"                   digests of pictures turned as their EXIF data say\n"
	"  --grey16 high|clip\n"
	"                   of 16-bit grey the high byte (default), or clipped at 255 as in Pillow\n"
	"  --workers N      worker processes for PATHs (default: one per CPU)\n"
	"  --json           print a JSON object in each line: {path, reason, text} of a bad image, with\n"
	"                   --digest also {path, xxh3, width, height, bytes} of a good one, and at last\n"
	"                   {images, bad, failed, seconds, images_per_second}\n"
	"  --socket PATH    the daemon whose data sets are meant\n"
	"\n"
	"In paths, control bytes and what is no UTF-8 are shown as \\xHH, and a backslash as \\\\.\n"
	"\n"
	"Exit status: 0 all are good, 1 one is bad or could not be checked, 2 wrong usage, 3 no daemon.\n";

enum { DATASETS_MAX = 16 }; /* that a private daemon serves at a time */

/* "70,000 images, 3 bad, 41,000 images/s" */
static void summarise(const struct check *check)
{
	struct json json = {.out = check->out};
	double rate = check->seconds > 0 ? (double)check->images / check->seconds : 0;

	if (!check->cli->json) {
		fprintf(check->out, "%s image%s, %s bad, %s images/s\n",
			format_count(check->images).text, check->images == 1 ? "" : "s",
			format_count(check->bad).text, format_count((uint64_t)rate).text);
		return;
	}
	json_open(&json, NULL, '{');
	json_number(&json, "images", check->images);
	json_number(&json, "bad", check->bad);
	json_bool(&json, "failed", check->failed);
	json_real(&json, "seconds", check->seconds);
	json_real(&json, "images_per_second", rate);
	json_close(&json, '}');
	fputc('\n', check->out);
}

/* A data set of the running daemon. */
static int check_name(struct check *check, struct stoker **stoker, const char *name)
{
	int r = *stoker == NULL ? cli_connect(check->cli, stoker) : CLI_OK;

	if (r == CLI_OK)
		r = check_run(check, *stoker, name, NULL);
	if (r != CLI_OK) {
		check->failed = true;
		cli_error(check->cli, r,
			"'%s' is no file here, so the data set of that name was meant", name);
	}
	return r;
}

/* Sources that go to one private daemon, from number `first` on. */
static size_t group_from(const struct check_sources *sources, size_t first)
{
	size_t count = 0;

	while (first + count < sources->count && count < DATASETS_MAX &&
		sources->list[first + count].kind != CHECK_NAME)
		count++;
	return count;
}

static int check_all(struct check *check, const struct check_sources *sources)
{
	struct stoker *stoker = NULL;
	int status = CLI_OK;

	for (size_t i = 0; i < sources->count && !cli_interrupted;) {
		size_t count = group_from(sources, i);

		if (count > 0)
			check_private(check, &sources->list[i], count);
		else if (check_name(check, &stoker, sources->list[i].path) == CLI_NO_DAEMON)
			status = CLI_NO_DAEMON;
		i += count > 0 ? count : 1;
		if (status == CLI_NO_DAEMON)
			break;
	}
	stoker_destroy(stoker);
	if (cli_interrupted)
		return CLI_FAILED;
	if (status != CLI_NO_DAEMON)
		summarise(check);
	if (status == CLI_OK && (check->bad > 0 || check->failed))
		status = CLI_FAILED;
	return status;
}

static bool any_path(const struct check_sources *sources)
{
	for (size_t i = 0; i < sources->count; i++) {
		if (sources->list[i].kind != CHECK_NAME)
			return true;
	}
	return false;
}

int cmd_check(struct cli *cli, int argc, char **argv)
{
	struct check check = {.cli = cli};
	struct check_sources sources = {.list = NULL};
	int grey16 = false;
	const struct cli_option table[] = {
		{"digest", 0, CLI_FLAG, &check.digest},
		{"exif-orientation", 0, CLI_FLAG, &check.exif_orientation},
		{"grey16", 0, CLI_CHOICE, &grey16, .choices = cli_grey16},
		{"workers", 0, CLI_NUMBER, &check.workers, 0, 4096, .given = &check.workers_given},
		{NULL},
	};
	int r;

	cli->help = help;
	r = cli_parse(cli, table, argc, argv, 1, INT32_MAX);
	if (r != CLI_OK)
		return r == CLI_DONE ? CLI_OK : r;
	check.grey16_clip = grey16;
	check.out = check.digest && !cli->json ? stderr : stdout;
	for (int i = 0; i < cli->argument_count && r == CLI_OK; i++) {
		if (cli->arguments[i][0] == '\0')
			r = cli_error(cli, CLI_USAGE, "an argument is empty");
		else if (check_sources_add(&sources, cli->arguments[i]) < 0)
			r = cli_error(cli, CLI_FAILED, "out of memory");
	}
	if (r == CLI_OK && check.workers_given && !any_path(&sources))
		r = cli_error(cli, CLI_USAGE,
			"--workers is for PATHs: a running daemon has its own workers");
	if (r == CLI_OK)
		r = check_all(&check, &sources);
	check_sources_finish(&sources);
	return r;
}
