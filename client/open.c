/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"
#include "client/transform_text.h"

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

/* The protobuf form of a pipeline; points into itself and into the steps. */
struct transform_messages {
	Stoker__V1__Transform transforms[PROTOCOL_TRANSFORMS_MAX];
	Stoker__V1__Transform *pointers[PROTOCOL_TRANSFORMS_MAX];
	union {
		Stoker__V1__Grayscale grayscale;
		Stoker__V1__ToTensor to_tensor;
		Stoker__V1__Normalize normalize;
		Stoker__V1__Resize resize;
		Stoker__V1__CenterCrop center_crop;
		Stoker__V1__Pad pad;
	} steps[PROTOCOL_TRANSFORMS_MAX];
};

static void resize_to_message(Stoker__V1__Resize *resize, struct transform_text_step *step)
{
	stoker__v1__resize__init(resize);
	resize->size = step->size.values;
	resize->n_size = step->size.count;
	resize->interpolation = (Stoker__V1__Interpolation)step->interpolation;
	resize->max_size = step->max_size;
}

static void pad_to_message(Stoker__V1__Pad *pad, struct transform_text_step *step)
{
	stoker__v1__pad__init(pad);
	pad->padding = step->padding.values;
	pad->n_padding = step->padding.count;
	pad->fill = step->fill.values;
	pad->n_fill = step->fill.count;
	pad->padding_mode = (Stoker__V1__PaddingMode)step->padding_mode;
}

static void transforms_to_messages(
	struct transform_messages *messages, struct transform_text *pipeline)
{
	for (size_t i = 0; i < pipeline->count; i++) {
		struct transform_text_step *step = &pipeline->steps[i];
		Stoker__V1__Transform *transform = &messages->transforms[i];

		stoker__v1__transform__init(transform);
		messages->pointers[i] = transform;
		switch (step->kind) {
		case TRANSFORM_TEXT_GRAYSCALE:
			transform->transform_case = STOKER__V1__TRANSFORM__TRANSFORM_GRAYSCALE;
			transform->grayscale = &messages->steps[i].grayscale;
			stoker__v1__grayscale__init(transform->grayscale);
			transform->grayscale->num_output_channels = step->channels;
			break;
		case TRANSFORM_TEXT_TO_TENSOR:
			transform->transform_case = STOKER__V1__TRANSFORM__TRANSFORM_TO_TENSOR;
			transform->to_tensor = &messages->steps[i].to_tensor;
			stoker__v1__to_tensor__init(transform->to_tensor);
			break;
		case TRANSFORM_TEXT_NORMALIZE:
			transform->transform_case = STOKER__V1__TRANSFORM__TRANSFORM_NORMALIZE;
			transform->normalize = &messages->steps[i].normalize;
			stoker__v1__normalize__init(transform->normalize);
			transform->normalize->mean = step->mean.values;
			transform->normalize->n_mean = step->mean.count;
			transform->normalize->std = step->std.values;
			transform->normalize->n_std = step->std.count;
			break;
		case TRANSFORM_TEXT_RESIZE:
			transform->transform_case = STOKER__V1__TRANSFORM__TRANSFORM_RESIZE;
			transform->resize = &messages->steps[i].resize;
			resize_to_message(transform->resize, step);
			break;
		case TRANSFORM_TEXT_CENTER_CROP:
			transform->transform_case = STOKER__V1__TRANSFORM__TRANSFORM_CENTER_CROP;
			transform->center_crop = &messages->steps[i].center_crop;
			stoker__v1__center_crop__init(transform->center_crop);
			transform->center_crop->size = step->size.values;
			transform->center_crop->n_size = step->size.count;
			break;
		case TRANSFORM_TEXT_PAD:
			transform->transform_case = STOKER__V1__TRANSFORM__TRANSFORM_PAD;
			transform->pad = &messages->steps[i].pad;
			pad_to_message(transform->pad, step);
			break;
		}
	}
}

static int send_open(struct stoker *stoker, const struct stoker_options *options,
	struct transform_text *pipeline, uint32_t request)
{
	Stoker__V1__Open open = STOKER__V1__OPEN__INIT;
	Stoker__V1__Cursor start = STOKER__V1__CURSOR__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	struct transform_messages transforms;

	transforms_to_messages(&transforms, pipeline);
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
