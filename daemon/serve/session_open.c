/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/session.h"

#include "daemon/serve/open_request.h"
#include "daemon/serve/served_stream.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An Open on its way: it waits for its data set to be indexed, then for its memory to be populated,
 * which happens in a thread of libuv's, and becomes a stream.
 */
struct opening {
	struct dataset_waiter waiter; /* first: callbacks get this pointer */
	uv_work_t work;
	struct session *session; /* NULL when the client is gone while the thread works */
	struct opening *next;
	struct open_request request;
	struct dataset *dataset; /* referenced */
	struct served_stream *stream;
	bool populating;
	int populated; /* 0 or -errno, from the thread */
	atomic_bool cancelled;
};

static void opening_destroy(struct opening *opening)
{
	if (opening->session != NULL) {
		struct opening **link = &opening->session->openings;

		while (*link != opening)
			link = &(*link)->next;
		*link = opening->next;
	}
	dataset_cancel(&opening->waiter);
	if (opening->stream != NULL)
		served_stream_destroy(opening->stream);
	dataset_unref(opening->dataset);
	free(opening);
}

static void fail(struct opening *opening, Stoker__V1__ErrorCode code, const char *text)
{
	struct session *session = opening->session;
	uint32_t request = opening->request.request;

	opening_destroy(opening);
	if (session == NULL)
		return;
	session->stream_count--;
	session_refuse(session, code, request, 0, text);
}

void session_cancel_openings(struct session *session)
{
	struct opening *opening, *next;

	for (opening = session->openings; opening != NULL; opening = next) {
		next = opening->next;
		if (opening->populating) {
			opening->session = NULL; /* on_populated cleans up */
			opening->cancelled = true;
			uv_cancel((uv_req_t *)&opening->work);
		} else {
			opening_destroy(opening);
		}
	}
	session->openings = NULL;
}

/* ---- the last step: the stream exists ---- */

/* enum pixel_dtype has the protocol's numbers. */
_Static_assert((int)PIXEL_U8 == STOKER__V1__DTYPE__DTYPE_U8, "dtype");
_Static_assert((int)PIXEL_F16 == STOKER__V1__DTYPE__DTYPE_F16, "dtype");
_Static_assert((int)PIXEL_BF16 == STOKER__V1__DTYPE__DTYPE_BF16, "dtype");
_Static_assert((int)PIXEL_F32 == STOKER__V1__DTYPE__DTYPE_F32, "dtype");
_Static_assert((int)PIXEL_F64 == STOKER__V1__DTYPE__DTYPE_F64, "dtype");

static int send_opened(
	struct session *session, const struct served_stream *served, uint32_t request, int fd)
{
	const struct stream *stream = &served->stream;
	const struct transform_plan *plan = &stream->source.attach.plan;
	const struct arena_geometry *geometry = &stream->arena.geometry;
	Stoker__V1__Opened opened = STOKER__V1__OPENED__INIT;
	uint32_t nchw[3], nhwc[3];

	transform_row_shape(plan, nchw);
	nhwc[0] = nchw[1];
	nhwc[1] = nchw[2];
	nhwc[2] = nchw[0];
	opened.request = request;
	opened.stream = served->client_id;
	opened.n_shape = 3;
	opened.shape = plan->layout == PIXEL_NCHW ? nchw : nhwc;
	opened.dtype = (Stoker__V1__Dtype)plan->dtype;
	opened.layout = plan->layout == PIXEL_NCHW ? STOKER__V1__LAYOUT__LAYOUT_NCHW
						   : STOKER__V1__LAYOUT__LAYOUT_NHWC;
	opened.payload = served->is_inline ? STOKER__V1__PAYLOAD__PAYLOAD_INLINE
					   : STOKER__V1__PAYLOAD__PAYLOAD_SHARED;
	opened.dataset_samples = stream->params.order.samples;
	opened.epoch_samples = stream->order.length;
	opened.epoch_batches = stream_epoch_batches(&stream->params);
	opened.classes = served->dataset->index.header->classes;
	opened.depth = geometry->slots;
	opened.fingerprint = stream->params.fingerprint;
	opened.row_bytes = geometry->row_bytes;
	if (!served->is_inline) {
		opened.slots = geometry->slots;
		opened.arena_bytes = geometry->bytes;
		opened.slots_offset = geometry->slots_offset;
		opened.slot_stride = geometry->slot_stride;
		opened.tensor_offset = geometry->tensor_offset;
	}
	return session_send(session, &SERVER_MESSAGE(OPENED, opened, &opened), fd);
}

static void become_stream(struct opening *opening)
{
	struct session *session = opening->session;
	struct served_stream *served = opening->stream;
	_cleanup_fd_ int fd = served->is_inline ? -1 : arena_open_readonly(&served->stream.arena);
	uint32_t request = opening->request.request;
	struct error_text error;
	unsigned entry = 0;

	if (fd < 0 && !served->is_inline) {
		error_set(&error, 0, "the shared memory cannot be opened for the client: %s%s",
			strerror(-fd), fd == -ENOENT ? ": is /proc mounted?" : "");
		fail(opening, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, error.text);
		return;
	}
	while (session->streams[entry] != NULL)
		entry++;
	served->client_id = ++session->last_stream_id;
	served->stream.owner = session;
	session->streams[entry] = served;
	if (service_add_stream(session->service, served) < 0) {
		session->streams[entry] = NULL;
		fail(opening, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, "out of memory");
		return;
	}
	opening->stream = NULL;
	opening_destroy(opening);
	if (send_opened(session, served, request, fd) == -EMFILE) {
		session->streams[entry] = NULL;
		session->stream_count--;
		service_drop_stream(served);
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_LIMIT, request, 0,
			"stokerd has no descriptor left for another stream");
		return;
	}
	session_pump(session);
	/* Not before Opened: a job that comes back at once would have its events overtake it. */
	pool_kick(&session->service->pool);
}

/* ---- memory ---- */

static void populate(uv_work_t *work)
{
	struct opening *opening = work->data;

	opening->populated = served_stream_populate(opening->stream, &opening->cancelled);
}

static void on_populated(uv_work_t *work, int status)
{
	struct opening *opening = work->data;
	char text[ERROR_TEXT_MAX];

	opening->populating = false;
	if (opening->session == NULL) {
		opening_destroy(opening);
		return;
	}
	if (status < 0 || opening->populated < 0) {
		snprintf(text, sizeof(text),
			"%" PRIu64
			" bytes of shared memory cannot be had: %s; lower depth or batch size",
			opening->stream->stream.arena.geometry.bytes,
			strerror(status < 0 ? -status : -opening->populated));
		fail(opening, STOKER__V1__ERROR_CODE__ERROR_MEMORY, text);
		return;
	}
	served_stream_ready(opening->stream);
	become_stream(opening);
}

static void proceed(struct opening *opening)
{
	struct error_text error = {""};
	int r = served_stream_create(opening->session->service, &opening->request, opening->dataset,
		&opening->stream, &error);

	if (r != 0) {
		fail(opening, (Stoker__V1__ErrorCode)r, error.text);
		return;
	}
	opening->work.data = opening;
	opening->populating = true;
	r = uv_queue_work(opening->session->service->loop, &opening->work, populate, on_populated);
	if (r < 0) {
		opening->populating = false;
		fail(opening, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, uv_strerror(r));
	}
}

static void on_progress(struct dataset_waiter *waiter, uint64_t samples)
{
	struct opening *opening = (struct opening *)waiter;

	session_send_indexing(opening->session, opening->request.request, samples);
}

static void on_dataset(struct dataset_waiter *waiter)
{
	struct opening *opening = (struct opening *)waiter;
	struct error_text text;

	if (opening->dataset->state == DATASET_STATE_READY) {
		proceed(opening);
		return;
	}
	text = session_dataset_failure(opening->dataset);
	fail(opening, STOKER__V1__ERROR_CODE__ERROR_DATASET, text.text);
}

/* ---- the request comes in ---- */

void session_handle_open(struct session *session, const Stoker__V1__Open *open)
{
	struct error_text error = {""};
	struct dataset *dataset;
	struct opening *opening;
	int r;

	if (session->stream_count >= PROTOCOL_STREAMS_MAX) {
		error_set(&error, 0,
			"this connection has %d streams already; open another connection",
			PROTOCOL_STREAMS_MAX);
		session_refuse(
			session, STOKER__V1__ERROR_CODE__ERROR_LIMIT, open->request, 0, error.text);
		return;
	}
	opening = calloc(1, sizeof(*opening));
	if (opening == NULL) {
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, open->request, 0,
			"out of memory");
		return;
	}
	r = open_request_parse(&opening->request, open, session->takes_fds, &error);
	if (r != 0) {
		free(opening);
		session_refuse(session, (Stoker__V1__ErrorCode)r, open->request, 0, error.text);
		return;
	}
	dataset = session_find_dataset(
		session, open->dataset.data, opening->request.part.dataset_length, open->request);
	if (dataset == NULL) {
		free(opening);
		return;
	}
	opening->session = session;
	opening->next = session->openings;
	session->openings = opening;
	session->stream_count++;
	if (dataset_unsized(dataset) && opening->request.rows != ROW_DIGESTS)
		dataset = catalog_renew(dataset);
	opening->dataset = dataset_ref(dataset);
	opening->waiter.progress = on_progress;
	opening->waiter.done = on_dataset;
	if (dataset->state == DATASET_STATE_READY) {
		proceed(opening);
		return;
	}
	session_send_indexing(session, open->request, dataset->found);
	if (!session->closing)
		dataset_wait(dataset, &opening->waiter);
}
