/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/open_request.h"

#include "daemon/image/decode/decode.h"
#include "daemon/serve/open_transform.h"

#include <string.h>

_Static_assert(
	PROTOCOL_TRANSFORMS_MAX <= (int)TRANSFORM_STEPS_MAX, "each has a number to draw with");

static int refuse(struct error_text *error, const char *text)
{
	return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, "%s", text);
}

static int parse_dtype(
	struct open_request *request, const Stoker__V1__Open *open, struct error_text *error)
{
	switch (open->dtype) {
	case STOKER__V1__DTYPE__DTYPE_UNSPECIFIED:
	case STOKER__V1__DTYPE__DTYPE_F32: request->dtype = PIXEL_F32; return 0;
	case STOKER__V1__DTYPE__DTYPE_U8: request->dtype = PIXEL_U8; return 0;
	case STOKER__V1__DTYPE__DTYPE_F16: request->dtype = PIXEL_F16; return 0;
	case STOKER__V1__DTYPE__DTYPE_BF16: request->dtype = PIXEL_BF16; return 0;
	case STOKER__V1__DTYPE__DTYPE_F64:
		return refuse(error, "dtype F64 is of rows that hold PARAMETERS; pixels take U8, "
				     "F16, BF16 or F32");
	default: return refuse(error, "dtype must be U8, F16, BF16 or F32");
	}
}

static int parse_rows(
	struct open_request *request, const Stoker__V1__Open *open, struct error_text *error)
{
	switch (open->rows) {
	case STOKER__V1__ROWS__ROWS_PIXELS:
		request->rows = ROW_PIXELS;
		return parse_dtype(request, open, error);
	case STOKER__V1__ROWS__ROWS_PARAMETERS:
		request->rows = ROW_PARAMETERS;
		request->dtype = PIXEL_F64;
		if (open->dtype != STOKER__V1__DTYPE__DTYPE_UNSPECIFIED &&
			open->dtype != STOKER__V1__DTYPE__DTYPE_F64)
			return refuse(error, "rows of PARAMETERS have dtype F64");
		return 0;
	case STOKER__V1__ROWS__ROWS_DIGESTS:
		request->rows = ROW_DIGESTS;
		request->dtype = PIXEL_U8;
		if (open->n_transforms > 0)
			return refuse(error, "rows of DIGESTS are of pictures as they are decoded "
					     "and take no transforms: leave them out");
		if (open->dtype != STOKER__V1__DTYPE__DTYPE_UNSPECIFIED &&
			open->dtype != STOKER__V1__DTYPE__DTYPE_U8)
			return refuse(error, "rows of DIGESTS have dtype U8");
		return 0;
	default: return refuse(error, "rows must be PIXELS, DIGESTS or PARAMETERS");
	}
}

static int parse_pixels(
	struct open_request *request, const Stoker__V1__Open *open, struct error_text *error)
{
	int r = parse_rows(request, open, error);

	if (r != 0)
		return r;
	switch (open->layout) {
	case STOKER__V1__LAYOUT__LAYOUT_UNSPECIFIED:
	case STOKER__V1__LAYOUT__LAYOUT_NCHW: request->layout = PIXEL_NCHW; break;
	case STOKER__V1__LAYOUT__LAYOUT_NHWC: request->layout = PIXEL_NHWC; break;
	default: return refuse(error, "layout must be NCHW or NHWC");
	}
	if (open->n_transforms > PROTOCOL_TRANSFORMS_MAX)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST,
			"%zu transforms; at most %d are taken", open->n_transforms,
			PROTOCOL_TRANSFORMS_MAX);
	for (size_t i = 0; i < open->n_transforms; i++) {
		r = open_transform_parse(&request->steps[i], open->transforms[i], error);
		if (r != 0)
			return r;
	}
	request->step_count = open->n_transforms;
	return 0;
}

static int parse_order(
	struct open_request *request, const Stoker__V1__Open *open, struct error_text *error)
{
	struct stream_params *params = &request->params;
	uint64_t end;

	if (open->batch_size < 1 || open->batch_size > PROTOCOL_BATCH_SIZE_MAX)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST,
			"batch_size %u; it must be 1 to %d", open->batch_size,
			PROTOCOL_BATCH_SIZE_MAX);
	params->batch_size = open->batch_size;
	params->drop_last = open->drop_last;
	params->order = (struct order_params){
		.shuffle = open->shuffle,
		.seed = open->seed,
		.rank = open->rank,
		.world = open->world == 0 ? 1 : open->world,
		.shard_drop = open->shard_drop,
	};
	if (params->order.rank >= params->order.world)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST,
			"rank %u of world %u; ranks go from 0 to world - 1", params->order.rank,
			params->order.world);
	params->first_epoch = open->first_epoch;
	params->epochs = open->epochs;
	if (__builtin_add_overflow(open->first_epoch, open->epochs, &end))
		return refuse(error, "first_epoch + epochs does not fit into 64 bits");
	return 0;
}

static int parse_on_bad_sample(
	struct open_request *request, const Stoker__V1__Open *open, struct error_text *error)
{
	enum bad_sample_policy *policy = &request->params.on_bad_sample;

	switch (open->on_bad_sample) {
	case STOKER__V1__ON_BAD_SAMPLE__ON_BAD_SAMPLE_ERROR: *policy = BAD_SAMPLE_ERROR; return 0;
	case STOKER__V1__ON_BAD_SAMPLE__ON_BAD_SAMPLE_MASK: *policy = BAD_SAMPLE_MASK; return 0;
	case STOKER__V1__ON_BAD_SAMPLE__ON_BAD_SAMPLE_REPLACE:
		*policy = BAD_SAMPLE_REPLACE;
		return 0;
	default: return refuse(error, "on_bad_sample must be ERROR, MASK or REPLACE");
	}
}

int open_request_parse(struct open_request *request, const Stoker__V1__Open *open, bool takes_fds,
	struct error_text *error)
{
	int r;

	memset(request, 0, sizeof(*request));
	request->request = open->request;
	if (part_name_parse(&request->part, open->dataset.data, open->dataset.len, error) != 0)
		return STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST;
	r = parse_order(request, open, error);
	if (r == 0)
		r = parse_pixels(request, open, error);
	if (r == 0)
		r = parse_on_bad_sample(request, open, error);
	if (r != 0)
		return r;
	if (open->decode != NULL)
		request->decode_flags = (open->decode->exif_orientation ? DECODE_ORIENT : 0) |
					(open->decode->grey16_clip ? DECODE_GREY16_CLIP : 0);
	if (open->depth > PROTOCOL_DEPTH_MAX)
		return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST,
			"depth %u; at most %d batches can be in flight", open->depth,
			PROTOCOL_DEPTH_MAX);
	request->depth = open->depth;
	switch (open->payload) {
	case STOKER__V1__PAYLOAD__PAYLOAD_UNSPECIFIED: request->is_inline = !takes_fds; break;
	case STOKER__V1__PAYLOAD__PAYLOAD_SHARED: request->is_inline = false; break;
	case STOKER__V1__PAYLOAD__PAYLOAD_INLINE: request->is_inline = true; break;
	default: return refuse(error, "payload must be SHARED or INLINE");
	}
	if (!request->is_inline && !takes_fds)
		return refuse(error, "shared payload needs a client that takes descriptors "
				     "(Hello.takes_fds); ask for inline payload");
	request->has_start = open->start != NULL;
	if (request->has_start)
		request->start = cursor_from_message(open->start);
	return 0;
}

struct cursor cursor_from_message(const Stoker__V1__Cursor *message)
{
	return (struct cursor){
		.epoch = message->epoch,
		.position = message->position,
		.order =
			{
				.shuffle = message->shuffle,
				.seed = message->seed,
				.rank = message->rank,
				.world = message->world == 0 ? 1 : message->world,
				.shard_drop = message->shard_drop,
			},
		.drop_last = message->drop_last,
		.fingerprint = message->fingerprint,
	};
}

void cursor_to_message(const struct cursor *cursor, Stoker__V1__Cursor *message)
{
	message->epoch = cursor->epoch;
	message->position = cursor->position;
	message->seed = cursor->order.seed;
	message->shuffle = cursor->order.shuffle;
	message->rank = cursor->order.rank;
	message->world = cursor->order.world;
	message->shard_drop = cursor->order.shard_drop;
	message->drop_last = cursor->drop_last;
	message->fingerprint = cursor->fingerprint;
}
