/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"
#include "client/transform_message.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { OPEN_TIMEOUT_MS = 30000 };

void stoker_options_init(struct stoker_options *options)
{
	*options = (struct stoker_options){
		.batch_size = 64,
		.transforms = "ToTensor()",
		.dtype = STOKER_F32,
		.layout = STOKER_NCHW,
		.world = 1,
		.epochs = 1,
	};
}

void cursor_to_message(Stoker__V1__Cursor *message, const struct stoker_cursor *cursor)
{
	message->epoch = cursor->epoch;
	message->position = cursor->position;
	message->seed = cursor->seed;
	message->shuffle = cursor->shuffle;
	message->rank = cursor->rank;
	message->world = cursor->world;
	message->shard_drop = cursor->shard_drop;
	message->drop_last = cursor->drop_last;
	message->fingerprint = cursor->fingerprint;
}

static int send_open(struct stoker *stoker, const struct stoker_options *options,
	struct transform_text *pipeline, uint32_t request)
{
	Stoker__V1__Open open = STOKER__V1__OPEN__INIT;
	Stoker__V1__Cursor start = STOKER__V1__CURSOR__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	Stoker__V1__Decode decode = STOKER__V1__DECODE__INIT;
	struct transform_messages transforms;

	transform_messages_fill(&transforms, pipeline);
	open.request = request;
	open.dataset.data = (uint8_t *)options->dataset;
	open.dataset.len = strlen(options->dataset);
	open.batch_size = options->batch_size;
	open.transforms = transforms.pointers;
	open.n_transforms = pipeline->count;
	open.dtype = (Stoker__V1__Dtype)options->dtype;
	open.layout = (Stoker__V1__Layout)options->layout;
	open.shuffle = options->shuffle;
	open.seed = options->seed;
	open.rank = options->rank;
	open.world = options->world;
	open.shard_drop = options->shard_drop;
	open.drop_last = options->drop_last;
	open.first_epoch = options->first_epoch;
	open.epochs = options->epochs;
	open.depth = options->depth;
	open.payload = (Stoker__V1__Payload)options->payload;
	open.on_bad_sample = (Stoker__V1__OnBadSample)options->on_bad_sample;
	open.rows = (Stoker__V1__Rows)options->rows;
	decode.exif_orientation = options->exif_orientation;
	decode.grey16_clip = options->grey16_clip;
	if (options->exif_orientation || options->grey16_clip)
		open.decode = &decode;
	if (options->start) {
		cursor_to_message(&start, options->start);
		open.start = &start;
	}
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_OPEN;
	message.open = &open;
	return client_send(stoker, &message);
}

/* Ranges that the rest of this library relies on; everything else is for the daemon to check. */
static int check_options(struct stoker *stoker, const struct stoker_options *options)
{
	if (!options->dataset || !*options->dataset)
		return client_error(stoker, -EINVAL, "no data set is named");
	if (options->batch_size == 0 || options->batch_size > PROTOCOL_BATCH_SIZE_MAX)
		return client_error(stoker, -EINVAL, "batch size %u is not within 1 and %d",
			options->batch_size, PROTOCOL_BATCH_SIZE_MAX);
	if ((int)options->rows < 0 || options->rows > STOKER_ROWS_PARAMETERS)
		return client_error(stoker, -EINVAL, "rows %d are not known", options->rows);
	if (options->dtype < STOKER_U8 || options->dtype > STOKER_F64)
		return client_error(stoker, -EINVAL, "dtype %d is not known", options->dtype);
	if ((options->dtype == STOKER_F64) != (options->rows == STOKER_ROWS_PARAMETERS))
		return client_error(stoker, -EINVAL,
			"dtype STOKER_F64 and rows STOKER_ROWS_PARAMETERS go together only");
	if (options->layout != STOKER_NCHW && options->layout != STOKER_NHWC)
		return client_error(stoker, -EINVAL, "layout %d is not known", options->layout);
	if (options->payload < 0 || options->payload > STOKER_INLINE)
		return client_error(stoker, -EINVAL, "payload %d is not known", options->payload);
	if ((int)options->on_bad_sample < 0 || options->on_bad_sample > STOKER_BAD_REPLACE)
		return client_error(
			stoker, -EINVAL, "on_bad_sample %d is not known", options->on_bad_sample);
	return 0;
}

int stoker_open(
	struct stoker *stoker, const struct stoker_options *options, struct stoker_stream **stream)
{
	uint32_t request = client_next_request(stoker);
	Stoker__V1__ServerMessage *answer;
	struct transform_text pipeline;
	int r, fd;

	*stream = NULL;
	r = check_options(stoker, options);
	if (r < 0)
		return r;
	r = transform_text_parse(&pipeline, options->transforms ? options->transforms : "");
	if (r < 0)
		return client_error(stoker, r, "%s", pipeline.error);
	r = send_open(stoker, options, &pipeline, request);
	if (r < 0)
		return r;
	r = client_wait_opened(stoker, request, OPEN_TIMEOUT_MS, options->indexing,
		options->indexing_data, &answer, &fd);
	if (r < 0)
		return r;

	*stream = stream_add(stoker, answer->opened->stream);
	if (!*stream) {
		r = client_die(stoker, -ENOMEM, "out of memory");
	} else {
		r = stream_adopt(*stream, options, answer->opened, fd);
		if (r < 0) {
			stoker_close(*stream);
			*stream = NULL;
		}
	}
	if (fd >= 0)
		close(fd);
	stoker__v1__server_message__free_unpacked(answer, NULL);
	return r;
}
