/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/blas.h"

#include <limits.h>
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

/* By its path, not by /proc/self/exe, or the program would be called "exe" in ps. */
static void start_again(char **argv)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path));

	if (length < 0 || length == sizeof(path))
		return;
	path[length] = '\0';
	execv(path, argv);
}

void blas_choose_kernels(char **argv)
{
	const char *best = best_kernels();

	if (!best || !openblas_get_corename || getenv("OPENBLAS_CORETYPE") ||
		!kernels_are_old(openblas_get_corename()))
		return;
	/* See set_threads in model_cpu.c; set here, no idle threads are started at all. */
	if (!getenv("OMP_NUM_THREADS"))
		setenv("OPENBLAS_NUM_THREADS", "1", 0);
	if (setenv("OPENBLAS_CORETYPE", best, 0) == 0)
		start_again(argv);
}
