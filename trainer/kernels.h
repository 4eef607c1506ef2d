/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Launchers of the CUDA kernels. All pointers are device memory, all work is queued on `stream`, and
 * the result is that of the launch, not of the kernel's run. Matrices lie row by row without gaps.
 * The formulas are those of model_math.h.
 */
#ifdef __cplusplus
extern "C" {
#endif

/* What kernel_loss adds up; lies on the device, all 0 at first. */
struct kernel_totals {
	double loss;
	unsigned long long rows, correct;
	float last_loss; /* mean of the last batch */
};

/* Can the current device run these kernels? cudaErrorNoKernelImageForDevice when it is too old. */
cudaError_t kernels_check(void);

/* x[i] = tables[channel of i][bytes[i]]; `planes` planes of `plane` bytes, channels in turn. */
cudaError_t kernel_normalise(cudaStream_t stream, const uint8_t *bytes, const float *tables,
	uint32_t channels, uint32_t plane, size_t planes, float *x);

/* x = the values of IEEE halves, or of bfloat16s, by their bits */
cudaError_t kernel_widen(
	cudaStream_t stream, const uint16_t *halves, bool is_bfloat, size_t count, float *x);

/* x = relu(x + bias), bias by column */
cudaError_t kernel_activate(
	cudaStream_t stream, float *x, const float *bias, uint32_t rows, uint32_t columns);

/* gradient = gradient of relu's input, x = relu's output */
cudaError_t kernel_deactivate(cudaStream_t stream, float *gradient, const float *x, size_t count);

/* Cross entropy of each row into `totals`; `row_loss` and `row_correct` (rows each) are scratch. With
 * `gradient` the logits become the gradient of the mean loss. */
cudaError_t kernel_loss(cudaStream_t stream, float *logits, const float *bias,
	const int32_t *labels, uint32_t rows, uint32_t classes, bool gradient, float *row_loss,
	uint32_t *row_correct, struct kernel_totals *totals);

/* sums[column] = sum of the column */
cudaError_t kernel_column_sums(
	cudaStream_t stream, const float *x, uint32_t rows, uint32_t columns, float *sums);

/* weights -= rate * gradients */
cudaError_t kernel_update(
	cudaStream_t stream, float *weights, const float *gradients, size_t count, float rate);

#ifdef __cplusplus
}
#endif
