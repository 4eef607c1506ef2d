/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/backend.h"
#include "trainer/model_math.h"

#include <cblas.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALLOCATIONS_MAX = 8 };

/* Every operation is done when its function returns. */
struct cpu {
	struct backend backend;
	float *allocations[ALLOCATIONS_MAX];
	unsigned allocated;
	float *normalised; /* max_rows x inputs; NULL when the batches are F32 */
	int32_t *labels;   /* max_rows */
	struct timespec began;
	struct model_totals totals;
	float last_loss;
	uint64_t batches;
};

/* OpenBLAS has it, other CBLAS libraries do not. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

static struct cpu *cpu_of(struct backend *backend)
{
	return (struct cpu *)backend;
}

static void cpu_destroy(struct backend *backend)
{
	struct cpu *cpu = cpu_of(backend);

	for (unsigned i = 0; i < cpu->allocated; i++)
		free(cpu->allocations[i]);
	free(cpu->normalised);
	free(cpu->labels);
	free(cpu);
}

static int cpu_allocate(struct backend *backend, size_t count, float **floats)
{
	struct cpu *cpu = cpu_of(backend);
	size_t bytes = (count * sizeof(float) + 63) / 64 * 64;

	if (cpu->allocated == ALLOCATIONS_MAX)
		return problem_set(&backend->problem, -ENOBUFS, "too many buffers");
	*floats = aligned_alloc(64, bytes);
	if (!*floats)
		return problem_set(
			&backend->problem, -ENOMEM, "out of memory for %zu bytes", bytes);
	memset(*floats, 0, bytes);
	cpu->allocations[cpu->allocated++] = *floats;
	return 0;
}

static int cpu_copy(struct backend *backend, float *to, const float *from, size_t count)
{
	(void)backend;
	memcpy(to, from, count * sizeof(*to));
	return 0;
}

static int cpu_attach(struct backend *backend, const void *arena, size_t bytes)
{
	(void)backend;
	(void)arena;
	(void)bytes;
	return 0;
}

static int cpu_consumed(struct backend *backend, bool wait, uint64_t *count)
{
	(void)wait;
	*count = cpu_of(backend)->batches;
	return 0;
}

static int cpu_step_loss(struct backend *backend, float *loss)
{
	*loss = cpu_of(backend)->last_loss;
	return 0;
}

static int cpu_totals(struct backend *backend, struct model_totals *totals)
{
	struct cpu *cpu = cpu_of(backend);

	*totals = cpu->totals;
	cpu->totals = (struct model_totals){0};
	return 0;
}

static void normalise(struct cpu *cpu, const uint8_t *bytes, uint32_t rows)
{
	const struct model_input *input = &cpu->backend.input;
	float *out = cpu->normalised;

	for (size_t plane = 0; plane < (size_t)rows * input->channels; plane++) {
		const float *table = model_table(input->table[0], input->channels, plane);

		for (uint32_t i = 0; i < input->plane; i++)
			*out++ = table[*bytes++];
	}
}

/* The batch's pixels as floats. */
static const float *widen(struct cpu *cpu, const struct model_batch *batch)
{
	size_t count = backend_inputs(&cpu->backend) * batch->rows;
	const uint16_t *halves = batch->pixels;

	switch (cpu->backend.input.values) {
	case MODEL_F32: return batch->pixels;
	case MODEL_U8: normalise(cpu, batch->pixels, batch->rows); break;
	case MODEL_F16:
		for (size_t i = 0; i < count; i++)
			cpu->normalised[i] = model_from_f16(halves[i]);
		break;
	case MODEL_BF16:
		for (size_t i = 0; i < count; i++)
			cpu->normalised[i] = model_from_bf16(halves[i]);
		break;
	}
	return cpu->normalised;
}

static int cpu_begin(
	struct backend *backend, const struct model_batch *batch, struct backend_batch *on_device)
{
	struct cpu *cpu = cpu_of(backend);
	int r;

	clock_gettime(CLOCK_MONOTONIC, &cpu->began);
	r = backend_take_labels(backend, batch, cpu->labels);
	if (r < 0)
		return r;
	on_device->rows = batch->rows;
	on_device->labels = cpu->labels;
	on_device->x = widen(cpu, batch);
	return 0;
}

static int cpu_end(struct backend *backend)
{
	struct cpu *cpu = cpu_of(backend);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	cpu->totals.busy_seconds += (double)(now.tv_sec - cpu->began.tv_sec) +
				    1e-9 * (double)(now.tv_nsec - cpu->began.tv_nsec);
	cpu->batches++;
	return 0;
}

static int cpu_multiply(struct backend *backend, bool transpose_a, bool transpose_b, uint32_t m,
	uint32_t n, uint32_t k, const float *a, const float *b, float *c)
{
	(void)backend;
	cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
		transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a,
		(int)(transpose_a ? m : k), b, (int)(transpose_b ? k : n), 0.0f, c, (int)n);
	return 0;
}

static int cpu_activate(
	struct backend *backend, float *x, const float *bias, uint32_t rows, uint32_t columns)
{
	(void)backend;
	for (uint32_t row = 0; row < rows; row++, x += columns)
		for (uint32_t i = 0; i < columns; i++)
			x[i] = model_relu(x[i] + bias[i]);
	return 0;
}

static int cpu_deactivate(struct backend *backend, float *gradient, const float *x, size_t count)
{
	(void)backend;
	for (size_t i = 0; i < count; i++)
		gradient[i] = model_relu_gradient(gradient[i], x[i]);
	return 0;
}

static int cpu_loss(struct backend *backend, const struct backend_batch *batch, float *logits,
	const float *bias, uint32_t classes, bool gradient)
{
	struct cpu *cpu = cpu_of(backend);
	float scale = 1.0f / (float)batch->rows;
	double loss = 0.0;

	for (uint32_t row = 0; row < batch->rows; row++) {
		bool correct;

		loss += model_cross_entropy(logits + (size_t)row * classes, bias, classes,
			batch->labels[row], gradient, scale, &correct);
		cpu->totals.correct += correct;
	}
	cpu->totals.loss += loss;
	cpu->totals.rows += batch->rows;
	cpu->last_loss = (float)(loss / batch->rows);
	return 0;
}

static int cpu_column_sums(
	struct backend *backend, const float *x, uint32_t rows, uint32_t columns, float *sums)
{
	(void)backend;
	memset(sums, 0, columns * sizeof(*sums));
	for (uint32_t row = 0; row < rows; row++, x += columns)
		for (uint32_t i = 0; i < columns; i++)
			sums[i] += x[i];
	return 0;
}

static int cpu_update(
	struct backend *backend, float *weights, const float *gradients, size_t count, float rate)
{
	(void)backend;
	for (size_t i = 0; i < count; i++)
		weights[i] = model_sgd(weights[i], gradients[i], rate);
	return 0;
}

static const struct backend_ops cpu_ops = {
	.destroy = cpu_destroy,
	.allocate = cpu_allocate,
	.write = cpu_copy,
	.read = cpu_copy,
	.attach = cpu_attach,
	.consumed = cpu_consumed,
	.step_loss = cpu_step_loss,
	.totals = cpu_totals,
	.begin = cpu_begin,
	.end = cpu_end,
	.multiply = cpu_multiply,
	.activate = cpu_activate,
	.deactivate = cpu_deactivate,
	.loss = cpu_loss,
	.column_sums = cpu_column_sums,
	.update = cpu_update,
};

/* More threads than one do not pay for matrices of this size, and the loader needs the CPUs. */
static void set_threads(struct cpu *cpu)
{
	int threads = 1;

	if (!getenv("OPENBLAS_NUM_THREADS") && !getenv("OMP_NUM_THREADS") &&
		openblas_set_num_threads)
		openblas_set_num_threads(1);
	if (openblas_get_num_threads)
		threads = openblas_get_num_threads();
	snprintf(cpu->backend.name, sizeof(cpu->backend.name), "CPU (%d thread%s)", threads,
		threads == 1 ? "" : "s");
}

int backend_cpu_create(
	struct backend **backend, const struct model_config *config, struct problem *problem)
{
	struct cpu *cpu = calloc(1, sizeof(*cpu));
	size_t values = (size_t)config->input.channels * config->input.plane * config->max_rows;

	if (!cpu)
		return problem_set(problem, -ENOMEM, "out of memory");
	cpu->backend.ops = &cpu_ops;
	cpu->backend.input = config->input;
	cpu->backend.classes = config->classes;
	cpu->backend.max_rows = config->max_rows;
	cpu->labels = malloc(config->max_rows * sizeof(*cpu->labels));
	if (config->input.values != MODEL_F32)
		cpu->normalised = malloc(values * sizeof(*cpu->normalised));
	if (!cpu->labels || (config->input.values != MODEL_F32 && !cpu->normalised)) {
		cpu_destroy(&cpu->backend);
		return problem_set(
			problem, -ENOMEM, "out of memory for batches of %u rows", config->max_rows);
	}
	set_threads(cpu);
	*backend = &cpu->backend;
	return 0;
}
