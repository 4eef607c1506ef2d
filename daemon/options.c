/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_parts.h"
#include "daemon/suggest.h"
#include "daemon/util/escape.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum {
	OPTION_HELP = 'h',
	OPTION_CONFIG = 256,
	OPTION_DATASET,
	OPTION_CHECK,
	OPTION_VERSION,
	OPTION_KEY, /* + index into config_keys */
};

static const struct option options[] = {
	{"config", required_argument, NULL, OPTION_CONFIG},
	{"socket", required_argument, NULL, OPTION_KEY},
	{"workers", required_argument, NULL, OPTION_KEY + 1},
	{"memory", required_argument, NULL, OPTION_KEY + 2},
	{"index-dir", required_argument, NULL, OPTION_KEY + 3},
	{"sandbox", required_argument, NULL, OPTION_KEY + 4},
	{"log-level", required_argument, NULL, OPTION_KEY + 5},
	{"image-timeout", required_argument, NULL, OPTION_KEY + 6},
	{"max-pixels", required_argument, NULL, OPTION_KEY + 7},
	{"dataset", required_argument, NULL, OPTION_DATASET},
	{"check-config", no_argument, NULL, OPTION_CHECK},
	{"help", no_argument, NULL, OPTION_HELP},
	{"version", no_argument, NULL, OPTION_VERSION},
	{NULL},
};

static const char help[] =
	"Usage: stokerd [OPTION]...\n"
	"\n"
	"Read image data sets, decode and transform the images in a pool of worker processes and hand\n"
	"finished batches to trainers over a Unix socket.\n"
	"\n"
	"  --config FILE           read FILE instead of the usual config file\n"
	"  --socket PATH           listen on PATH\n"
	"  --workers N|auto        worker processes; auto = by the CPUs that may be used,\n"
	"                          0 = decode inside stokerd, for debugging only\n"
	"  --dataset NAME=PATH     serve the data set at PATH as NAME; may be repeated\n"
	"  --memory SIZE           bound of all batches in memory (K, M, G; default: half of what\n"
	"                          the control group or the machine has)\n"
	"  --index-dir PATH        save the indexes of data sets in PATH, and use them again while the\n"
	"                          data sets are as they were; by default they are made at each start\n"
	"  --sandbox require|auto  require: do not run without the workers' full sandbox\n"
	"  --log-level LEVEL       error, warning, notice, info (default) or debug\n"
	"  --image-timeout SECONDS replace a worker that takes longer for one image (60)\n"
	"  --max-pixels N          refuse larger images (178956970)\n"
	"  --check-config          print the effective configuration and exit\n"
	"  -h, --help              print this help and exit\n"
	"  --version               print the version and exit\n"
	"\n"
	"Config file: " STOKER_SYSCONFDIR
	"/stoker/stokerd.conf for root and the user stoker, else\n"
	"$XDG_CONFIG_HOME/stoker/stokerd.conf. Flags win over the file. SIGHUP reads it again.\n"
	"Socket: /run/stoker/stoker.sock for root and the user stoker, else\n"
	"$XDG_RUNTIME_DIR/stoker/stoker.sock.\n";

static int unknown_option(const char *argument, struct error_text *error)
{
	const char *names[sizeof(options) / sizeof(options[0])], *near;
	size_t count = 0;

	for (; options[count].name != NULL; count++)
		names[count] = options[count].name;
	near = suggest(argument, names, count);
	if (near != NULL)
		return error_set(error, -EINVAL, "unknown option '%s': did you mean '--%s'?",
			escape(argument).text, near);
	return error_set(
		error, -EINVAL, "unknown option '%s'; see 'stokerd --help'", escape(argument).text);
}

static int add_dataset(struct config *config, const char *argument, const char *directory,
	struct error_text *error)
{
	const struct config_source source = {"--dataset", directory, true};
	const char *equals = strchr(argument, '=');

	if (equals == NULL)
		return error_set(error, -EINVAL,
			"--dataset: '%s' is not NAME=PATH, such as train=/data/train",
			escape(argument).text);
	return config_add_dataset(
		config, argument, (size_t)(equals - argument), equals + 1, &source, error);
}

static int set_key(struct config *config, int option, const char *value, const char *directory,
	struct error_text *error)
{
	char where[32];
	const struct config_source source = {where, directory, true};
	const char *key = config_keys[option - OPTION_KEY];

	snprintf(where, sizeof(where), "--%s", key);
	for (char *c = strchr(where, '_'); c != NULL; c = strchr(c, '_'))
		*c = '-';
	return config_set(config, key, &source, value, error);
}

int options_apply(struct config *config, int argc, char **argv, const char *directory,
	const char **config_path, struct error_text *error)
{
	int option, r = 0;

	*config_path = NULL;
	opterr = 0;
	optind = 0; /* start over: the flags are read again on reload */
	while (r == 0 && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case OPTION_CONFIG: *config_path = optarg; break;
		case OPTION_DATASET: r = add_dataset(config, optarg, directory, error); break;
		case OPTION_CHECK: config->check_only = true; break;
		case OPTION_HELP: fputs(help, stdout); return CONFIG_EXIT;
		case OPTION_VERSION: puts("stokerd " STOKER_VERSION); return CONFIG_EXIT;
		case ':':
			return error_set(error, -EINVAL,
				"option '%s' needs a value; see 'stokerd --help'",
				escape(argv[optind - 1]).text);
		case '?':
			if (optopt >= OPTION_CONFIG ||
				(optopt == OPTION_HELP && argv[optind - 1][1] == '-'))
				return error_set(error, -EINVAL, "option '%s' takes no value",
					escape(argv[optind - 1]).text);
			return unknown_option(argv[optind - 1], error);
		default: r = set_key(config, option, optarg, directory, error); break;
		}
	}
	if (r == 0 && optind < argc)
		return error_set(error, -EINVAL,
			"unexpected argument '%s'; data sets are given as --dataset NAME=PATH",
			escape(argv[optind]).text);
	return r;
}
