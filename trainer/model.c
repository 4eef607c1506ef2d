/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/model.h"

#include "trainer/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Matrices are rows x columns. Everything but `config` and `parameters` lies on the device. */
struct model {
	struct model_config config;
	struct backend *backend;
	uint64_t queued; /* batches */
	size_t parameters;
	float *weights;   /* w1 (hidden x inputs), b1, w2 (classes x hidden), b2 */
	float *gradients; /* laid out as the weights */
	float *hidden;    /* max_rows x hidden */
	float *hidden_gradient;
	float *logits; /* max_rows x classes; becomes its own gradient */
};

/* Where the four parts of weights or gradients begin. */
struct parts {
	float *w1, *b1, *w2, *b2;
};

static uint32_t inputs_of(const struct model_config *config)
{
	return config->input.channels * config->input.plane;
}

static struct parts parts_of(const struct model_config *config, float *base)
{
	struct parts parts = {.w1 = base};

	parts.b1 = parts.w1 + (size_t)config->hidden * inputs_of(config);
	parts.w2 = parts.b1 + config->hidden;
	parts.b2 = parts.w2 + (size_t)config->classes * config->hidden;
	return parts;
}

size_t model_weights_count(const struct model_config *config)
{
	return (size_t)config->hidden * inputs_of(config) + config->hidden +
	       (size_t)config->classes * config->hidden + config->classes;
}

static int config_check(const struct model_config *config, struct problem *problem)
{
	const struct model_input *input = &config->input;

	if (input->channels < 1 || input->channels > MODEL_CHANNELS_MAX || input->plane < 1 ||
		input->plane > MODEL_INPUTS_MAX / input->channels)
		return problem_set(problem, -EINVAL,
			"samples of %u channels of %u values do not fit the model (at most %d channels, "
			"%d values)",
			input->channels, input->plane, MODEL_CHANNELS_MAX, MODEL_INPUTS_MAX);
	if (config->classes < 1 || config->classes > MODEL_CLASSES_MAX)
		return problem_set(problem, -EINVAL, "%u classes do not fit the model (1 to %d)",
			config->classes, MODEL_CLASSES_MAX);
	if (config->max_rows < 1 || config->max_rows > MODEL_ROWS_MAX || config->hidden < 1 ||
		config->hidden > MODEL_CLASSES_MAX)
		return problem_set(problem, -EINVAL,
			"batches of %u rows, %u hidden units: too many", config->max_rows,
			config->hidden);
	return 0;
}

static int backend_choose(struct backend **backend, const struct model_config *config,
	const struct device *device, struct problem *problem)
{
	int r;

	problem->text[0] = '\0';
	if (device->kind == DEVICE_CPU)
		return backend_cpu_create(backend, config, problem);
	r = backend_cuda_create(backend, config, device->index, problem);
	if (r == BACKEND_UNAVAILABLE && device->kind == DEVICE_AUTO)
		return backend_cpu_create(backend, config, problem);
	return r == BACKEND_UNAVAILABLE ? -ENODEV : r;
}

static int allocate_all(struct model *model)
{
	const struct model_config *config = &model->config;
	size_t hidden = (size_t)config->max_rows * config->hidden;
	struct {
		float **floats;
		size_t count;
	} wanted[] = {
		{&model->weights, model->parameters},
		{&model->gradients, model->parameters},
		{&model->hidden, hidden},
		{&model->hidden_gradient, hidden},
		{&model->logits, (size_t)config->max_rows * config->classes},
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		int r = model->backend->ops->allocate(
			model->backend, wanted[i].count, wanted[i].floats);

		if (r < 0)
			return r;
	}
	return 0;
}

int model_create(struct model **created, const struct model_config *config,
	const struct device *device, struct problem *problem)
{
	struct model *model;
	int r = config_check(config, problem);

	if (r < 0)
		return r;
	model = calloc(1, sizeof(*model));
	if (!model)
		return problem_set(problem, -ENOMEM, "out of memory");
	model->config = *config;
	model->parameters = model_weights_count(config);
	r = backend_choose(&model->backend, config, device, problem);
	if (r == 0) {
		r = allocate_all(model);
		if (r < 0)
			*problem = model->backend->problem;
	}
	if (r < 0) {
		model_destroy(model);
		return r;
	}
	*created = model;
	return 0;
}

void model_destroy(struct model *model)
{
	if (!model)
		return;
	if (model->backend)
		model->backend->ops->destroy(model->backend);
	free(model);
}

const char *model_problem(const struct model *model)
{
	return model->backend->problem.text;
}

const char *model_device(const struct model *model)
{
	return model->backend->name;
}

int model_weights_get(struct model *model, float *weights)
{
	return model->backend->ops->read(
		model->backend, weights, model->weights, model->parameters);
}

int model_weights_set(struct model *model, const float *weights)
{
	return model->backend->ops->write(
		model->backend, model->weights, weights, model->parameters);
}

int model_attach(struct model *model, const void *arena, size_t bytes)
{
	return model->backend->ops->attach(model->backend, arena, bytes);
}

uint64_t model_queued(const struct model *model)
{
	return model->queued;
}

int model_consumed(struct model *model, bool wait, uint64_t *count)
{
	return model->backend->ops->consumed(model->backend, wait, count);
}

int model_step_loss(struct model *model, float *loss)
{
	return model->backend->ops->step_loss(model->backend, loss);
}

int model_totals(struct model *model, struct model_totals *totals)
{
	return model->backend->ops->totals(model->backend, totals);
}

int backend_take_labels(struct backend *backend, const struct model_batch *batch, int32_t *labels)
{
	memcpy(labels, batch->labels, batch->rows * sizeof(labels[0]));
	for (uint32_t i = 0; i < batch->rows; i++) {
		if (labels[i] >= 0 && (uint32_t)labels[i] < backend->classes)
			continue;
		return problem_set(&backend->problem, -EINVAL,
			"sample %lld has the label %d, which is outside 0..%u",
			batch->samples ? (long long)batch->samples[i] : (long long)i, labels[i],
			backend->classes - 1);
	}
	return 0;
}

/* hidden = relu(x w1' + b1), logits = hidden w2'; the loss adds b2. */
static int forward(struct model *model, const struct backend_batch *batch)
{
	const struct model_config *config = &model->config;
	const struct backend_ops *ops = model->backend->ops;
	struct backend *backend = model->backend;
	struct parts w = parts_of(config, model->weights);
	int r;

	r = ops->multiply(backend, false, true, batch->rows, config->hidden, inputs_of(config),
		batch->x, w.w1, model->hidden);
	if (r == 0)
		r = ops->activate(backend, model->hidden, w.b1, batch->rows, config->hidden);
	if (r == 0)
		r = ops->multiply(backend, false, true, batch->rows, config->classes,
			config->hidden, model->hidden, w.w2, model->logits);
	return r;
}

/* The second layer: from the gradient of the logits to those of w2, b2 and of hidden's input. */
static int backward_output(struct model *model, const struct backend_batch *batch)
{
	const struct model_config *config = &model->config;
	const struct backend_ops *ops = model->backend->ops;
	struct backend *backend = model->backend;
	struct parts w = parts_of(config, model->weights);
	struct parts g = parts_of(config, model->gradients);
	int r;

	r = ops->multiply(backend, true, false, config->classes, config->hidden, batch->rows,
		model->logits, model->hidden, g.w2);
	if (r == 0)
		r = ops->column_sums(backend, model->logits, batch->rows, config->classes, g.b2);
	if (r == 0)
		r = ops->multiply(backend, false, false, batch->rows, config->hidden,
			config->classes, model->logits, w.w2, model->hidden_gradient);
	if (r == 0)
		r = ops->deactivate(backend, model->hidden_gradient, model->hidden,
			(size_t)batch->rows * config->hidden);
	return r;
}

/* The first layer: from the gradient of hidden's input to those of w1 and b1. */
static int backward_hidden(struct model *model, const struct backend_batch *batch)
{
	const struct model_config *config = &model->config;
	const struct backend_ops *ops = model->backend->ops;
	struct parts g = parts_of(config, model->gradients);
	int r;

	r = ops->multiply(model->backend, true, false, config->hidden, inputs_of(config),
		batch->rows, model->hidden_gradient, batch->x, g.w1);
	if (r == 0)
		r = ops->column_sums(
			model->backend, model->hidden_gradient, batch->rows, config->hidden, g.b1);
	return r;
}

static int run(struct model *model, const struct backend_batch *batch, bool train)
{
	struct parts w = parts_of(&model->config, model->weights);
	const struct backend_ops *ops = model->backend->ops;
	int r;

	r = forward(model, batch);
	if (r == 0)
		r = ops->loss(
			model->backend, batch, model->logits, w.b2, model->config.classes, train);
	if (r < 0 || !train)
		return r;
	r = backward_output(model, batch);
	if (r == 0)
		r = backward_hidden(model, batch);
	if (r == 0)
		r = ops->update(model->backend, model->weights, model->gradients, model->parameters,
			model->config.rate);
	return r;
}

static int step(struct model *model, const struct model_batch *batch, bool train)
{
	const struct backend_ops *ops = model->backend->ops;
	struct backend_batch on_device;
	int r, ended;

	if (batch->rows < 1 || batch->rows > model->config.max_rows)
		return problem_set(&model->backend->problem, -EINVAL,
			"a batch of %u rows, expected 1 to %u", batch->rows,
			model->config.max_rows);
	r = ops->begin(model->backend, batch, &on_device);
	if (r < 0)
		return r;
	r = run(model, &on_device, train);
	ended = ops->end(model->backend);
	model->queued++;
	return r < 0 ? r : ended;
}

int model_train(struct model *model, const struct model_batch *batch)
{
	return step(model, batch, true);
}

int model_evaluate(struct model *model, const struct model_batch *batch)
{
	return step(model, batch, false);
}
