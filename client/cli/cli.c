/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/cli.h"
#include "client/cli/text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

int cli_error(const struct cli *cli, int status, const char *format, ...)
{
	char sentence[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	progress_clear();
	fprintf(stderr, "stoker %s: ", cli->command);
	print_plain(stderr, sentence);
	fputc('\n', stderr);
	return status;
}

int cli_connect(const struct cli *cli, struct stoker **stoker)
{
	char name[32];
	int r;

	snprintf(name, sizeof(name), "stoker %s", cli->command);
	*stoker = stoker_create();
	if (*stoker == NULL)
		return cli_error(cli, CLI_FAILED, "out of memory");
	r = stoker_connect(*stoker, cli->socket, name);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return cli_error(cli, CLI_NO_DAEMON, "%s", stoker_message(*stoker));
	if (r < 0)
		return cli_error(cli, CLI_FAILED, "%s", stoker_message(*stoker));
	return CLI_OK;
}

/* In a log, a line after a second and then one every ten; word comes every second. */
#define INDEXING_FIRST_S 0.8
#define INDEXING_NEXT_S  9.8

static void show_indexing(uint64_t samples, void *data)
{
	const struct cli *cli = data;
	static double due;
	double now = cli_now();

	progress_show("indexing, %" PRIu64 " images so far", samples);
	if (progress_on_terminal())
		return;
	if (due != 0 && now >= due)
		fprintf(stderr, "stoker %s: indexing, %" PRIu64 " images so far\n", cli->command,
			samples);
	if (due == 0 || now >= due)
		due = now + (due == 0 ? INDEXING_FIRST_S : INDEXING_NEXT_S);
}

int cli_open(const struct cli *cli, struct stoker *stoker, struct stoker_options *options,
	struct stoker_stream **stream)
{
	int r;

	options->indexing = show_indexing;
	options->indexing_data = (void *)cli;
	r = stoker_open(stoker, options, stream);
	progress_clear();
	if (r < 0 && cli_interrupted)
		return CLI_FAILED;
	if (r < 0)
		return cli_error(cli, CLI_FAILED, "%s", stoker_message(stoker));
	return CLI_OK;
}

const char *cli_default_transforms(enum stoker_dtype dtype)
{
	return dtype == STOKER_U8 ? NULL : "ToTensor()";
}

volatile int cli_interrupted;
static volatile int child_to_end;

static void on_signal(int signal)
{
	int saved = errno;

	cli_interrupted = signal;
	if (child_to_end > 0)
		kill(child_to_end, SIGTERM);
	errno = saved;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

void cli_release_signals(void)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;

		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == on_signal)
			signal(signals[i], SIG_DFL);
	}
}

void cli_catch_signals(int child)
{
	struct sigaction action = {.sa_handler = on_signal};

	child_to_end = child;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;

		/* What nohup or a shell in the background ignores stays ignored. */
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

int cli_finish(int status)
{
	if ((fflush(stdout) != 0 || ferror(stdout)) && cli_interrupted != SIGPIPE) {
		perror("stoker: standard output");
		status = CLI_FAILED;
	}
	if (cli_interrupted != 0) {
		signal(cli_interrupted, SIG_DFL);
		raise(cli_interrupted);
	}
	return status;
}

double cli_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
