/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/index_job.h"

#include "daemon/image/decode.h"
#include "daemon/util/ownership.h"
#include "daemon/worker/job.h"

#include <errno.h>
#include <time.h>

struct progress {
	int socket_fd;
	uint64_t last_ms;
};

static void send_progress(uint64_t samples, void *data)
{
	struct progress *progress = data;
	struct result result = {.kind = RESULT_PROGRESS, .samples = samples};
	struct timespec now;
	uint64_t ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (ms - progress->last_ms < 200)
		return;
	progress->last_ms = ms;
	/* Progress is a courtesy: if it cannot be sent, the result will not go through either. */
	job_send(progress->socket_fd, &result, sizeof(result), NULL, 0);
}

int index_job_run(
	int socket_fd, const char *path, const struct dataset_options *options, uint64_t max_memory)
{
	struct progress progress = {.socket_fd = socket_fd};
	struct dataset_request request = {
		.path = path,
		.options = *options,
		.max_memory = max_memory,
		.max_pixels = DECODE_MAX_PIXELS,
		.progress = send_progress,
		.progress_data = &progress,
	};
	struct dataset_result built = {.index_fd = -1, .data_fd = -1};
	struct result result = {.kind = RESULT_INDEXED};
	int r = dataset_open(&request, &built, &result.reason);
	int fds[2] = {built.index_fd, built.data_fd};

	if (r != 0) {
		result.kind = RESULT_FAILED;
		r = job_send(socket_fd, &result, sizeof(result), NULL, 0);
	} else {
		r = job_send(socket_fd, &result, sizeof(result), fds, built.data_fd >= 0 ? 2 : 1);
	}
	close_fd(built.index_fd);
	close_fd(built.data_fd);
	return r;
}
