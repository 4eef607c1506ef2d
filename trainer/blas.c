/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/blas.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* OpenBLAS has it, other CBLAS libraries do not. */
extern char *openblas_get_corename(void) __attribute__((weak));

/* Kernels from before AVX, among them what OpenBLAS takes for CPUs that it does not know. */
static bool kernels_are_old(const char *core)
{
	static const char *const old[] = {
		"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Barcelona", "Generic"};

	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
		if (strcasecmp(core, old[i]) == 0)
			return true;
	return false;
}

#if defined(__x86_64__)
static const char *best_kernels(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		return "SkylakeX";
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return "Haswell";
	return NULL;
}
#else
static const char *best_kernels(void)
{
	return NULL;
}
#endif

void blas_choose_kernels(char **argv)
{
	const char *best = best_kernels();

	if (!best || !openblas_get_corename || getenv("OPENBLAS_CORETYPE") ||
		!kernels_are_old(openblas_get_corename()))
		return;
	if (setenv("OPENBLAS_CORETYPE", best, 0) == 0)
		execv("/proc/self/exe", argv);
}
