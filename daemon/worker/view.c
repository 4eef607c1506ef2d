/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/view.h"

#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* Open what the index calls its root. A failure is kept for the samples: it is their fault, not the
 * worker's. */
static void view_open_source(struct view *view, int *data_fd)
{
	const struct index_header *header = view->index.header;
	char path[PATH_MAX];

	if (header->data_in_memfd) {
		view->source_fd = steal_fd(data_fd);
		return;
	}
	memcpy(path, view->index.blob + header->root_offset, header->root_length);
	path[header->root_length] = '\0';
	view->source_fd = open(path, header->kind == INDEX_IDX ? O_RDONLY | O_NONBLOCK | O_CLOEXEC
							       : O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (view->source_fd < 0)
		view->source_errno = errno;
}

/* The samples that the stream is about. */
static int map_part(
	struct view *view, const struct job_attach *job, int part_fd, struct error_text *error)
{
	uint64_t samples = view->index.header->samples;

	if (job->part_samples != 0)
		return part_map(&view->part, part_fd, job->part_samples, samples, error);
	view->part.count = samples;
	return 0;
}

int view_init_consume_fds(struct view *view, const struct job_attach *job,
	const int fds[JOB_FDS_MAX], struct error_text *error)
{
	_cleanup_fd_ int index_owned = fds[1], data_owned = fds[2], part_owned = fds[3];
	const struct transform_plan *plan = &job->plan;
	int r;

	*view = (struct view)VIEW_NULL;
	view->stream = job->stream;
	view->plan = *plan;
	view->on_bad_sample = job->on_bad_sample;
	view->seed = job->seed;
	r = arena_attach_consume_fd(&view->arena, &job->geometry, fds[0]);
	if (r < 0)
		return error_set(error, r, "the arena does not have the size announced");
	r = index_map(&view->index, index_owned, false, error);
	if (r == 0)
		r = map_part(view, job, part_owned, error);
	if (r == 0 && (!transform_plan_valid(plan) || plan->row_bytes != job->geometry.row_bytes))
		r = error_set(error, -EBADMSG, "the transform plan does not fit the arena");
	if (r == 0 && view->index.header->root_length >= PATH_MAX)
		r = error_set(error, -EBADMSG, "the data set's path is too long");
	if (r == 0 && (view->index.header->data_in_memfd != 0) != (data_owned >= 0))
		r = error_set(error, -EBADMSG, "the index and the descriptors disagree");
	if (r < 0) {
		view_finish(view);
		return r;
	}
	view_open_source(view, &data_owned);
	return 0;
}

void view_finish(struct view *view)
{
	arena_finish(&view->arena);
	part_unmap(&view->part);
	index_unmap(&view->index);
	view->source_fd = close_fd(view->source_fd);
}
