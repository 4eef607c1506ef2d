/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/kernels.h"
#include "trainer/model_math.h"

static const unsigned THREADS = 256, BLOCKS_MAX = 65535;

/* Threads take elements i, i + all threads, ... so that any count fits any grid. */
#define FOR_EACH(i, count)                                                                         \
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                \
		i += (size_t)gridDim.x * blockDim.x)

static unsigned blocks_for(size_t count)
{
	size_t blocks = (count + THREADS - 1) / THREADS;

	return blocks < 1 ? 1 : blocks > BLOCKS_MAX ? BLOCKS_MAX : (unsigned)blocks;
}

static __global__ void normalise(const uint8_t *bytes, const float *tables, uint32_t channels,
	uint32_t plane, size_t planes, float *x)
{
	for (size_t p = blockIdx.y; p < planes; p += gridDim.y) {
		const float *table = model_table(tables, channels, p);

		FOR_EACH(i, plane)
		x[p * plane + i] = table[bytes[p * plane + i]];
	}
}

static __global__ void widen(const uint16_t *halves, bool is_bfloat, size_t count, float *x)
{
	FOR_EACH(i, count)
	x[i] = is_bfloat ? model_from_bf16(halves[i]) : model_from_f16(halves[i]);
}

static __global__ void activate(float *x, const float *bias, size_t count, uint32_t columns)
{
	FOR_EACH(i, count)
	x[i] = model_relu(x[i] + bias[i % columns]);
}

static __global__ void deactivate(float *gradient, const float *x, size_t count)
{
	FOR_EACH(i, count)
	gradient[i] = model_relu_gradient(gradient[i], x[i]);
}

/* One thread per row: rows are short, and a batch has dozens of them. */
static __global__ void loss_rows(float *logits, const float *bias, const int32_t *labels,
	uint32_t rows, uint32_t classes, bool gradient, float *row_loss, uint32_t *row_correct)
{
	FOR_EACH(row, rows)
	{
		bool correct;

		row_loss[row] = model_cross_entropy(logits + row * classes, bias, classes,
			labels[row], gradient, 1.0f / (float)rows, &correct);
		row_correct[row] = correct;
	}
}

/* One block, so that the sum is taken in the same order every time. */
static __global__ void add_totals(const float *row_loss, const uint32_t *row_correct, uint32_t rows,
	struct kernel_totals *totals)
{
	__shared__ double loss[THREADS];
	__shared__ uint32_t correct[THREADS];

	loss[threadIdx.x] = 0.0;
	correct[threadIdx.x] = 0;
	for (uint32_t row = threadIdx.x; row < rows; row += THREADS) {
		loss[threadIdx.x] += row_loss[row];
		correct[threadIdx.x] += row_correct[row];
	}
	for (unsigned half = THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half) {
			loss[threadIdx.x] += loss[threadIdx.x + half];
			correct[threadIdx.x] += correct[threadIdx.x + half];
		}
	}
	if (threadIdx.x == 0) {
		totals->loss += loss[0];
		totals->correct += correct[0];
		totals->rows += rows;
		totals->last_loss = (float)(loss[0] / rows);
	}
}

/* One thread per column: neighbours read neighbours, row after row. */
static __global__ void column_sums(const float *x, uint32_t rows, uint32_t columns, float *sums)
{
	FOR_EACH(column, columns)
	{
		float sum = 0.0f;

		for (uint32_t row = 0; row < rows; row++)
			sum += x[(size_t)row * columns + column];
		sums[column] = sum;
	}
}

static __global__ void update(float *weights, const float *gradients, size_t count, float rate)
{
	FOR_EACH(i, count)
	weights[i] = model_sgd(weights[i], gradients[i], rate);
}

cudaError_t kernels_check(void)
{
	struct cudaFuncAttributes attributes;

	return cudaFuncGetAttributes(&attributes, (const void *)update);
}

cudaError_t kernel_normalise(cudaStream_t stream, const uint8_t *bytes, const float *tables,
	uint32_t channels, uint32_t plane, size_t planes, float *x)
{
	dim3 grid(blocks_for(plane), planes < BLOCKS_MAX ? (unsigned)planes : BLOCKS_MAX);

	normalise<<<grid, THREADS, 0, stream>>>(bytes, tables, channels, plane, planes, x);
	return cudaGetLastError();
}

cudaError_t kernel_widen(
	cudaStream_t stream, const uint16_t *halves, bool is_bfloat, size_t count, float *x)
{
	widen<<<blocks_for(count), THREADS, 0, stream>>>(halves, is_bfloat, count, x);
	return cudaGetLastError();
}

cudaError_t kernel_activate(
	cudaStream_t stream, float *x, const float *bias, uint32_t rows, uint32_t columns)
{
	size_t count = (size_t)rows * columns;

	activate<<<blocks_for(count), THREADS, 0, stream>>>(x, bias, count, columns);
	return cudaGetLastError();
}

cudaError_t kernel_deactivate(cudaStream_t stream, float *gradient, const float *x, size_t count)
{
	deactivate<<<blocks_for(count), THREADS, 0, stream>>>(gradient, x, count);
	return cudaGetLastError();
}

cudaError_t kernel_loss(cudaStream_t stream, float *logits, const float *bias,
	const int32_t *labels, uint32_t rows, uint32_t classes, bool gradient, float *row_loss,
	uint32_t *row_correct, struct kernel_totals *totals)
{
	cudaError_t error;

	loss_rows<<<blocks_for(rows), THREADS, 0, stream>>>(
		logits, bias, labels, rows, classes, gradient, row_loss, row_correct);
	error = cudaGetLastError();
	if (error != cudaSuccess)
		return error;
	add_totals<<<1, THREADS, 0, stream>>>(row_loss, row_correct, rows, totals);
	return cudaGetLastError();
}

cudaError_t kernel_column_sums(
	cudaStream_t stream, const float *x, uint32_t rows, uint32_t columns, float *sums)
{
	column_sums<<<blocks_for(columns), THREADS, 0, stream>>>(x, rows, columns, sums);
	return cudaGetLastError();
}

cudaError_t kernel_update(
	cudaStream_t stream, float *weights, const float *gradients, size_t count, float rate)
{
	update<<<blocks_for(count), THREADS, 0, stream>>>(weights, gradients, count, rate);
	return cudaGetLastError();
}
