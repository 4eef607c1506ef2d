/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/dataset.h"
#include "daemon/util/log.h"
#include "daemon/util/ownership.h"
#include "daemon/util/sanitized.h"
#include "daemon/worker/index_job.h"
#include "daemon/worker/job.h"
#include "daemon/worker/render_loop.h"
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/*
 * stoker-worker is started by stokerd only:
 *
 *   stoker-worker render SANDBOX ROOT...              socket on fd 3, struct worker_page on fd 4
 *   stoker-worker index  SANDBOX MAX_MEMORY MAX_PIXELS OPTIONS PATH ROOT...  socket on fd 3
 *
 * SANDBOX is "require" or "auto". OPTIONS are those of dataset_options_dup_text(). Data
 * sets may be read below PATH and the ROOTs.
 */

/* Private memory of a worker: the largest picture that is allowed, as RGB, its file, and room. Shared
 * maps do not count, so streams do not. */
#define WORKER_DATA_MAX (UINT64_C(1536) << 20)

/* Any file that an index worker writes, the one to save an index into among them; or what unpacked data
 * may take, if that is more. */
#define INDEX_FILE_MAX (UINT64_C(4) << 30)

static void set_limit(int resource, rlim_t value)
{
	struct rlimit limit = {.rlim_cur = value, .rlim_max = value};

	setrlimit(resource, &limit);
}

/* Before the sandbox: what a worker is to the rest of the machine. */
static void settle_in(unsigned first_unused_fd)
{
	struct ucred maker;
	int fd;

	/* No process outlives the daemon. It may have died before this call: the socket knows who made
	 * it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getsockopt(JOB_SOCKET_FD, SOL_SOCKET, SO_PEERCRED, &maker,
		    &(socklen_t){sizeof(maker)}) < 0 ||
		getppid() != maker.pid)
		_exit(WORKER_EXIT_OK);
	set_limit(RLIMIT_CORE, 0);
	if (!SANITIZED)
		set_limit(RLIMIT_DATA, WORKER_DATA_MAX);
	/* When memory runs out, a worker is the cheapest process to lose: its rows are rendered again. */
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "500", 3) < 0)
		log_debug("oom_score_adj: %s", strerror(errno));
	close_fd(fd);
	/* What a terminal sends to everybody is for the daemon, which then closes the socket. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* Whatever stokerd itself inherited from elsewhere is not for us. */
	close_range(first_unused_fd, ~0U, 0);
}

/* stderr is stokerd's: whoever takes over a worker could forge its log, or fill it. What a worker has
 * to say goes through its socket. Reports of sanitizers are wanted, though. Returns a copy. */
static int hide_stderr(void)
{
	int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (!SANITIZED && nowhere >= 0) {
		dup2(nowhere, STDOUT_FILENO);
		dup2(nowhere, STDERR_FILENO);
	}
	close_fd(nowhere);
	return copy;
}

static int sandbox(const char *mode, char **roots, bool indexing, uint32_t *active)
{
	struct sandbox_request request = {
		.roots = (const char *const *)roots,
		.indexing = indexing,
		.require = strcmp(mode, "require") == 0,
	};
	int stderr_copy = hide_stderr();
	struct error_text error;
	int r;

	while (roots[request.root_count] != NULL)
		request.root_count++;
	r = sandbox_enter(&request, &error);
	if (r < 0) {
		dup2(stderr_copy, STDERR_FILENO);
		log_error("%s", error.text);
		return r;
	}
	close_fd(stderr_copy);
	*active = (uint32_t)r;
	return 0;
}

int main(int argc, char **argv)
{
	bool indexing = argc >= 2 && strcmp(argv[1], "index") == 0;
	struct dataset_options options;
	uint32_t active = 0;
	int r;

	log_open("stoker-worker", LOG_LEVEL_INFO);
	if (argc < (indexing ? 7 : 3) || (indexing && !dataset_options_parse(argv[5], &options)) ||
		fcntl(JOB_SOCKET_FD, F_GETFD) < 0) {
		fprintf(stderr, "stoker-worker is started by stokerd, not by hand\n");
		return WORKER_EXIT_FAILED;
	}
	settle_in(indexing ? JOB_SOCKET_FD + 1 : JOB_PAGE_FD + 1);
	if (indexing) {
		uint64_t max_memory = strtoull(argv[3], NULL, 10);

		set_limit(RLIMIT_FSIZE, max_memory > INDEX_FILE_MAX ? max_memory : INDEX_FILE_MAX);
		if (sandbox(argv[2], argv + 6, true, &active) < 0)
			return WORKER_EXIT_SANDBOX;
		r = index_job_run(JOB_SOCKET_FD, argv[6], &options, (const char *const *)argv + 7,
			max_memory, strtoull(argv[4], NULL, 10));
	} else {
		struct render_loop loop = RENDER_LOOP_NULL;

		r = render_loop_init(&loop, JOB_SOCKET_FD, JOB_PAGE_FD);
		if (r == 0 && sandbox(argv[2], argv + 3, false, &active) < 0)
			return WORKER_EXIT_SANDBOX;
		if (r == 0)
			r = render_loop_run(&loop, active);
		render_loop_finish(&loop);
	}
	if (r < 0) {
		log_error("%s", strerror(-r));
		return WORKER_EXIT_FAILED;
	}
	return WORKER_EXIT_OK;
}
