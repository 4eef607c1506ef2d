/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/training.h"

#include "trainer/init.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN_UNITS = 128 };

static void note_indexing(uint64_t samples, void *data)
{
	struct training *training = data;

	report_indexing(&training->report, samples);
}

static void common_options(struct training *training, struct stoker_options *stream)
{
	const struct options *options = training->options;

	stoker_options_init(stream);
	stream->batch_size = options->batch_size;
	stream->transforms = training->tail.head ? training->tail.head : options->transform;
	stream->dtype = options->dtype;
	stream->layout = STOKER_NCHW;
	stream->payload = options->payload;
	stream->exif_orientation = options->exif_orientation;
	stream->grey16_clip = options->grey16_clip;
	stream->on_bad_sample = options->on_bad_sample;
	stream->indexing = note_indexing;
	stream->indexing_data = training;
}

static int open_train(struct training *training)
{
	const struct options *options = training->options;
	struct stoker_options stream;
	int r;

	common_options(training, &stream);
	stream.dataset = options->dataset;
	stream.shuffle = !options->no_shuffle;
	stream.seed = options->seed;
	stream.rank = options->rank;
	stream.world = options->world;
	stream.shard_drop = options->shard_drop;
	stream.drop_last = options->drop_last;
	stream.epochs = options->epochs;
	stream.start = training->resumed ? &training->checkpoint.cursor : NULL;
	r = feed_open(&training->train, training->stoker, &stream, &training->problem);
	report_indexed(&training->report);
	if (r == -ESTALE && training->resumed)
		return problem_set(&training->problem, r, "%s: not of this run: data set %s: %s",
			options->checkpoint, options->dataset, stoker_message(training->stoker));
	return r;
}

/* One pass of this stream validates one epoch. */
static int open_val(struct training *training)
{
	struct stoker_options stream;
	int r;

	common_options(training, &stream);
	stream.dataset = training->options->val;
	if (training->options->val_transform)
		stream.transforms = training->val_tail.head ? training->val_tail.head
							    : training->options->val_transform;
	stream.epochs = 0;
	r = feed_open(&training->val, training->stoker, &stream, &training->problem);
	report_indexed(&training->report);
	return r;
}

static enum model_values values_of(enum stoker_dtype dtype)
{
	switch (dtype) {
	case STOKER_U8: return MODEL_U8;
	case STOKER_F16: return MODEL_F16;
	case STOKER_BF16: return MODEL_BF16;
	default: return MODEL_F32;
	}
}

/* The shape that a stream announced, as the model sees it. */
static int input_of(struct training *training, const struct stoker_info *info, const char *name,
	struct model_input *input)
{
	uint64_t plane = (uint64_t)info->shape[1] * info->shape[2];
	enum model_values values = values_of(training->options->dtype);

	if (info->dtype != training->options->dtype || info->layout != STOKER_NCHW ||
		info->shape[0] < 1 || info->shape[0] > MODEL_CHANNELS_MAX || plane < 1 ||
		plane > MODEL_INPUTS_MAX ||
		info->row_bytes != plane * info->shape[0] * model_value_bytes(values) ||
		info->batch_size != training->options->batch_size)
		return problem_set(&training->problem, -EBADMSG,
			"data set %s: the daemon sends samples of %u x %u x %u in %llu bytes, which "
			"do not fit the model",
			name, info->shape[0], info->shape[1], info->shape[2],
			(unsigned long long)info->row_bytes);
	input->channels = info->shape[0];
	input->plane = (uint32_t)plane;
	input->values = values;
	return 0;
}

static int ask_classes(struct training *training, const char *name, struct stoker_classes **classes)
{
	char *whole = strndup(name, strcspn(name, "[")); /* parts have the classes of all */
	int r = whole ? stoker_classes(training->stoker, whole, classes) : -ENOMEM;

	free(whole);
	if (r < 0)
		return problem_set(&training->problem, r, "data set %s: %s", name,
			r == -ENOMEM ? "out of memory" : stoker_message(training->stoker));
	return 0;
}

/* The two names as people may read them. */
static int refuse_class(struct training *training, uint32_t label,
	const struct stoker_class *of_train, const struct stoker_class *of_val)
{
	char *train = of_train ? stoker_escape(of_train->name, of_train->length) : NULL;
	char *val = stoker_escape(of_val->name, of_val->length);
	int r = problem_set(&training->problem, -EINVAL,
		"class %u is %s%.60s%s in data set %s, but '%.60s' in %s: give both the same list of "
		"classes (`classes` in stokerd.conf)",
		label, of_train ? "'" : "", train ? train : "none", of_train ? "'" : "",
		training->options->dataset, val ? val : "?", training->options->val);

	free(train);
	free(val);
	return r;
}

/* A label must mean the same in both data sets; the last classes may be missing in validation. */
static int compare_classes(struct training *training)
{
	struct stoker_classes *train = NULL, *val = NULL;
	int r = ask_classes(training, training->options->dataset, &train);

	if (r == 0)
		r = ask_classes(training, training->options->val, &val);
	for (uint32_t i = 0; r == 0 && i < val->count; i++) {
		const struct stoker_class *of_train = i < train->count ? &train->list[i] : NULL;
		const struct stoker_class *of_val = &val->list[i];

		if (!of_train || of_train->length != of_val->length ||
			memcmp(of_train->name, of_val->name, of_val->length) != 0)
			r = refuse_class(training, i, of_train, of_val);
	}
	stoker_classes_free(train);
	stoker_classes_free(val);
	return r;
}

static int check_val(struct training *training)
{
	const struct stoker_info *train = training->train.info, *val = training->val.info;
	const char *name = training->options->val;
	struct model_input input;
	int r = input_of(training, val, name, &input);

	if (r < 0)
		return r;
	if (memcmp(train->shape, val->shape, sizeof(train->shape)) != 0)
		return problem_set(&training->problem, -EINVAL,
			"data set %s has images of %u x %u x %u, %s of %u x %u x %u; both must be "
			"the same",
			training->options->dataset, train->shape[0], train->shape[1],
			train->shape[2], name, val->shape[0], val->shape[1], val->shape[2]);
	return compare_classes(training);
}

static int make_model(struct training *training)
{
	struct model_config *config = &training->config;
	int r = input_of(
		training, training->train.info, training->options->dataset, &config->input);

	if (r == 0 && config->input.values == MODEL_U8)
		r = transform_tail_table(&training->tail, &config->input, &training->problem);
	if (r < 0)
		return r;
	config->hidden = HIDDEN_UNITS;
	config->classes = training->train.info->classes;
	config->max_rows = training->options->batch_size;
	config->rate = training->options->rate;
	r = model_create(&training->model, config, &training->options->device, &training->problem);
	if (r < 0)
		return r;
	report_note(&training->report, "device: %s%s%s", model_device(training->model),
		training->problem.text[0] ? "; " : "", training->problem.text);
	training->train.model = training->model;
	training->val.model = training->model;
	return 0;
}

/* The checkpoint's weights, or fresh ones; the checkpoint then keeps room for the next save. */
static int load_weights(struct training *training)
{
	const struct model_config *config = &training->config;
	struct checkpoint *checkpoint = &training->checkpoint;
	uint32_t inputs = config->input.channels * config->input.plane;
	size_t count = model_weights_count(config);

	if (training->resumed &&
		(checkpoint->inputs != inputs || checkpoint->hidden != config->hidden ||
			checkpoint->classes != config->classes || checkpoint->count != count))
		return problem_set(&training->problem, -ESTALE,
			"%s: holds a model of %u-%u-%u, data set %s needs %u-%u-%u",
			training->options->checkpoint, checkpoint->inputs, checkpoint->hidden,
			checkpoint->classes, training->options->dataset, inputs, config->hidden,
			config->classes);
	if (!training->resumed) {
		checkpoint->inputs = inputs;
		checkpoint->hidden = config->hidden;
		checkpoint->classes = config->classes;
		checkpoint->count = count;
		checkpoint->weights = calloc(count, sizeof(float));
		if (!checkpoint->weights)
			return problem_set(&training->problem, -ENOMEM, "out of memory");
		init_weights(config, training->options->seed, checkpoint->weights);
	}
	if (training->resumed)
		report_note(&training->report, "%s: going on after %llu images of epoch %llu",
			training->options->checkpoint,
			(unsigned long long)checkpoint->cursor.position,
			(unsigned long long)checkpoint->cursor.epoch + 1);
	if (model_weights_set(training->model, checkpoint->weights) < 0)
		return problem_set(&training->problem, -EIO, "%s", model_problem(training->model));
	return 0;
}

static int attach(struct training *training, const struct feed *feed)
{
	if (!feed->stream || !feed->info->arena)
		return 0;
	if (model_attach(training->model, feed->info->arena, feed->info->arena_bytes) < 0)
		return problem_set(&training->problem, -EIO, "%s", model_problem(training->model));
	return 0;
}

static int load_checkpoint(struct training *training)
{
	const char *path = training->options->checkpoint;
	int r;

	if (!path)
		return 0;
	r = checkpoint_load(path, &training->checkpoint, &training->problem);
	if (r < 0)
		return r;
	training->resumed = r == 0;
	if (training->resumed && training->checkpoint.cursor.epoch >= training->options->epochs)
		return problem_set(&training->problem, -EINVAL,
			"%s: is in epoch %llu already, which --epochs %u does not reach", path,
			(unsigned long long)training->checkpoint.cursor.epoch + 1,
			training->options->epochs);
	return checkpoint_probe(path, &training->problem);
}

static int connect_daemon(struct training *training)
{
	int r;

	training->stoker = stoker_create();
	if (!training->stoker)
		return problem_set(&training->problem, -ENOMEM, "out of memory");
	r = stoker_connect(training->stoker, training->options->socket, "stoker-train");
	if (r < 0)
		return problem_set(&training->problem, r, "%s", stoker_message(training->stoker));
	return 0;
}

/* With u8 batches the end of both pipelines is the model's. */
static int split_transforms(struct training *training)
{
	const struct options *options = training->options;
	int r = transform_tail_split(&training->tail, options->transform, &training->problem);

	if (r < 0 || !options->val_transform)
		return r;
	r = transform_tail_split(&training->val_tail, options->val_transform, &training->problem);
	if (r == 0 && !transform_tail_equal(&training->tail, &training->val_tail))
		return problem_set(&training->problem, -EINVAL,
			"--dtype u8: --transform and --val-transform must end in the same Normalize; "
			"use --dtype f32 for others");
	return r;
}

int training_open(struct training *training, const struct options *options)
{
	int r = 0;

	*training = (struct training){.options = options};
	report_init(&training->report, options->json, options->epochs);
	if (options->dtype == STOKER_U8)
		r = split_transforms(training);
	if (r == 0)
		r = load_checkpoint(training);
	if (r == 0)
		r = connect_daemon(training);
	if (r == 0)
		r = open_train(training);
	if (r == 0)
		r = make_model(training);
	if (r == 0)
		r = load_weights(training);
	if (r == 0 && options->val)
		r = open_val(training);
	if (r == 0 && options->val)
		r = check_val(training);
	if (r == 0)
		r = attach(training, &training->train);
	return r == 0 ? attach(training, &training->val) : r;
}

/* The model first: the device may still read from the streams' memory. */
void training_close(struct training *training)
{
	model_destroy(training->model);
	feed_finish(&training->train);
	feed_finish(&training->val);
	stoker_destroy(training->stoker);
	checkpoint_finish(&training->checkpoint);
	transform_tail_finish(&training->tail);
	transform_tail_finish(&training->val_tail);
}
