/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/backend.h"

/* In place of model_cuda.c where CUDA was not there when stoker was built. */
int backend_cuda_create(struct backend **backend, const struct model_config *config, int index,
	struct problem *problem)
{
	(void)backend;
	(void)config;
	(void)index;
	return problem_set(problem, BACKEND_UNAVAILABLE,
		"this stoker-train was built without CUDA (meson configure -Dcuda=enabled)");
}
