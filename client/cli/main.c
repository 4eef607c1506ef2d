/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/cli.h"
#include "client/cli/suggest.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(struct cli *cli, int argc, char **argv);
} commands[] = {
	{"status", cmd_status},
	{"datasets", cmd_datasets},
	{"dump", cmd_dump},
	{"bench", cmd_bench},
	{"check", cmd_check},
	{"convert", cmd_convert},
};

static const char help[] =
	"Usage: stoker COMMAND [OPTION]...\n"
	"\n"
	"Look at a running stokerd, and work with its data sets.\n"
	"\n"
	"  status             what the daemon is doing: workers, streams, memory\n"
	"  datasets           the data sets that it serves, or the classes and samples of one\n"
	"  dump DATASET       write the batches of one epoch as NumPy files\n"
	"  bench DATASET      measure how fast batches come\n"
	"  check WHAT...      decode every image of data sets, folders or files; name the bad ones\n"
	"  convert SRC DEST   write a data set as PNG files in class folders\n"
	"\n"
	"  --socket PATH      talk to the daemon at PATH (default: $STOKER_SOCKET, else\n"
	"                     $XDG_RUNTIME_DIR/stoker/stoker.sock, else /run/stoker/stoker.sock)\n"
	"  --json             print JSON instead of text\n"
	"  -h, --help         help, also after a command\n"
	"  --version          print the version and exit\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage, 3 no daemon answers at the socket.\n";

static int unknown_command(const char *name)
{
	struct suggestion suggestion = suggestion_for(name);

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		suggestion_try(&suggestion, commands[i].name);
	if (suggestion.nearest != NULL)
		fprintf(stderr, "stoker: unknown command '%s': did you mean '%s'?\n", name,
			suggestion.nearest);
	else
		fprintf(stderr, "stoker: unknown command '%s'; see 'stoker --help'\n", name);
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	struct cli cli = {.command = ""};
	int first = 1;

	/* --socket and --json may also stand before the command. */
	for (; first < argc && argv[first][0] == '-'; first++) {
		if (strcmp(argv[first], "--json") == 0) {
			cli.json = true;
		} else if (strncmp(argv[first], "--socket=", 9) == 0) {
			cli.socket = argv[first] + 9;
		} else if (strcmp(argv[first], "--socket") == 0 && first + 1 < argc) {
			cli.socket = argv[++first];
		} else if (strcmp(argv[first], "--help") == 0 || strcmp(argv[first], "-h") == 0) {
			fputs(help, stdout);
			return cli_finish(CLI_OK);
		} else if (strcmp(argv[first], "--version") == 0) {
			printf("stoker %s\n", stoker_version());
			return cli_finish(CLI_OK);
		} else {
			fprintf(stderr,
				"stoker: unknown option '%s' before a command; see 'stoker --help'\n",
				argv[first]);
			return CLI_USAGE;
		}
	}
	if (first == argc) {
		fputs(help, stderr);
		return CLI_USAGE;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[first], commands[i].name) == 0) {
			cli.command = commands[i].name;
			return cli_finish(
				commands[i].run(&cli, argc - first - 1, argv + first + 1));
		}
	}
	return unknown_command(argv[first]);
}
