/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* CPUs that this process may use: its affinity mask, cut by the CPU quota of its cgroup (v2) and of
 * all cgroups above it, rounded up; at least 1. */
uint32_t resources_cpus(void);

/* Bytes of memory that this process may use: what the machine has, cut by the limits of its cgroups. */
uint64_t resources_memory(void);
