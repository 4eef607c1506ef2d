/* SPDX-License-Identifier: Apache-2.0 */
/* The table of transitions in slot.h, line by line. */
#include "daemon/batch/slot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ROWS = 10 };

static struct slot filling(void)
{
	struct slot slot = {.state = SLOT_FREE, .generation = 6};

	slot_begin(&slot, ROWS, 3, 4, 40);
	return slot;
}

/* All rows given to two jobs. */
static struct slot begun(void)
{
	struct slot slot = filling();
	uint32_t first;

	assert_int_equal(slot_take_rows(&slot, 6, &first), 6);
	assert_int_equal(slot_take_rows(&slot, 6, &first), 4);
	return slot;
}

static struct slot ready(void)
{
	struct slot slot = begun();

	assert_int_equal(slot_job_done(&slot, 4), SLOT_FILLING);
	assert_int_equal(slot_job_done(&slot, 6), SLOT_READY);
	return slot;
}

static struct slot lent(void)
{
	struct slot slot = ready();

	slot_lend(&slot);
	return slot;
}

static void a_batch_begins_anew(void **state)
{
	struct slot slot = lent();

	(void)state;
	assert_int_equal(slot_release(&slot, 7), 0);
	slot_begin(&slot, 3, 8, 9, 90);
	assert_int_equal(slot.state, SLOT_FILLING);
	assert_int_equal(slot.generation, 8);
	assert_int_equal(slot.rows, 3);
	assert_int_equal(slot.rows_begun, 0);
	assert_int_equal(slot.rows_done, 0);
	assert_int_equal(slot.jobs, 0);
	assert_false(slot.unwanted);
	assert_int_equal(slot.epoch, 8);
	assert_int_equal(slot.step, 9);
	assert_int_equal(slot.position, 90);
}

static void rows_are_given_out_once(void **state)
{
	struct slot slot = filling();
	uint32_t first = 99;

	(void)state;
	assert_int_equal(slot_take_rows(&slot, 4, &first), 4);
	assert_int_equal(first, 0);
	assert_int_equal(slot_take_rows(&slot, 1, &first), 1);
	assert_int_equal(first, 4);
	assert_int_equal(slot_take_rows(&slot, UINT32_MAX, &first), 5);
	assert_int_equal(first, 5);
	assert_int_equal(slot.jobs, 3);
	assert_int_equal(slot_take_rows(&slot, 4, &first), 0);
	assert_int_equal(slot.jobs, 3);
}

static void complete_means_all_rows_not_all_jobs(void **state)
{
	struct slot slot = begun();

	(void)state;
	assert_int_equal(slot_job_done(&slot, 6), SLOT_FILLING);
	assert_int_equal(slot_job_done(&slot, 1), SLOT_FILLING); /* three rows were lost */
	assert_int_equal(slot.jobs, 0);
	for (int i = 0; i < 3; i++)
		slot_retake_row(&slot);
	assert_int_equal(slot.jobs, 3);
	assert_int_equal(slot_job_done(&slot, 1), SLOT_FILLING);
	assert_int_equal(slot_job_done(&slot, 0), SLOT_FILLING); /* and one again */
	slot_retake_row(&slot);
	assert_int_equal(slot_job_done(&slot, 1), SLOT_FILLING);
	assert_int_equal(slot_job_done(&slot, 1), SLOT_READY);
	assert_int_equal(slot.rows_done, ROWS);
}

static void only_the_batch_that_is_lent_is_released(void **state)
{
	struct slot slot = filling();

	(void)state;
	assert_int_equal(slot_release(&slot, 7), SLOT_NOT_LENT);
	slot = ready();
	assert_int_equal(slot_release(&slot, 7), SLOT_NOT_LENT);
	assert_int_equal(slot.state, SLOT_READY);
	slot_lend(&slot);
	assert_int_equal(slot.state, SLOT_LENT);
	assert_int_equal(slot_release(&slot, 6), SLOT_NOT_LENT);
	assert_int_equal(slot_release(&slot, 8), SLOT_NOT_LENT);
	assert_int_equal(slot.state, SLOT_LENT);
	assert_int_equal(slot_release(&slot, 7), 0);
	assert_int_equal(slot.state, SLOT_FREE);
	assert_int_equal(slot_release(&slot, 7), SLOT_NOT_LENT);
}

static void generation_wraps(void **state)
{
	struct slot slot = {.state = SLOT_FREE, .generation = UINT32_MAX};
	uint32_t first;

	(void)state;
	slot_begin(&slot, 1, 0, 0, 0);
	assert_int_equal(slot.generation, 0);
	assert_int_equal(slot_take_rows(&slot, 1, &first), 1);
	assert_int_equal(slot_job_done(&slot, 1), SLOT_READY);
	slot_lend(&slot);
	assert_int_equal(slot_release(&slot, UINT32_MAX), SLOT_NOT_LENT);
	assert_int_equal(slot_release(&slot, 0), 0);
}

static void discard(void **state)
{
	struct slot slot = {.state = SLOT_FREE};
	uint32_t first;

	(void)state;
	slot_discard(&slot);
	assert_int_equal(slot.state, SLOT_FREE);

	slot = ready();
	slot_discard(&slot);
	assert_int_equal(slot.state, SLOT_FREE);

	slot = lent(); /* the client may still read it */
	slot_discard(&slot);
	assert_int_equal(slot.state, SLOT_LENT);
	assert_int_equal(slot_release(&slot, 7), 0);

	slot = filling(); /* no job is out */
	slot_discard(&slot);
	assert_int_equal(slot.state, SLOT_FREE);

	slot = filling();
	assert_int_equal(slot_take_rows(&slot, 4, &first), 4);
	slot_discard(&slot);
	assert_int_equal(slot.state, SLOT_FILLING);
	assert_true(slot.unwanted);
	assert_int_equal(slot_take_rows(&slot, 4, &first), 0);
	assert_int_equal(slot.jobs, 1);
	slot_discard(&slot); /* twice is once */
	assert_int_equal(slot_job_done(&slot, 4), SLOT_FREE);
}

/* A worker may still write into it: an unwanted slot is free with its last job, not with its last row. */
static void unwanted_slots_wait_for_their_jobs(void **state)
{
	struct slot slot = begun();

	(void)state;
	slot_discard(&slot);
	assert_int_equal(slot_job_done(&slot, 0), SLOT_FILLING);
	assert_int_equal(slot_job_done(&slot, 6), SLOT_FREE);

	slot = begun();
	assert_int_equal(slot_job_done(&slot, 6), SLOT_FILLING);
	slot_discard(&slot);
	assert_int_equal(slot_job_done(&slot, 4), SLOT_FREE); /* never READY, complete or not */

	slot_begin(&slot, 2, 0, 0, 0);
	assert_false(slot.unwanted);
}

static void reclaim(void **state)
{
	struct slot slot = lent();

	(void)state;
	slot_reclaim(&slot);
	assert_int_equal(slot.state, SLOT_FREE);
	slot = ready();
	slot_reclaim(&slot);
	assert_int_equal(slot.state, SLOT_FREE);
	slot = begun();
	slot_reclaim(&slot);
	assert_int_equal(slot.state, SLOT_FILLING);
	assert_int_equal(slot_job_done(&slot, 6), SLOT_FILLING);
	assert_int_equal(slot_job_done(&slot, 4), SLOT_FREE);
	slot_reclaim(&slot);
	assert_int_equal(slot.state, SLOT_FREE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_begins_anew),
		cmocka_unit_test(rows_are_given_out_once),
		cmocka_unit_test(complete_means_all_rows_not_all_jobs),
		cmocka_unit_test(only_the_batch_that_is_lent_is_released),
		cmocka_unit_test(generation_wraps),
		cmocka_unit_test(discard),
		cmocka_unit_test(unwanted_slots_wait_for_their_jobs),
		cmocka_unit_test(reclaim),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
