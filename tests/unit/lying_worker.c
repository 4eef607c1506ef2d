/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not a test: a stoker-worker that somebody has taken over, for integration tests.
 *
 *   index   claims to hand over a saved index, whatever it was given, and that one is rubbish
 *   render  never does its job, and says in its page that it goes forward
 */
#include "daemon/worker/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void pretend_to_index(void)
{
	struct result result = {.kind = RESULT_INDEXED, .origin = INDEX_REUSED};
	int fd = memfd_create("rubbish", MFD_CLOEXEC), fds[JOB_FDS_MAX];
	struct job_index job;
	unsigned count;

	job_receive(JOB_SOCKET_FD, true, &job, sizeof(job), fds, &count);
	job_send(JOB_SOCKET_FD, &result, sizeof(result), &fd, 1);
}

static void pretend_to_render(void)
{
	const struct result ready = {.kind = RESULT_READY};
	const struct timespec moment = {.tv_nsec = 20000000};
	struct worker_page *page =
		mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, JOB_PAGE_FD, 0);
	int fds[JOB_FDS_MAX];
	unsigned count;
	union job job = {.kind = 0};
	int r;

	if (page == MAP_FAILED || job_send(JOB_SOCKET_FD, &ready, sizeof(ready), NULL, 0) < 0)
		return;
	while (job.kind != JOB_RENDER) {
		if (job_receive(JOB_SOCKET_FD, true, &job, sizeof(job), fds, &count) <= 0)
			return;
	}
	atomic_store(&page->job, job.render.id);
	do {
		atomic_fetch_xor(&page->row, 1);
		nanosleep(&moment, NULL);
		r = job_receive(JOB_SOCKET_FD, false, &job, sizeof(job), fds, &count);
	} while (r > 0 || r == -EAGAIN);
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "index") == 0)
		pretend_to_index();
	else
		pretend_to_render();
	return EXIT_SUCCESS;
}
