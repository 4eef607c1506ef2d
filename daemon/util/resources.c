/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/util/resources.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* This process's cgroup, as a path below /sys/fs/cgroup. False where there is no cgroup v2. */
static bool own_cgroup(char *path, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[1024];
	bool found = false;

	while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		found = snprintf(path, size, "/sys/fs/cgroup%s", line + 3) < (int)size;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

/* Read the two words of a control file; a missing second one gives "". */
static bool read_control(const char *cgroup, const char *name, char first[32], char second[32])
{
	char path[1200];
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "%s/%s", cgroup, name);
	file = fopen(path, "re");
	second[0] = '\0';
	if (file != NULL) {
		n = fscanf(file, "%31s %31s", first, second);
		fclose(file);
	}
	return n >= 1;
}

/* Go up one level: false at the top. */
static bool parent_cgroup(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL || strlen(path) <= strlen("/sys/fs/cgroup"))
		return false;
	*slash = '\0';
	return true;
}

uint32_t resources_cpus(void)
{
	char cgroup[1100], quota[32], period[32];
	cpu_set_t set;
	uint64_t cpus = 1;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cpus = (uint64_t)CPU_COUNT(&set);
	else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
		cpus = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	if (!own_cgroup(cgroup, sizeof(cgroup)))
		return (uint32_t)cpus;
	do {
		uint64_t used = 0, whole = 0;

		if (!read_control(cgroup, "cpu.max", quota, period) ||
			sscanf(quota, "%" SCNu64, &used) != 1 ||
			sscanf(period, "%" SCNu64, &whole) != 1 || whole == 0)
			continue;
		if ((used + whole - 1) / whole < cpus)
			cpus = (used + whole - 1) / whole;
	} while (parent_cgroup(cgroup));
	return cpus > 0 ? (uint32_t)cpus : 1;
}

uint64_t resources_memory(void)
{
	char cgroup[1100], limit[32], unused[32];
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	if (!own_cgroup(cgroup, sizeof(cgroup)))
		return memory;
	do {
		uint64_t bytes;

		if (read_control(cgroup, "memory.max", limit, unused) &&
			sscanf(limit, "%" SCNu64, &bytes) == 1 && bytes < memory)
			memory = bytes;
	} while (parent_cgroup(cgroup));
	return memory;
}
