/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/cli.h"

#include <sys/types.h>

/*
 * A stokerd of our own, for files that no running daemon serves: it reads no config file but one of
 * ours, and listens in a private directory (mode 0700). It ends with us, even if we are killed.
 *
 *   private_daemon_prepare(&daemon, cli)            daemon.directory may be filled
 *   private_daemon_start(&daemon, cli, ...)
 *   private_daemon_finish(&daemon)                  in each case
 */
#define PRIVATE_DATASET "source"

struct private_daemon {
	pid_t pid;       /* -1 = none */
	int pidfd;       /* readable when it has ended */
	int log;         /* a memfd with what it wrote */
	char *directory; /* "/run/user/1000/stoker-XXXXXX" */
	char *socket;    /* below it */
};

#define PRIVATE_DAEMON_NULL                                                                        \
	{                                                                                          \
		.pid = -1, .pidfd = -1, .log = -1                                                  \
	}

/* Make its directory, and catch signals from now on (cli_catch_signals). CLI_OK, or CLI_FAILED after
 * saying why. */
int private_daemon_prepare(struct private_daemon *daemon, const struct cli *cli);

/* Start it with `arguments` (up to NULL) besides its socket, wait until it listens, and connect:
 * $STOKERD, or the stokerd that lies beside this program, or the one on PATH. Signals then end it too.
 * CLI_OK, or CLI_FAILED after saying why. */
int private_daemon_start(struct private_daemon *daemon, const struct cli *cli,
	const char *const arguments[], struct stoker **stoker);

/* Both, on the data set PRIVATE_DATASET at `path` (absolute). */
int private_daemon_serve(struct private_daemon *daemon, const struct cli *cli, const char *path,
	struct stoker **stoker);

/* Stop it, wait for its end and remove its directory. If it failed, its log goes to stderr. */
void private_daemon_finish(struct private_daemon *daemon);
