/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/cuda_backend.h"

#include <errno.h>
#include <stdio.h>

int cuda_check(struct cuda *cuda, cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return 0;
	return problem_set(&cuda->backend.problem,
		error == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "cuda:%d: %s: %s", cuda->index,
		call, cudaGetErrorString(error));
}

int cublas_check(struct cuda *cuda, cublasStatus_t status, const char *call)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return 0;
	return problem_set(&cuda->backend.problem,
		status == CUBLAS_STATUS_ALLOC_FAILED ? -ENOMEM : -EIO, "cuda:%d: %s: %s",
		cuda->index, call, cublasGetStatusString(status));
}

static int no_devices(cudaError_t error, struct problem *problem)
{
	int driver = 0, runtime = 0;

	cudaRuntimeGetVersion(&runtime);
	if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
		return problem_set(problem, BACKEND_UNAVAILABLE,
			"no CUDA device: this machine has no NVIDIA driver (libcuda.so.1)");
	if (error == cudaErrorInsufficientDriver)
		return problem_set(problem, BACKEND_UNAVAILABLE,
			"no CUDA device: the NVIDIA driver is for CUDA %d.%d, stoker-train needs %d.%d",
			driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
	if (error == cudaErrorNoDevice || error == cudaSuccess)
		return problem_set(problem, BACKEND_UNAVAILABLE,
			"no CUDA device: the NVIDIA driver is there, but finds none (see "
			"CUDA_VISIBLE_DEVICES)");
	return problem_set(problem, BACKEND_UNAVAILABLE, "no CUDA device: cudaGetDeviceCount: %s",
		cudaGetErrorString(error));
}

static int unusable(int index, cudaError_t error, const char *call, struct problem *problem)
{
	if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
		return problem_set(problem, BACKEND_UNAVAILABLE,
			"cuda:%d is a kind of GPU that this stoker-train was not built for", index);
	return problem_set(problem, BACKEND_UNAVAILABLE, "cuda:%d cannot be used: %s: %s", index,
		call, cudaGetErrorString(error));
}

int cuda_select(struct cuda *cuda, int index, struct problem *problem)
{
	struct cudaDeviceProp properties;
	cudaError_t error;
	int count = 0;

	error = cudaGetDeviceCount(&count);
	if (error != cudaSuccess || count == 0)
		return no_devices(error, problem);
	if (index >= count)
		return problem_set(problem, BACKEND_UNAVAILABLE,
			"cuda:%d: no such device; this machine has cuda:0 to cuda:%d", index,
			count - 1);
	error = cudaSetDevice(index);
	if (error != cudaSuccess)
		return unusable(index, error, "cudaSetDevice", problem);
	/* Waiting must not burn the CPU that the loader needs. */
	error = cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
	if (error != cudaSuccess)
		return unusable(index, error, "cudaSetDeviceFlags", problem);
	error = cudaGetDeviceProperties(&properties, index);
	if (error != cudaSuccess)
		return unusable(index, error, "cudaGetDeviceProperties", problem);
	error = kernels_check();
	if (error != cudaSuccess)
		return unusable(index, error, "cudaFuncGetAttributes", problem);
	cuda->index = index;
	snprintf(cuda->backend.name, sizeof(cuda->backend.name), "%.100s (cuda:%d)",
		properties.name, index);
	return 0;
}
