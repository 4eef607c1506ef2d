/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The model's arithmetic, element by element. The CPU's loops and the CUDA kernels both call these
 * functions, so what the tests prove on the CPU holds for the kernels' formulas too.
 */
#ifdef __CUDACC__
#define MODEL_MATH static __host__ __device__ __forceinline__
#else
#define MODEL_MATH static inline
#endif

/* NaN stays NaN, so that a run that diverges shows it. */
MODEL_MATH float model_relu(float x)
{
	return x < 0.0f ? 0.0f : x;
}

/* The gradient of relu's input, from the gradient and the value of its output; 0 at 0 as in torch. */
MODEL_MATH float model_relu_gradient(float gradient, float output)
{
	return output <= 0.0f ? 0.0f : gradient;
}

/* One parameter of plain stochastic gradient descent. */
MODEL_MATH float model_sgd(float weight, float gradient, float rate)
{
	return weight - rate * gradient;
}

/* The table that gives a decoded byte the value that ToTensor and Normalize give it. `tables`: 256
 * values per channel; `plane`: number of the byte's plane in a batch laid out C,H,W. */
MODEL_MATH const float *model_table(const float *tables, uint32_t channels, size_t plane)
{
	return tables + plane % channels * 256;
}

/* The value of an IEEE 754 half, by its bits. NaN keeps what fits of its payload. */
MODEL_MATH float model_from_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
	union {
		uint32_t bits;
		float value;
	} out;

	if (magnitude < 0x0400) { /* zero and subnormal: multiples of 2^-24 */
		out.value = (float)magnitude * 0x1p-24f;
		out.bits |= sign;
	} else if (magnitude < 0x7c00) {
		out.bits = sign | ((magnitude << 13) + ((127u - 15u) << 23));
	} else {
		out.bits = sign | 0x7f800000u | (magnitude & 0x03ff) << 13;
	}
	return out.value;
}

/* The value of a bfloat16, by its bits. */
MODEL_MATH float model_from_bf16(uint16_t half)
{
	union {
		uint32_t bits;
		float value;
	} out;

	out.bits = (uint32_t)half << 16;
	return out.value;
}

/* Index of the largest value; the first one of equals, as torch.argmax. */
MODEL_MATH uint32_t model_argmax(const float *values, uint32_t count)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < count; i++)
		if (values[i] > values[best])
			best = i;
	return best;
}

/*
 * Cross entropy of one row, -log softmax(z)[label] with z = logits + bias. The maximum is taken out
 * before exp, so that no logit overflows:
 *   log softmax(z)[c] = z[c] - max - log sum_j exp(z[j] - max)
 * `logits` (classes) becomes z, or with `gradient` the gradient of the row's loss times `scale`:
 *   (softmax(z)[c] - [c == label]) * scale
 * `label` is in 0 .. classes-1. *correct: whether the largest z is the label's.
 */
MODEL_MATH float model_cross_entropy(float *logits, const float *bias, uint32_t classes,
	int32_t label, bool gradient, float scale, bool *correct)
{
	float maximum, log_sum, sum = 0.0f, loss;

	for (uint32_t c = 0; c < classes; c++)
		logits[c] += bias[c];
	maximum = logits[model_argmax(logits, classes)];
	for (uint32_t c = 0; c < classes; c++)
		sum += expf(logits[c] - maximum);
	log_sum = logf(sum);
	loss = log_sum - (logits[label] - maximum);
	*correct = model_argmax(logits, classes) == (uint32_t)label;
	if (!gradient)
		return loss;
	for (uint32_t c = 0; c < classes; c++) {
		float probability = expf(logits[c] - maximum - log_sum);

		logits[c] = (probability - (c == (uint32_t)label ? 1.0f : 0.0f)) * scale;
	}
	return loss;
}
