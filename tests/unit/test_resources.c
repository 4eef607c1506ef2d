/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs and memory that this process may use. Cgroups are the machine's: only bounds hold everywhere. */
#include "daemon/util/resources.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static void the_affinity_mask_counts(void **state)
{
	cpu_set_t all, one;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	assert_in_range(resources_cpus(), 1, CPU_COUNT(&all));
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &all)) {
			CPU_SET(i, &one);
			break;
		}
	}
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(resources_cpus(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void no_more_memory_than_the_machine_has(void **state)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	(void)state;
	assert_in_range(resources_memory(), 1 << 20, machine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_affinity_mask_counts),
		cmocka_unit_test(no_more_memory_than_the_machine_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
