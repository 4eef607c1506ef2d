/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/cli.h"

#include <sys/types.h>

/*
 * A stokerd of our own, for files that no running daemon serves: it reads no config file, listens in
 * a private directory (mode 0700) and serves one data set, PRIVATE_DATASET. It ends with us, even if
 * we are killed.
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

/* Start it on the data set at `path` (absolute), wait until it listens, and connect: $STOKERD, or the
 * stokerd that lies beside this program, or the one on PATH. Catches signals (cli_catch_signals),
 * which then end it too. CLI_OK, or CLI_FAILED after saying why. Finish it in each case. */
int private_daemon_start(struct private_daemon *daemon, const struct cli *cli, const char *path,
	struct stoker **stoker);

/* Stop it, wait for its end and remove its directory. If it failed, its log goes to stderr. */
void private_daemon_finish(struct private_daemon *daemon);
