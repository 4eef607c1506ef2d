/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/private_daemon.h"
#include "client/cli/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LISTEN_MS = 10000, /* how long it may take until it listens */
	RETRY_MS = 5,
	STOP_MS = 5000, /* stokerd promises to be gone within 2 s of SIGTERM */
	SOCKET_PATH_MAX = 107,
};

/* Find the program: an absolute path, or "stokerd" to be searched on PATH. */
static void find_program(char path[PATH_MAX])
{
	/* As installed, and as built. */
	static const char *const places[] = {"stokerd", "../sbin/stokerd", "../../daemon/stokerd"};
	const char *asked_for = getenv("STOKERD");
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (asked_for != NULL && asked_for[0] != '\0') {
		snprintf(path, PATH_MAX, "%s", asked_for);
		return;
	}
	self[length > 0 ? length : 0] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
		int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - self), self, places[i]);

		if (n < PATH_MAX && access(path, X_OK) == 0)
			return;
	}
	strcpy(path, "stokerd");
}

static int make_directory(struct private_daemon *daemon)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *places[] = {runtime, "/tmp"};

	for (size_t i = 0; i < 2; i++) {
		/* Paths below it are written into a config file. */
		if (places[i] == NULL || places[i][0] != '/' || strpbrk(places[i], "\\;\n\r\t "))
			continue;
		if (asprintf(&daemon->directory, "%s/stoker-XXXXXX", places[i]) < 0) {
			daemon->directory = NULL;
			return -ENOMEM;
		}
		if (strlen(daemon->directory) + strlen("/s") <= SOCKET_PATH_MAX &&
			mkdtemp(daemon->directory) != NULL)
			return asprintf(&daemon->socket, "%s/s", daemon->directory) < 0 ? -ENOMEM
											: 0;
		free(daemon->directory);
		daemon->directory = NULL;
	}
	return -errno;
}

/* Whoever started us as a service hears of us, not of stokerd, and its sockets are not for stokerd. */
static void leave_service(void)
{
	static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
		"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

/* In the child: become stokerd, or leave errno in `report`, which closes on success. */
static _Noreturn void become_daemon(
	const char *program, const char *const arguments[], pid_t parent, int log, int report)
{
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	/* The terminal's ^C is for us; we stop it in our own time. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	leave_service();
	if (getppid() == parent) {
		int reason;

		execvp(program, (char *const *)arguments);
		reason = errno;
		if (write(report, &reason, sizeof(reason)) < 0) {
		}
	}
	_exit(127);
}

static int spawn(struct private_daemon *daemon, const struct cli *cli, const char *const further[])
{
	enum { FIRST = 5, FURTHER_MAX = 64 };
	const char *arguments[FIRST + FURTHER_MAX + 1] = {
		"stokerd", "--socket", daemon->socket, "--log-level", "warning"};
	char program[PATH_MAX];
	pid_t parent = getpid();
	int report[2], reason = 0;

	for (size_t i = 0; further[i] != NULL && i < FURTHER_MAX; i++)
		arguments[FIRST + i] = further[i];
	find_program(program);
	if (pipe2(report, O_CLOEXEC) < 0)
		return cli_error(cli, CLI_FAILED, "pipe: %s", strerror(errno));
	daemon->pid = fork();
	if (daemon->pid == 0)
		become_daemon(program, arguments, parent, daemon->log, report[1]);
	close(report[1]);
	if (daemon->pid < 0)
		reason = errno;
	else if (read(report[0], &reason, sizeof(reason)) <= 0)
		reason = 0;
	close(report[0]);
	if (reason != 0)
		return cli_error(cli, CLI_FAILED,
			"cannot start %s: %s (the variable STOKERD can name another)", program,
			strerror(reason));
	daemon->pidfd = (int)syscall(SYS_pidfd_open, daemon->pid, 0);
	if (daemon->pidfd < 0)
		return cli_error(cli, CLI_FAILED, "pidfd_open: %s", strerror(errno));
	return CLI_OK;
}

/* Clients are told what goes wrong with a data set; its log is for when it goes wrong itself. */
static void show_log(const struct private_daemon *daemon)
{
	char bytes[4096];
	off_t offset = 0;
	ssize_t n;

	while ((n = pread(daemon->log, bytes, sizeof(bytes), offset)) > 0) {
		fwrite(bytes, 1, (size_t)n, stderr);
		offset += n;
	}
}

static bool wait_end(const struct private_daemon *daemon, int timeout_ms)
{
	struct pollfd end = {.fd = daemon->pidfd, .events = POLLIN};
	double until = cli_now() + timeout_ms / 1000.0;
	int n;

	while ((n = poll(&end, 1, timeout_ms)) < 0 && errno == EINTR)
		timeout_ms = cli_now() < until ? (int)((until - cli_now()) * 1000) + 1 : 0;
	return n > 0;
}

static int connect_to(
	const struct private_daemon *daemon, const struct cli *cli, struct stoker **stoker)
{
	double until = cli_now() + LISTEN_MS / 1000.0;
	char name[32];
	int r;

	*stoker = stoker_create();
	if (*stoker == NULL)
		return cli_error(cli, CLI_FAILED, "out of memory");
	snprintf(name, sizeof(name), "stoker %s", cli->command);
	while ((r = stoker_connect(*stoker, daemon->socket, name)) == -ENOENT ||
		r == -ECONNREFUSED) {
		if (wait_end(daemon, RETRY_MS) || cli_now() > until)
			break;
	}
	if (r == 0)
		return CLI_OK;
	if (cli_interrupted)
		return CLI_FAILED;
	if (wait_end(daemon, 0))
		return cli_error(cli, CLI_FAILED, "stokerd could not start:");
	return cli_error(cli, CLI_FAILED, "stokerd: %s", stoker_message(*stoker));
}

int private_daemon_prepare(struct private_daemon *daemon, const struct cli *cli)
{
	int r;

	cli_catch_signals(0);
	r = make_directory(daemon);
	if (r < 0)
		return cli_error(cli, CLI_FAILED,
			"no directory for a private socket below $XDG_RUNTIME_DIR or /tmp: %s",
			strerror(-r));
	return CLI_OK;
}

int private_daemon_start(struct private_daemon *daemon, const struct cli *cli,
	const char *const arguments[], struct stoker **stoker)
{
	int r;

	daemon->log = memfd_create("stokerd log", MFD_CLOEXEC);
	r = spawn(daemon, cli, arguments);
	if (r != CLI_OK)
		return r;
	cli_catch_signals(daemon->pid);
	/* A signal that came before has not reached it. */
	return cli_interrupted ? CLI_FAILED : connect_to(daemon, cli, stoker);
}

int private_daemon_serve(struct private_daemon *daemon, const struct cli *cli, const char *path,
	struct stoker **stoker)
{
	char dataset[PATH_MAX + 16];
	const char *const arguments[] = {"--config", "/dev/null", "--dataset", dataset, NULL};
	int r = private_daemon_prepare(daemon, cli);

	snprintf(dataset, sizeof(dataset), "%s=%s", PRIVATE_DATASET, path);
	return r == CLI_OK ? private_daemon_start(daemon, cli, arguments, stoker) : r;
}

void private_daemon_finish(struct private_daemon *daemon)
{
	int status = 0;

	if (daemon->pid > 0) {
		cli_catch_signals(0);
		kill(daemon->pid, SIGTERM);
		if (daemon->pidfd >= 0 && !wait_end(daemon, STOP_MS))
			kill(daemon->pid, SIGKILL);
		while (waitpid(daemon->pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status != 0 && !cli_interrupted)
			show_log(daemon);
	}
	if (daemon->pidfd >= 0)
		close(daemon->pidfd);
	if (daemon->log >= 0)
		close(daemon->log);
	if (daemon->directory != NULL)
		tree_remove(daemon->directory);
	free(daemon->directory);
	free(daemon->socket);
	*daemon = (struct private_daemon)PRIVATE_DAEMON_NULL;
}
