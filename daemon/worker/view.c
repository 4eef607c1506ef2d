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

int view_init_consume_fds(struct view *view, uint32_t stream, const struct transform_plan *plan,
	const struct arena_geometry *geometry, int arena_fd, int index_fd, int data_fd,
	struct error_text *error)
{
	_cleanup_fd_ int index_owned = index_fd, data_owned = data_fd;
	int r;

	*view = (struct view)VIEW_NULL;
	view->stream = stream;
	view->plan = *plan;
	r = arena_attach_consume_fd(&view->arena, geometry, arena_fd);
	if (r < 0)
		return error_set(error, r, "the arena does not have the size announced");
	r = index_map(&view->index, index_owned, false, error);
	if (r == 0 && (!transform_plan_valid(plan) || plan->row_bytes != geometry->row_bytes))
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
	index_unmap(&view->index);
	view->source_fd = close_fd(view->source_fd);
}
