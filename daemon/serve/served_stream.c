/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/served_stream.h"

#include "daemon/image/decode/decode.h"
#include "daemon/image/decode/exif.h"
#include "daemon/util/checked.h"
#include "daemon/util/escape.h"
#include "daemon/util/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEPTH_DEFAULT = 8,
	DEPTH_DEFAULT_MIN = 2,
};

/* Without a wish of the client's, the arena stays below this many bytes. */
#define ARENA_DEFAULT_BYTES (UINT64_C(256) << 20)

/* How many slots: the client's wish, or what fits a sensible size. With --workers 0 nothing is made
 * ahead of the client, so there is one. */
static uint32_t choose_depth(
	const struct service *service, const struct open_request *request, uint64_t batch_bytes)
{
	uint32_t depth = request->depth;

	if (service->pool.target == 0)
		return 1;
	if (depth != 0)
		return depth;
	depth = DEPTH_DEFAULT;
	while (depth > DEPTH_DEFAULT_MIN && batch_bytes > ARENA_DEFAULT_BYTES / depth)
		depth--;
	return depth;
}

/* What the daemon keeps of batches besides their arena: why rows are bad, where that does not end the
 * stream; and an inline batch is copied once more, into the queue of its socket. */
static uint64_t memory_beside_arena(
	const struct open_request *request, uint64_t depth, uint64_t batch_bytes)
{
	uint64_t rows = request->params.batch_size;

	if (rows > PROTOCOL_BAD_ROWS_MAX)
		rows = PROTOCOL_BAD_ROWS_MAX;
	if (request->params.on_bad_sample == BAD_SAMPLE_ERROR)
		rows = 0;
	return depth * rows * BAD_ROW_MEMORY + (request->is_inline ? batch_bytes : 0);
}

/* Take the memory: 0 or an error code with a sentence. */
static int make_arena(struct served_stream *served, const struct open_request *request,
	uint64_t row_bytes, struct arena *arena, struct error_text *error)
{
	struct budget *budget = &served->service->budget;
	uint32_t batch_size = request->params.batch_size;
	struct arena_geometry geometry;
	uint64_t batch_bytes, charge;
	uint32_t depth;

	if (!checked_mul(row_bytes, batch_size, &batch_bytes))
		batch_bytes = UINT64_MAX;
	/* Labels, sample numbers and status take at most 21 bytes a row, the rest of the message 256. */
	if (request->is_inline &&
		batch_bytes > FRAME_INLINE_MAX - 256 -
				      PROTOCOL_BAD_ROWS_MAX * PROTOCOL_BAD_ROW_BYTES -
				      21 * (uint64_t)batch_size)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_LIMIT,
			"a batch of %" PRIu64
			" bytes is too large for inline payload (%d bytes): use "
			"shared payload or a smaller batch size",
			batch_bytes, FRAME_INLINE_MAX);
	depth = choose_depth(served->service, request, batch_bytes);
	if (arena_geometry_init(&geometry, depth, batch_size, row_bytes) < 0)
		geometry.bytes = UINT64_MAX;
	if (!checked_add(geometry.bytes, memory_beside_arena(request, depth, batch_bytes), &charge))
		charge = UINT64_MAX;
	if (!budget_take(budget, charge))
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_MEMORY,
			"this stream needs %" PRIu64 " bytes of memory (%u batches of %u samples), "
			"but only %" PRIu64 " of %" PRIu64
			" are left: lower depth or batch size, or raise "
			"memory in the daemon's configuration",
			charge, depth, batch_size, budget_left(budget), budget->limit);
	if (arena_create(arena, &geometry) < 0) {
		budget_give(budget, charge);
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_MEMORY,
			"shared memory cannot be made: %s", strerror(errno));
	}
	served->charged = charge;
	return 0;
}

static int check_order(const struct stream_params *params, struct error_text *error)
{
	if (params->order.samples > ORDER_SAMPLES_MAX)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST,
			"the data set has %" PRIu64 " samples; at most %" PRIu64 " can be ordered",
			params->order.samples, (uint64_t)ORDER_SAMPLES_MAX);
	if (stream_epoch_batches(params) == 0)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST,
			"an epoch would have no batch: rank %u of %u gets %" PRIu64
			" samples, the batch size is %u%s: choose a smaller batch size or world",
			params->order.rank, params->order.world, order_length(&params->order),
			params->batch_size, params->drop_last ? " with drop_last" : "");
	return 0;
}

static int start_at(
	struct stream *stream, const struct open_request *request, struct error_text *error)
{
	const struct cursor *start = &request->start;
	struct cursor own = stream_cursor_origin(&stream->params);

	if (!request->has_start)
		return 0;
	if (cursor_check(start, &own, error) != 0 ||
		stream_seek(stream, start->epoch, start->position, error) != 0)
		return STOKER__V1__ERROR_CODE__ERROR_CURSOR;
	return 0;
}

static void fill_source(struct served_stream *served, const struct transform_plan *plan)
{
	struct pool_stream *source = &served->stream.source;

	source->attach.kind = JOB_ATTACH;
	source->attach.stream = served->service->next_stream_id++;
	source->attach.geometry = served->stream.arena.geometry;
	source->attach.plan = *plan;
	source->attach.on_bad_sample = served->stream.params.on_bad_sample;
	source->attach.seed = served->stream.params.order.seed;
	source->attach.has_data = served->dataset->data_fd >= 0;
	source->fds[0] = served->stream.arena.fd;
	source->fds[1] = served->dataset->index_fd;
	source->fds[2] = served->dataset->data_fd;
	source->fds[3] = -1;
}

/* Which samples the stream is about: 0 or an error code. */
static int choose_part(struct served_stream *served, const struct part_name *name,
	struct stream_params *params, struct error_text *error)
{
	const struct index *index = &served->dataset->index;
	uint64_t samples = index->header->samples, first, end;
	struct service *service = served->service;
	struct error_text why;
	char bounds[PART_BOUNDS_MAX];

	part_name_format(name, bounds);
	snprintf(served->name, sizeof(served->name), "%s%s", served->dataset->name, bounds);
	if (part_name_resolve(name, samples, &first, &end, &why) != 0)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, "%s: %s",
			served->name, why.text);
	params->order.samples = end - first;
	params->fingerprint = part_fingerprint(index->fingerprint, samples, first, end);
	if (samples > ORDER_SAMPLES_MAX)
		params->order.samples = samples; /* too many, as check_order will say */
	if (params->order.samples == samples)
		return 0;
	served->part =
		shared_part_get(served->dataset, service->loop, &service->budget, first, end, &why);
	if (served->part == NULL)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_MEMORY, "%s: %s",
			served->name, why.text);
	return 0;
}

static int compile_plan(struct transform_plan *plan, const struct transform_source *source,
	const struct open_request *request, struct error_text *error)
{
	if (request->rows == ROW_PARAMETERS)
		return transform_compile_parameters(
			plan, source, request->steps, request->step_count, request->layout, error);
	return transform_compile(plan, source, request->steps, request->step_count, request->dtype,
		request->layout, error);
}

/* What the first sample is when it is decoded. */
static struct transform_source source_of(const struct index_header *header, uint32_t decode_flags)
{
	bool swap = (decode_flags & DECODE_ORIENT) != 0 && exif_swaps(header->orientation);

	return (struct transform_source){
		.width = swap ? header->height : header->width,
		.height = swap ? header->width : header->height,
		.channels = header->channels,
	};
}

/* What workers are to make of each sample: 0 or an error code. */
static int make_plan(const struct served_stream *served, const struct open_request *request,
	struct transform_plan *plan, struct error_text *error)
{
	const struct index_header *header = served->dataset->index.header;
	struct transform_source source = source_of(header, request->decode_flags);
	char problem[ERROR_TEXT_MAX];

	if (request->rows == ROW_DIGESTS) {
		transform_plan_digests(plan, header->channels, request->layout);
		return 0;
	}
	if (dataset_unsized(served->dataset)) {
		index_problem(&served->dataset->index, problem, sizeof(problem));
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_DATASET, "data set %s: %s",
			served->dataset->name, problem);
	}
	if (compile_plan(plan, &source, request, error) != 0)
		return STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST;
	return 0;
}

/* Fill in everything but the population of the memory: 0 or an error code. */
static int build(struct served_stream *served, const struct open_request *request,
	struct stream_params *params, struct error_text *error)
{
	struct arena arena = ARENA_NULL;
	struct transform_plan plan;
	int r = choose_part(served, &request->part, params, error);

	if (r == 0)
		r = check_order(params, error);
	if (r == 0)
		r = make_plan(served, request, &plan, error);
	if (r != 0)
		return r;
	plan.decode_flags = request->decode_flags;
	plan.max_pixels = served->service->catalog.max_pixels;
	r = make_arena(served, request, plan.row_bytes, &arena, error);
	if (r != 0)
		return r;
	if (stream_init_consume_arena(&served->stream, params, &arena) < 0) {
		arena_finish(&arena);
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, "out of memory");
	}
	fill_source(served, &plan);
	return start_at(&served->stream, request, error);
}

int served_stream_create(struct service *service, const struct open_request *request,
	struct dataset *dataset, struct served_stream **created, struct error_text *error)
{
	struct served_stream *served = calloc(1, sizeof(*served));
	struct stream_params params = request->params;
	int r;

	if (served == NULL)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, "out of memory");
	served->service = service;
	served->dataset = dataset_ref(dataset);
	served->is_inline = request->is_inline;
	served->stream.arena = (struct arena)ARENA_NULL;
	r = build(served, request, &params, error);
	if (r != 0) {
		served_stream_destroy(served);
		return r;
	}
	*created = served;
	return 0;
}

int served_stream_populate(const struct served_stream *stream, atomic_bool *cancelled)
{
	const struct arena *arena = &stream->stream.arena;
	int r = stream->part != NULL ? shared_part_fill(stream->part) : 0;

	return r < 0 ? r : arena_populate(arena->fd, arena->geometry.bytes, cancelled);
}

void served_stream_ready(struct served_stream *stream)
{
	struct pool_stream *source = &stream->stream.source;

	arena_write_header(&stream->stream.arena);
	if (stream->part == NULL)
		return;
	shared_part_filled(stream->part);
	stream->stream.part = stream->part->part;
	source->attach.part_samples = stream->part->part.count;
	source->fds[3] = stream->part->fd;
}

void served_stream_note_bad(struct served_stream *stream, uint64_t sample, enum bad_reason reason,
	const struct error_text *why)
{
	struct dataset *dataset = stream->dataset;
	struct error_text text = *why;
	char name[ERROR_TEXT_MAX];

	if (!bad_samples_note(&dataset->bad, sample, dataset->index.header->samples, reason, why))
		return;
	index_describe(&dataset->index, sample, name, sizeof(name));
	escape_sanitize(text.text);
	log_limited(&stream->service->bad_log, LOG_LEVEL_WARNING,
		"data set %s: sample %" PRIu64 " is bad: %s: %s", dataset->name, sample, name,
		text.text);
}

void served_stream_note(struct served_stream *stream, uint32_t notes)
{
	struct dataset *dataset = stream->dataset;

	if ((notes & NOTE_GREY16) == 0 || dataset->grey16_told)
		return;
	dataset->grey16_told = true;
	log_notice(
		"data set %s has grey pictures of 16 bits: their high byte is taken; open it with "
		"grey16_clip to have them clipped at 255, as Pillow does it",
		dataset->name);
}

/* Memory that is given back: unmapping takes 0.2 s per GiB, so a thread does it. */
struct leftover {
	uv_work_t work;
	struct arena arena;
	struct service *service;
	uint64_t charged;
};

static void unmap_leftover(uv_work_t *work)
{
	struct leftover *leftover = work->data;

	arena_finish(&leftover->arena);
}

static void on_unmapped(uv_work_t *work, int status)
{
	struct leftover *leftover = work->data;

	(void)status;
	budget_give(&leftover->service->budget, leftover->charged);
	free(leftover);
}

void served_stream_destroy(struct served_stream *stream)
{
	struct leftover *leftover = calloc(1, sizeof(*leftover));

	if (leftover != NULL) {
		leftover->work.data = leftover;
		leftover->service = stream->service;
		leftover->charged = stream->charged;
		leftover->arena = stream->stream.arena;
		/* The geometry stays: the stream knows its slots by it. */
		stream->stream.arena.fd = -1;
		stream->stream.arena.base = NULL;
		if (leftover->arena.fd < 0 || uv_queue_work(stream->service->loop, &leftover->work,
						      unmap_leftover, on_unmapped) < 0) {
			unmap_leftover(&leftover->work);
			on_unmapped(&leftover->work, 0);
		}
	} else {
		budget_give(&stream->service->budget, stream->charged);
	}
	stream_finish(&stream->stream);
	shared_part_unref(stream->part);
	dataset_unref(stream->dataset);
	free(stream);
}
