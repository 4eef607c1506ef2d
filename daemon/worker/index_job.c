/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/index_job.h"

#include "daemon/data/saved_index.h"
#include "daemon/util/ownership.h"
#include "daemon/worker/job.h"

#include <errno.h>
#include <string.h>
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

/* Receive the record that says what there is to reuse and to save into; -1 where there is nothing. */
static int receive_job(int socket_fd, int *saved_fd, int *save_fd)
{
	int fds[JOB_FDS_MAX] = {-1, -1, -1, -1};
	struct job_index job;
	unsigned count;
	int size = job_receive(socket_fd, true, &job, sizeof(job), fds, &count);

	if (size < 0)
		return size;
	if (size != sizeof(job) || job.kind != JOB_INDEX || job.has_saved > 1 || job.has_save > 1 ||
		count != job.has_saved + job.has_save)
		return -EBADMSG;
	*saved_fd = job.has_saved != 0 ? fds[0] : -1;
	*save_fd = job.has_save != 0 ? fds[job.has_saved] : -1;
	return 0;
}

/* Is there a saved index, and does it still match? Else `why` says why not. */
static bool reuse(int saved_fd, uint64_t key, struct dataset_result *built, struct error_text *why)
{
	int r;

	if (saved_fd < 0)
		return false;
	r = saved_index_read(saved_fd, key, &built->index_fd, why);
	if (r < 0)
		error_set(why, r, "%s", strerror(-r));
	return r == 0;
}

/* Save the index if it can be relied on later. Else `why` says why not. */
static bool save(int save_fd, uint64_t key, const struct witness_list *witnesses,
	const struct dataset_result *built, struct error_text *why)
{
	int r;

	if (save_fd < 0)
		return false;
	if (built->data_fd >= 0)
		return error_set(why, false, "gunzip the images to have that");
	if (witnesses->young)
		return error_set(why, false, "%s has changed within the last 2 seconds",
			witnesses->last.text);
	if (witnesses->incomplete)
		return error_set(why, false, "too many directories");
	r = saved_index_write(save_fd, key, witnesses, built->index_fd);
	if (r < 0)
		error_set(why, r, "%s", strerror(-r));
	return r == 0;
}

/* What stokerd is to log about an index: why one was not used, and why none is saved. */
static void say(
	struct error_text *note, const struct error_text *unused, const struct error_text *unsaved)
{
	error_set(note, 0, "%s%.200s%s%s%.200s",
		unused->text[0] != '\0' ? "the saved index is not used: " : "", unused->text,
		unused->text[0] != '\0' && unsaved->text[0] != '\0' ? "; " : "",
		unsaved->text[0] != '\0' ? "the index is not saved: " : "", unsaved->text);
}

static int send_index(int socket_fd, const struct dataset_result *built, struct result *result)
{
	int fds[2] = {built->index_fd, built->data_fd};

	result->kind = RESULT_INDEXED;
	return job_send(socket_fd, result, sizeof(*result), fds, built->data_fd >= 0 ? 2 : 1);
}

int index_job_run(int socket_fd, const char *path, const struct dataset_options *options,
	const char *const *roots, uint64_t max_memory, uint64_t max_pixels)
{
	struct progress progress = {.socket_fd = socket_fd};
	struct witness_list witnesses = WITNESS_LIST_NULL;
	struct dataset_request request = {
		.path = path,
		.options = *options,
		.max_memory = max_memory,
		.max_pixels = max_pixels,
		.progress = send_progress,
		.progress_data = &progress,
	};
	struct dataset_result built = {.index_fd = -1, .data_fd = -1};
	struct result result = {.kind = RESULT_FAILED, .origin = INDEX_REUSED};
	_cleanup_fd_ int saved_fd = -1, save_fd = -1;
	struct error_text unused = {""}, unsaved = {""};
	size_t root_count = 0;
	uint64_t key;
	int r = receive_job(socket_fd, &saved_fd, &save_fd);

	if (r < 0)
		return r;
	while (roots[root_count] != NULL)
		root_count++;
	key = saved_index_key(&request, roots, root_count);
	if (save_fd >= 0)
		request.witnesses = &witnesses;
	if (!reuse(saved_fd, key, &built, &unused)) {
		r = dataset_open(&request, &built, &result.reason);
		result.origin = INDEX_BUILT;
		if (r == 0 && save(save_fd, key, &witnesses, &built, &unsaved))
			result.origin = INDEX_BUILT_AND_SAVED;
	}
	if (r == 0) {
		say(&result.reason, &unused, &unsaved);
		r = send_index(socket_fd, &built, &result);
	} else {
		r = job_send(socket_fd, &result, sizeof(result), NULL, 0);
	}
	witness_list_finish(&witnesses);
	close_fd(built.index_fd);
	close_fd(built.data_fd);
	return r;
}
