/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/cuda_backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cuda_allocate(struct cuda *cuda, size_t bytes, void **memory)
{
	int r;

	if (cuda->allocated == CUDA_ALLOCATIONS)
		return problem_set(&cuda->backend.problem, -ENOBUFS, "too many buffers");
	r = cuda_check(cuda, cudaMalloc(memory, bytes), "cudaMalloc");
	if (r < 0)
		return r;
	cuda->allocations[cuda->allocated++] = *memory;
	return cuda_check(
		cuda, cudaMemsetAsync(*memory, 0, bytes, cuda->compute), "cudaMemsetAsync");
}

static int cuda_allocate_floats(struct backend *backend, size_t count, float **floats)
{
	void *memory = NULL;
	int r = cuda_allocate(cuda_of(backend), count * sizeof(float), &memory);

	*floats = memory;
	return r;
}

/* Copy in the order of the compute stream and wait until it is done. */
static int copy_and_wait(struct cuda *cuda, void *to, const void *from, size_t bytes)
{
	int r = cuda_check(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda->compute),
		"cudaMemcpyAsync");

	if (r < 0)
		return r;
	return cuda_check(cuda, cudaStreamSynchronize(cuda->compute), "cudaStreamSynchronize");
}

static int cuda_write(struct backend *backend, float *device, const float *host, size_t count)
{
	return copy_and_wait(cuda_of(backend), device, host, count * sizeof(float));
}

static int cuda_read(struct backend *backend, float *host, const float *device, size_t count)
{
	return copy_and_wait(cuda_of(backend), host, device, count * sizeof(float));
}

static int cuda_step_loss(struct backend *backend, float *loss)
{
	struct cuda *cuda = cuda_of(backend);
	int r = copy_and_wait(cuda, cuda->host_totals, cuda->totals, sizeof(*cuda->totals));

	*loss = cuda->host_totals->last_loss;
	return r;
}

static int cuda_totals(struct backend *backend, struct model_totals *totals)
{
	struct cuda *cuda = cuda_of(backend);
	int r = copy_and_wait(cuda, cuda->host_totals, cuda->totals, sizeof(*cuda->totals));

	if (r == 0)
		r = cuda_check(cuda,
			cudaMemsetAsync(cuda->totals, 0, sizeof(*cuda->totals), cuda->compute),
			"cudaMemsetAsync");
	if (r == 0)
		r = cuda_harvest_all(cuda);
	*totals = (struct model_totals){
		.loss = cuda->host_totals->loss,
		.rows = cuda->host_totals->rows,
		.correct = cuda->host_totals->correct,
		.busy_seconds = cuda->busy_seconds,
	};
	cuda->busy_seconds = 0;
	return r;
}

/*
 * cuBLAS takes matrices column by column. A matrix that lies row by row, r x c, is for cuBLAS its
 * transpose, c x r with leading dimension c. Wanted is C = op(A) op(B), row by row (m x n, k between);
 * cuBLAS must then write C' column by column:
 *
 *   C' = (op(A) op(B))' = op(B)' op(A)'      n x m, leading dimension n
 *
 * For cuBLAS, B without transposition (k x n by rows) already is B' = op(B)' (n x k, leading
 * dimension n): it gets OP_N. With transposition B (n x k by rows) is for cuBLAS k x n, leading
 * dimension k, and op(B)' = (B')' = B: it gets OP_T. The same holds for A. So: swap the operands, swap m
 * and n, keep each operand's flag, and let each leading dimension be its row length.
 */
static int cuda_multiply(struct backend *backend, bool transpose_a, bool transpose_b, uint32_t m,
	uint32_t n, uint32_t k, const float *a, const float *b, float *c)
{
	static const float one = 1.0f, zero = 0.0f;
	struct cuda *cuda = cuda_of(backend);
	int row_a = (int)(transpose_a ? m : k);
	int row_b = (int)(transpose_b ? k : n);

	return cublas_check(cuda,
		cublasSgemm(cuda->blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
			transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n, (int)m, (int)k, &one, b,
			row_b, a, row_a, &zero, c, (int)n),
		"cublasSgemm");
}

static int cuda_activate(
	struct backend *backend, float *x, const float *bias, uint32_t rows, uint32_t columns)
{
	struct cuda *cuda = cuda_of(backend);

	return cuda_check(
		cuda, kernel_activate(cuda->compute, x, bias, rows, columns), "kernel activate");
}

static int cuda_deactivate(struct backend *backend, float *gradient, const float *x, size_t count)
{
	struct cuda *cuda = cuda_of(backend);

	return cuda_check(
		cuda, kernel_deactivate(cuda->compute, gradient, x, count), "kernel deactivate");
}

static int cuda_loss(struct backend *backend, const struct backend_batch *batch, float *logits,
	const float *bias, uint32_t classes, bool gradient)
{
	struct cuda *cuda = cuda_of(backend);

	return cuda_check(cuda,
		kernel_loss(cuda->compute, logits, bias, batch->labels, batch->rows, classes,
			gradient, cuda->row_loss, cuda->row_correct, cuda->totals),
		"kernel loss");
}

static int cuda_column_sums(
	struct backend *backend, const float *x, uint32_t rows, uint32_t columns, float *sums)
{
	struct cuda *cuda = cuda_of(backend);

	return cuda_check(cuda, kernel_column_sums(cuda->compute, x, rows, columns, sums),
		"kernel column_sums");
}

static int cuda_update(
	struct backend *backend, float *weights, const float *gradients, size_t count, float rate)
{
	struct cuda *cuda = cuda_of(backend);

	return cuda_check(cuda, kernel_update(cuda->compute, weights, gradients, count, rate),
		"kernel update");
}

static void cuda_destroy(struct backend *backend)
{
	struct cuda *cuda = cuda_of(backend);

	cuda_batches_finish(cuda);
	for (unsigned i = 0; i < cuda->allocated; i++)
		cudaFree(cuda->allocations[i]);
	cudaFreeHost(cuda->host_totals);
	if (cuda->blas)
		cublasDestroy(cuda->blas);
	if (cuda->copy)
		cudaStreamDestroy(cuda->copy);
	if (cuda->compute)
		cudaStreamDestroy(cuda->compute);
	free(cuda);
}

static const struct backend_ops cuda_ops = {
	.destroy = cuda_destroy,
	.allocate = cuda_allocate_floats,
	.write = cuda_write,
	.read = cuda_read,
	.attach = cuda_attach,
	.consumed = cuda_consumed,
	.step_loss = cuda_step_loss,
	.totals = cuda_totals,
	.begin = cuda_begin,
	.end = cuda_end,
	.multiply = cuda_multiply,
	.activate = cuda_activate,
	.deactivate = cuda_deactivate,
	.loss = cuda_loss,
	.column_sums = cuda_column_sums,
	.update = cuda_update,
};

static int create_streams(struct cuda *cuda)
{
	int r = cuda_check(cuda, cudaStreamCreateWithFlags(&cuda->compute, cudaStreamNonBlocking),
		"cudaStreamCreateWithFlags");

	if (r == 0)
		r = cuda_check(cuda, cudaStreamCreateWithFlags(&cuda->copy, cudaStreamNonBlocking),
			"cudaStreamCreateWithFlags");
	if (r == 0)
		r = cublas_check(cuda, cublasCreate(&cuda->blas), "cublasCreate");
	if (r == 0)
		r = cublas_check(
			cuda, cublasSetStream(cuda->blas, cuda->compute), "cublasSetStream");
	return r;
}

static int create_memory(struct cuda *cuda)
{
	size_t rows = cuda->backend.max_rows;
	int r;

	r = cuda_allocate(cuda, rows * sizeof(*cuda->row_loss), (void **)&cuda->row_loss);
	if (r == 0)
		r = cuda_allocate(
			cuda, rows * sizeof(*cuda->row_correct), (void **)&cuda->row_correct);
	if (r == 0)
		r = cuda_allocate(cuda, sizeof(*cuda->totals), (void **)&cuda->totals);
	if (r == 0)
		r = cuda_check(cuda,
			cudaMallocHost((void **)&cuda->host_totals, sizeof(*cuda->host_totals)),
			"cudaMallocHost");
	return r;
}

int backend_cuda_create(struct backend **backend, const struct model_config *config, int index,
	struct problem *problem)
{
	struct cuda *cuda = calloc(1, sizeof(*cuda));
	int r;

	if (!cuda)
		return problem_set(problem, -ENOMEM, "out of memory");
	cuda->backend.ops = &cuda_ops;
	cuda->backend.input = config->input;
	cuda->backend.classes = config->classes;
	cuda->backend.max_rows = config->max_rows;
	r = cuda_select(cuda, index, problem);
	if (r != 0) {
		free(cuda);
		return r;
	}
	r = create_streams(cuda);
	if (r == 0)
		r = create_memory(cuda);
	if (r == 0)
		r = cuda_batches_init(cuda);
	if (r < 0) {
		*problem = cuda->backend.problem;
		cuda_destroy(&cuda->backend);
		return r;
	}
	*backend = &cuda->backend;
	return 0;
}
