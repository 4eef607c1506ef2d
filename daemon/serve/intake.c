/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/intake.h"

#include "daemon/util/ownership.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct intake {
	uv_work_t work;
	char *path;
	struct index_store store;
	struct intake_result result;
	void (*done)(struct intake_result *result, void *data); /* NULL: nobody wants it */
	void *data;
};

/* Is the index about the path that was asked for? A folder is that path; an IDX file is that path, or
 * stands directly in it; of a manifest the root is the folder that it lies in; archives are that path,
 * or lie in it or beside it. */
static bool index_belongs(const struct index *index, const char *asked_for)
{
	const struct index_header *header = index->header;
	const char *root = (const char *)index->blob + header->root_offset;
	size_t path = strlen(asked_for), length = header->root_length, parent;

	while (path > 1 && asked_for[path - 1] == '/')
		path--;
	for (parent = path; parent > 1 && asked_for[parent - 1] != '/'; parent--) {
	}
	if (parent > 1)
		parent--;
	if (header->kind == INDEX_MANIFEST || (header->kind == INDEX_TAR && length != path))
		return length == parent && memcmp(root, asked_for, parent) == 0;
	if (length < path || memcmp(root, asked_for, path) != 0)
		return false;
	for (; length > path && root[path] == '/'; path++) {
	}
	if (length == path)
		return true;
	return header->kind == INDEX_IDX && memchr(root + path, '/', length - path) == NULL &&
	       root[path - 1] == '/';
}

static int check_index(struct intake *intake)
{
	struct intake_result *result = &intake->result;
	struct index *index = &result->index;
	int r = index_map(index, result->index_fd, true, &result->error);

	if (r < 0)
		return r;
	if ((index->header->data_in_memfd != 0) == (result->data_fd >= 0) &&
		index_belongs(index, intake->path))
		return 0;
	index_unmap(index);
	return error_set(&result->error, -EBADMSG, "the index is not about this data set");
}

static void work(uv_work_t *request)
{
	struct intake *intake = request->data;
	struct intake_result *result = &intake->result;

	result->checked = check_index(intake);
	if (result->checked == 0 && result->origin == INDEX_BUILT_AND_SAVED) {
		result->kept = index_store_keep(&intake->store);
		if (result->kept < 0)
			result->origin = INDEX_BUILT;
	}
	index_store_finish(&intake->store);
}

static void drop(struct intake_result *result)
{
	index_unmap(&result->index);
	result->index_fd = close_fd(result->index_fd);
	result->data_fd = close_fd(result->data_fd);
}

static void after_work(uv_work_t *request, int status)
{
	struct intake *intake = request->data;
	struct intake_result result = intake->result;
	void (*done)(struct intake_result *, void *) = intake->done;
	void *data = intake->data;

	if (status < 0) { /* cancelled: the thread has not seen it */
		index_store_finish(&intake->store);
		result.checked = error_set(&result.error, status, "%s", uv_strerror(status));
	}
	free(intake->path);
	free(intake);
	if (done == NULL || result.checked < 0)
		drop(&result);
	if (done != NULL)
		done(&result, data);
}

struct intake *intake_start_consume(uv_loop_t *loop, const char *path, int index_fd, int data_fd,
	enum index_origin origin, struct index_store *store,
	void (*done)(struct intake_result *result, void *data), void *data)
{
	struct intake *intake = calloc(1, sizeof(*intake));
	char *copy = strdup(path);

	if (intake == NULL || copy == NULL)
		goto fail;
	*intake = (struct intake){
		.work.data = intake,
		.path = copy,
		.store = *store,
		.result = {.index_fd = index_fd, .data_fd = data_fd, .origin = origin},
		.done = done,
		.data = data,
	};
	if (uv_queue_work(loop, &intake->work, work, after_work) < 0)
		goto fail;
	*store = (struct index_store)INDEX_STORE_NULL;
	return intake;
fail:
	index_store_finish(store);
	close_fd(index_fd);
	close_fd(data_fd);
	free(copy);
	free(intake);
	return NULL;
}

/* An index that nobody uses any more. */
struct leftover {
	uv_work_t work;
	struct intake_result result;
};

static void release(uv_work_t *request)
{
	drop(&((struct leftover *)request->data)->result);
}

static void after_release(uv_work_t *request, int status)
{
	(void)status;
	free(request->data);
}

void intake_release_consume(uv_loop_t *loop, struct index *index, int index_fd, int data_fd)
{
	struct leftover *leftover = calloc(1, sizeof(*leftover));
	struct intake_result result = {.index = *index, .index_fd = index_fd, .data_fd = data_fd};

	*index = (struct index){.header = NULL};
	if (leftover != NULL) {
		leftover->work.data = leftover;
		leftover->result = result;
		if (loop != NULL &&
			uv_queue_work(loop, &leftover->work, release, after_release) == 0)
			return;
	}
	drop(&result);
	free(leftover);
}

void intake_abandon(struct intake *intake)
{
	if (intake == NULL)
		return;
	intake->done = NULL;
	uv_cancel((uv_req_t *)&intake->work);
}
