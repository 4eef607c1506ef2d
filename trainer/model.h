/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/problem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The network that is trained: x (inputs) -> hidden, ReLU -> classes, mean cross entropy, plain SGD.
 * The same sequence of operations runs on every device (backend.h).
 *
 *   model_create(&model, &config, &device, &problem);
 *   model_weights_set(model, weights);
 *   model_train(model, &batch);        queued; the pixels must stay readable until
 *   model_consumed(model, false, &n);  has n >= what model_queued(model) said after model_train
 *   model_totals(model, &totals);      waits for everything queued
 *   model_destroy(model);
 *
 * Functions return 0 or a negative errno, and model_problem() then has a sentence.
 */
enum {
	MODEL_CHANNELS_MAX = 3,
	MODEL_INPUTS_MAX = 1 << 24,
	MODEL_CLASSES_MAX = 1 << 20,
	MODEL_ROWS_MAX = 1 << 16,
};

/* What the pixels of a batch are. All of them become floats before the first layer. */
enum model_values {
	MODEL_F32,
	MODEL_F16,  /* IEEE 754 half */
	MODEL_BF16, /* the upper half of a float */
	MODEL_U8,   /* through a table */
};

static inline size_t model_value_bytes(enum model_values values)
{
	return values == MODEL_F32 ? 4 : values == MODEL_U8 ? 1 : 2;
}

/* What a sample looks like: `channels` planes of `plane` values each, as torch's flatten sees them. */
struct model_input {
	uint32_t channels; /* 1 .. MODEL_CHANNELS_MAX */
	uint32_t plane;    /* height x width */
	enum model_values values;
	float table[MODEL_CHANNELS_MAX][256]; /* U8: the value of each byte */
};

struct model_config {
	struct model_input input;
	uint32_t hidden, classes;
	uint32_t max_rows; /* of a batch */
	float rate;        /* learning rate */
};

/* Borrowed. Labels outside 0 .. classes-1 are refused. */
struct model_batch {
	const void *pixels;      /* rows x channels x plane values */
	const int32_t *labels;   /* rows */
	const uint64_t *samples; /* rows, for messages; may be NULL */
	uint32_t rows;           /* 1 .. max_rows; a short batch is averaged over its own rows */
};

struct model_totals {
	double loss; /* summed over rows */
	uint64_t rows, correct;
	double busy_seconds; /* during which the device copied or computed */
};

enum device_kind {
	DEVICE_AUTO, /* CUDA when it is usable, else the CPU */
	DEVICE_CPU,
	DEVICE_CUDA,
};

struct device {
	enum device_kind kind;
	int index; /* of the CUDA device */
};

struct model;

/* -EINVAL, -ENOMEM, -ENODEV (DEVICE_CUDA only), -EIO. With DEVICE_AUTO *problem says afterwards why
 * the CPU was taken, or is "". All weights are 0. */
int model_create(struct model **model, const struct model_config *config,
	const struct device *device, struct problem *problem);
void model_destroy(struct model *model);

const char *model_problem(const struct model *model);

/* For people, e.g. "NVIDIA H200 (cuda:0)". */
const char *model_device(const struct model *model);

/* Number of weights: hidden x inputs + hidden + classes x hidden + classes. They stand in this order,
 * matrices row by row: torch's state_dict of Linear, ReLU, Linear, flattened. */
size_t model_weights_count(const struct model_config *config);
int model_weights_get(struct model *model, float *weights);
int model_weights_set(struct model *model, const float *weights);

/* Batches will lie in this read-only memory. It may let a device copy without staging; it must stay
 * mapped until model_destroy. */
int model_attach(struct model *model, const void *arena, size_t bytes);

/* Queue one step of SGD / one forward pass. -EINVAL for a bad batch. */
int model_train(struct model *model, const struct model_batch *batch);
int model_evaluate(struct model *model, const struct model_batch *batch);

/* Batches queued so far, trained or evaluated, since model_create. */
uint64_t model_queued(const struct model *model);

/* How many of these have been read entirely, so that their pixels may go; with `wait` it first waits
 * for one more than were counted last. */
int model_consumed(struct model *model, bool wait, uint64_t *count);

/* Wait for the last batch and give its mean loss. */
int model_step_loss(struct model *model, float *loss);

/* Wait for everything queued; sums since the last call. */
int model_totals(struct model *model, struct model_totals *totals);
