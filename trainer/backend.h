/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/model.h"

/*
 * A device as the model sees it: memory, batches on their way in, and six operations on float
 * matrices, stored row by row without gaps. Operations may be queued; they run in order. Pointers
 * from allocate() and begin() belong to the device and are not for the host to follow.
 *
 * Functions return 0 or a negative errno with backend->problem filled.
 */
struct backend;

/* The batch that begin() has brought to the device. */
struct backend_batch {
	const float *x;        /* rows x inputs, normalised */
	const int32_t *labels; /* rows, checked */
	uint32_t rows;
};

struct backend_ops {
	void (*destroy)(struct backend *backend);

	/* `count` floats, all 0; freed by destroy. */
	int (*allocate)(struct backend *backend, size_t count, float **floats);
	int (*write)(struct backend *backend, float *device, const float *host, size_t count);
	/* Waits for what is queued. */
	int (*read)(struct backend *backend, float *host, const float *device, size_t count);

	/* See model_attach, model_consumed, model_step_loss, model_totals. */
	int (*attach)(struct backend *backend, const void *arena, size_t bytes);
	int (*consumed)(struct backend *backend, bool wait, uint64_t *count);
	int (*step_loss)(struct backend *backend, float *loss);
	int (*totals)(struct backend *backend, struct model_totals *totals);

	/* Around the operations on one batch. */
	int (*begin)(struct backend *backend, const struct model_batch *batch,
		struct backend_batch *on_device);
	int (*end)(struct backend *backend);

	/* c (m x n) = op(a) op(b), with op(a) m x k and op(b) k x n; op transposes where told. */
	int (*multiply)(struct backend *backend, bool transpose_a, bool transpose_b, uint32_t m,
		uint32_t n, uint32_t k, const float *a, const float *b, float *c);
	/* x = relu(x + bias), bias by column */
	int (*activate)(struct backend *backend, float *x, const float *bias, uint32_t rows,
		uint32_t columns);
	/* gradient = gradient of relu's input, where x is relu's output */
	int (*deactivate)(struct backend *backend, float *gradient, const float *x, size_t count);
	/* Cross entropy of each row into the totals; with `gradient` the logits become the gradient
	 * of the batch's mean loss. */
	int (*loss)(struct backend *backend, const struct backend_batch *batch, float *logits,
		const float *bias, uint32_t classes, bool gradient);
	int (*column_sums)(struct backend *backend, const float *x, uint32_t rows, uint32_t columns,
		float *sums);
	int (*update)(struct backend *backend, float *weights, const float *gradients, size_t count,
		float rate);
};

struct backend {
	const struct backend_ops *ops;
	struct model_input input;
	uint32_t classes;
	uint32_t max_rows;
	char name[128];
	struct problem problem;
};

/* Copy a batch's labels, which may lie in memory that others write, and check the copy. */
int backend_take_labels(struct backend *backend, const struct model_batch *batch, int32_t *labels);

static inline size_t backend_inputs(const struct backend *backend)
{
	return (size_t)backend->input.channels * backend->input.plane;
}

enum {
	BACKEND_UNAVAILABLE = 1, /* no such device here; the problem says why */
};

/* A new backend for `config`, 0, BACKEND_UNAVAILABLE or a negative errno. */
int backend_cpu_create(
	struct backend **backend, const struct model_config *config, struct problem *problem);
int backend_cuda_create(struct backend **backend, const struct model_config *config, int index,
	struct problem *problem);
