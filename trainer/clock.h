/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <time.h>

/* Seconds on the monotonic clock. */
static inline double clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
