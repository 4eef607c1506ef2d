/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/cuda_backend.h"

static int elapsed(struct cuda *cuda, cudaEvent_t start, cudaEvent_t end, double *seconds)
{
	float milliseconds = 0;
	int r = cuda_check(
		cuda, cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");

	*seconds = 1e-3 * (double)milliseconds;
	return r;
}

int cuda_harvest_next(struct cuda *cuda)
{
	uint64_t n = cuda->harvested;
	struct cuda_step *step = cuda_step_at(cuda, n);
	double copy = 0, compute = 0, after_copy = 0, idle = 0;
	int r;

	r = cuda_check(cuda, cudaEventSynchronize(step->compute_end), "cudaEventSynchronize");
	if (r == 0)
		r = elapsed(cuda, step->copy_start, step->copy_end, &copy);
	if (r == 0)
		r = elapsed(cuda, step->compute_start, step->compute_end, &compute);
	if (r == 0 && n > cuda->period) {
		r = elapsed(cuda, step->copy_end, step->compute_start, &after_copy);
		if (r == 0)
			r = elapsed(cuda, cuda_step_at(cuda, n - 1)->compute_end,
				step->compute_start, &idle);
		if (r == 0 && copy > idle - after_copy)
			copy = idle > after_copy ? idle - after_copy : 0;
	}
	if (r < 0)
		return r;
	cuda->busy_seconds += copy + compute;
	cuda->harvested = n + 1;
	return 0;
}

int cuda_harvest_all(struct cuda *cuda)
{
	int r = 0;

	while (r == 0 && cuda->harvested < cuda->queued)
		r = cuda_harvest_next(cuda);
	cuda->period = cuda->queued;
	return r;
}
