/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/stoker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the commands of `stoker` share: command line, exit status, connection. */
enum cli_status {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
	CLI_NO_DAEMON = 3, /* nothing answers at the socket */
	CLI_DONE = 256,    /* from cli_parse only: --help has been printed */
};

struct cli {
	const char *command; /* "status", ... */
	const char *help;    /* whole text for --help */
	const char *socket;  /* --socket, or NULL */
	bool json;           /* --json */
	char **arguments;    /* what is no option; `argument_count` of them */
	int argument_count;
};

enum cli_kind {
	CLI_FLAG,   /* bool */
	CLI_TEXT,   /* const char * */
	CLI_NUMBER, /* uint64_t, min..max */
	CLI_REAL,   /* double, min..max */
	CLI_CHOICE, /* int, the value of a name in `choices` */
};

struct cli_choice {
	const char *name; /* NULL ends the list */
	int value;
};

struct cli_option {
	const char *name; /* without "--"; NULL ends the table */
	char letter;      /* short form, or 0 */
	enum cli_kind kind;
	void *value; /* unchanged when the option is not given */
	uint64_t min, max;
	const struct cli_choice *choices;
	bool *given; /* set when the option is given; may be NULL */
};

extern const struct cli_choice cli_dtypes[], cli_layouts[], cli_payloads[], cli_on_bad_sample[],
	cli_grey16[]; /* bool grey16_clip, as int */

/* The name of a value, or NULL. */
const char *cli_choice_name(const struct cli_choice *choices, int value);

/* Read the command line of one command: `argv` starts after its name. Options may stand anywhere and
 * are taken from `options` and from --socket, --json and --help. Between `arguments_min` and
 * `arguments_max` arguments must remain. CLI_OK, CLI_DONE, or CLI_USAGE after saying what is wrong. */
int cli_parse(struct cli *cli, const struct cli_option *options, int argc, char **argv,
	int arguments_min, int arguments_max);

/* Print "stoker COMMAND: ..." to stderr and return `status`. */
__attribute__((format(printf, 3, 4))) int cli_error(
	const struct cli *cli, int status, const char *format, ...);

/* Connect, or say why not. CLI_OK, CLI_FAILED, CLI_NO_DAEMON; *stoker is the caller's in each case. */
int cli_connect(const struct cli *cli, struct stoker **stoker);

/* Open a stream and show on a terminal that its data set is being indexed. CLI_OK, or CLI_FAILED after
 * saying why. */
int cli_open(const struct cli *cli, struct stoker *stoker, struct stoker_options *options,
	struct stoker_stream **stream);

/* "ToTensor()" for floats and nothing for bytes, where the user gave no --transform. */
const char *cli_default_transforms(enum stoker_dtype dtype);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE set cli_interrupted and, if `child` is a process, end it with
 * SIGTERM. stoker_next must be called with CLI_POLL_MS to notice. */
enum { CLI_POLL_MS = 200 };
void cli_catch_signals(int child);
extern volatile int cli_interrupted; /* the signal, or 0 */

/* The signals do again what they did before, until cli_catch_signals. */
void cli_release_signals(void);

/* Called last: die of the signal that interrupted us, so that a shell sees it; else return `status`. */
int cli_finish(int status);

/* Seconds on a clock that never jumps. */
double cli_now(void);

/* The commands. `argv` starts after the command's name; each returns an exit status. */
int cmd_status(struct cli *cli, int argc, char **argv);
int cmd_datasets(struct cli *cli, int argc, char **argv);
int cmd_dump(struct cli *cli, int argc, char **argv);
int cmd_bench(struct cli *cli, int argc, char **argv);
int cmd_convert(struct cli *cli, int argc, char **argv);
int cmd_check(struct cli *cli, int argc, char **argv);
