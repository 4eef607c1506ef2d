/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/backend.h"
#include "trainer/kernels.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

/*
 * The CUDA device: inside of model_cuda.c (memory, operations) and cuda_batches.c (batches on their
 * way in, time).
 *
 * Two streams. For batch n, buffers b = n mod 2 and the events of ring entry n mod 8:
 *
 *   copy:     wait compute_end(n-2) | copy_start | pixels, labels -> device[b] | copy_end
 *   compute:  wait copy_end(n) | compute_start | normalise, the model's operations | compute_end
 *
 * so that batch n+1 is copied while n is computed and never overwrites what n still reads. The host
 * waits for copy_end(n-2) before it queues batch n: it is never more than two copies ahead, and the
 * pinned buffers of n-2 are free again.
 */
enum {
	CUDA_BUFFERS = 2,
	CUDA_RING = 8,
	CUDA_ARENAS = 4,
	CUDA_ALLOCATIONS = 16,
};

struct cuda_step {
	cudaEvent_t copy_start, copy_end, compute_start, compute_end;
};

struct cuda_buffer {
	void *pixels;         /* on the device, as they come */
	int32_t *labels;      /* on the device */
	int32_t *host_labels; /* pinned */
	void *host_pixels;    /* pinned; made when a batch first lies outside registered memory */
};

struct cuda_arena {
	const char *start;
	size_t bytes;
};

struct cuda {
	struct backend backend;
	int index;
	cudaStream_t compute, copy;
	cublasHandle_t blas;
	void *allocations[CUDA_ALLOCATIONS]; /* device memory */
	unsigned allocated;
	struct cuda_arena arenas[CUDA_ARENAS]; /* registered with the driver */
	unsigned arena_count;
	struct cuda_buffer buffers[CUDA_BUFFERS];
	struct cuda_step ring[CUDA_RING];
	uint64_t queued;    /* batches begun and ended */
	uint64_t consumed;  /* batches whose copy is known to have ended */
	uint64_t harvested; /* batches whose times are in busy_seconds */
	uint64_t period;    /* first batch since the last totals */
	double busy_seconds;
	float *tables;     /* channels x 256; u8 only */
	float *normalised; /* max_rows x inputs; none when batches are F32 */
	float *row_loss;
	uint32_t *row_correct;
	struct kernel_totals *totals;      /* on the device */
	struct kernel_totals *host_totals; /* pinned */
};

static inline struct cuda *cuda_of(struct backend *backend)
{
	return (struct cuda *)backend;
}

/* 0, or -EIO (-ENOMEM) with a problem that names the call and the device. */
int cuda_check(struct cuda *cuda, cudaError_t error, const char *call);
int cublas_check(struct cuda *cuda, cublasStatus_t status, const char *call);

/* Make device `index` the current one and name it. BACKEND_UNAVAILABLE with a problem that tells no
 * driver, an old driver, no device, no such device and a device that cannot be used apart. */
int cuda_select(struct cuda *cuda, int index, struct problem *problem);

/* Device memory, all 0, freed with the backend. */
int cuda_allocate(struct cuda *cuda, size_t bytes, void **memory);

/* The way in: backend_ops of the same names. */
int cuda_batches_init(struct cuda *cuda);
void cuda_batches_finish(struct cuda *cuda);
int cuda_attach(struct backend *backend, const void *arena, size_t bytes);
int cuda_begin(
	struct backend *backend, const struct model_batch *batch, struct backend_batch *on_device);
int cuda_end(struct backend *backend);
int cuda_consumed(struct backend *backend, bool wait, uint64_t *count);

/* Events of batch n, as long as n > queued - CUDA_RING. */
static inline struct cuda_step *cuda_step_at(struct cuda *cuda, uint64_t n)
{
	return &cuda->ring[n % CUDA_RING];
}

/*
 * Wait for step n = cuda->harvested and add the device's busy time in it that is not counted for
 * step n-1 already: the compute interval, from the first operation to the last with the gaps between
 * its kernels, and the part of the copy that lies after compute_end(n-1).
 * Each difference is between an earlier and a later event of one order, so none is negative:
 *   copy_end(n) - compute_end(n-1) = (compute_start(n) - compute_end(n-1))
 *                                  - (compute_start(n) - copy_end(n))
 */
int cuda_harvest_next(struct cuda *cuda);

/* Wait for all steps so far and take up their times; the next step begins a new period. */
int cuda_harvest_all(struct cuda *cuda);
