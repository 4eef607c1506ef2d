/* SPDX-License-Identifier: Apache-2.0 */
/* From the order of samples to batches, one case after the other. test_stream_model has them mixed. */
#include "tests/unit/stream_rig.h"

static void whole_epochs(void **state)
{
	struct stream_params params = rig_params(100, 8, 3);
	struct rig rig;

	(void)state;
	params.first_epoch = 5;
	rig_start(&rig, &params, 4);
	rig_play(&rig, UINT64_MAX);
	assert_true(rig.ended);
	assert_int_equal(rig.batches, 3 * 13);
	assert_int_equal(rig.epochs, 3);
	assert_int_equal(rig.epoch, 8);
	assert_int_equal(rig.stream.batches_sent, 39);
	assert_int_equal(rig.stream.samples_sent, 300);
	/* and nothing comes after the end */
	while (rig.lent_count > 0)
		rig_release(&rig, 0);
	assert_false(rig_take(&rig, JOB_ROWS_MAX));
	rig_hear(&rig);
	assert_int_equal(rig.batches, 39);
	rig_finish(&rig);
}

static void number_of_batches(void **state)
{
	static const struct {
		uint64_t samples, batches;
		uint32_t batch_size, world;
		bool drop_last, shard_drop;
	} cases[] = {
		{100, 13, 8, 1, false, false},
		{100, 12, 8, 1, true, false},
		{96, 12, 8, 1, false, false},
		{96, 12, 8, 1, true, false},
		{1, 1, 64, 1, false, false},
		{7, 0, 8, 1, true, false},
		{100, 5, 8, 3, false, false}, /* 34 samples */
		{100, 4, 8, 3, true, false},
		{98, 5, 8, 3, false, false}, /* 33 or 32 */
		{98, 4, 8, 3, false, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stream_params params = rig_params(cases[i].samples, cases[i].batch_size, 2);
		struct rig rig;

		params.drop_last = cases[i].drop_last;
		params.order.world = cases[i].world;
		params.order.rank = cases[i].world - 1;
		params.order.shard_drop = cases[i].shard_drop;
		assert_int_equal(stream_epoch_batches(&params), cases[i].batches);
		if (cases[i].batches == 0)
			continue; /* never becomes a stream */
		rig_start(&rig, &params, 2);
		rig_play(&rig, UINT64_MAX);
		assert_int_equal(rig.batches, 2 * cases[i].batches);
		rig_finish(&rig);
	}
}

static void without_shuffle(void **state)
{
	struct stream_params params = rig_params(10, 4, 1);
	struct stream_event_data event;
	struct rig rig;

	(void)state;
	params.order.shuffle = false;
	rig_start(&rig, &params, 1);
	assert_true(rig_take(&rig, 32));
	assert_int_equal(rig.jobs[0].job.render.rows, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig.jobs[0].job.render.samples[i], i);
	assert_false(rig_take(&rig, 32));
	assert_int_equal(stream_next_event(&rig.stream, &event), STREAM_NOTHING);
	rig_render(&rig, 0);
	rig_hear(&rig);
	assert_int_equal(rig.batches, 1);
	rig_finish(&rig);
}

static void endless(void **state)
{
	struct stream_params params = rig_params(3, 2, 0);
	struct rig rig;

	(void)state;
	params.first_epoch = UINT64_MAX - 5; /* epochs count on over the end of 64 bits */
	rig_start(&rig, &params, 3);
	rig_play(&rig, 1000);
	assert_false(rig.ended);
	assert_in_range(rig.epochs, 499, 500);
	rig_finish(&rig);
}

static void nothing_beyond_the_depth(void **state)
{
	struct stream_params params = rig_params(100, 8, 0);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 3);
	while (rig_take(&rig, 3)) {
	}
	assert_int_equal(rig.job_count, 3 * 3); /* 3 + 3 + 2 rows of each batch */
	while (rig.job_count > 0)
		rig_render(&rig, 0);
	rig_hear(&rig);
	assert_int_equal(rig.lent_count, 3);
	assert_false(stream_has_work(&rig.stream));
	rig_release(&rig, 1); /* any of them makes room for one more */
	assert_true(stream_has_work(&rig.stream));
	while (rig_take(&rig, 32)) {
	}
	assert_int_equal(rig.job_count, 1);
	rig_check(&rig);
	rig_finish(&rig);
}

static void jobs_follow_the_time_that_rows_take(void **state)
{
	struct stream_params params = rig_params(512, 64, 0);
	struct result result = {.kind = RESULT_RENDERED};
	struct pool_job job;
	struct rig rig;
	uint32_t first = 0;

	(void)state;
	rig_start(&rig, &params, 8);
	assert_true(stream_next_job(&rig.stream, 32, &job));
	first = job.render.rows;
	assert_in_range(first, 1, 31); /* before anything is known: neither one nor all */
	result.rows_done = first;
	result.busy_ns = UINT64_C(10000000) * first;
	stream_job_rendered(&rig.stream, &job, &result);
	assert_true(stream_next_job(&rig.stream, 32, &job));
	assert_int_equal(job.render.rows, 1); /* large pictures */
	assert_int_equal(job.render.first_row, first);
	result.rows_done = 1;
	result.busy_ns = 100;
	for (int i = 0; i < 200; i++) {
		stream_job_rendered(&rig.stream, &job, &result);
		if (i < 199 && !stream_next_job(&rig.stream, 1, &job))
			fail();
	}
	assert_true(stream_next_job(&rig.stream, 64, &job));
	assert_in_range(job.render.rows, 2, JOB_ROWS_MAX); /* thumbnails */
	result.rows_done = job.render.rows;
	result.busy_ns = 0;
	stream_job_rendered(&rig.stream, &job, &result);
	rig_finish(&rig);
}

static void jobs_come_back_in_any_order(void **state)
{
	struct stream_params params = rig_params(200, 16, 2);
	struct rig rig;

	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		rig_start(&rig, &params, 5);
		rig.random = seed;
		while (!rig.ended) {
			while (rig.job_count < 8 && rig_take(&rig, 1 + rig_random(&rig, 7))) {
			}
			rig_render(&rig, rig_random(&rig, rig.job_count));
			rig_hear(&rig);
			rig_check(&rig);
			while (rig.lent_count > 0)
				rig_release(&rig, rig_random(&rig, rig.lent_count));
		}
		assert_int_equal(rig.batches, 2 * 13);
		rig_finish(&rig);
	}
}

static void a_release_must_fit(void **state)
{
	struct stream_params params = rig_params(100, 8, 0);
	struct rig rig;
	uint32_t slot, generation;

	(void)state;
	rig_start(&rig, &params, 2);
	assert_int_equal(stream_release(&rig.stream, 0, 0), SLOT_NOT_LENT); /* never begun */
	assert_int_equal(stream_release(&rig.stream, 2, 1), SLOT_NOT_LENT); /* no such slot */
	assert_int_equal(stream_release(&rig.stream, UINT32_MAX, 1), SLOT_NOT_LENT);
	rig_play(&rig, 1);
	slot = rig.lent[0];
	generation = rig.stream.slots[slot].generation;
	assert_int_equal(stream_release(&rig.stream, slot, generation + 1), SLOT_NOT_LENT);
	assert_int_equal(stream_release(&rig.stream, slot, generation - 1), SLOT_NOT_LENT);
	assert_int_equal(stream_release(&rig.stream, !slot, generation), SLOT_NOT_LENT);
	rig_check(&rig);
	rig_release(&rig, 0);
	assert_int_equal(stream_release(&rig.stream, slot, generation), SLOT_NOT_LENT); /* twice */
	rig_play(&rig, 4);
	assert_true(rig.stream.slots[slot].generation > generation);
	assert_int_equal(stream_release(&rig.stream, slot, generation), SLOT_NOT_LENT);
	rig_check(&rig);
	rig_finish(&rig);
}

/* ---- seek ---- */

static void seek_while_jobs_are_out(void **state)
{
	struct stream_params params = rig_params(100, 8, 4);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 3);
	rig_play(&rig, 2);
	while (rig.lent_count > 0)
		rig_release(&rig, 0);
	while (rig_take(&rig, 3)) {
	}
	assert_true(rig.job_count > 2);
	rig_seek(&rig, 2, 16);
	rig_check(&rig);
	rig_hear(&rig); /* nothing of the old place comes */
	assert_int_equal(rig.batches, 2);
	while (rig.job_count > 0) {
		rig_render(&rig, rig.job_count - 1);
		rig_check(&rig);
		rig_hear(&rig);
	}
	assert_int_equal(rig.batches, 2);
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 2 + 11 + 13);
	rig_finish(&rig);
}

static void seek_keeps_what_the_client_holds(void **state)
{
	struct stream_params params = rig_params(100, 8, 4);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 2);
	while (rig_take(&rig, 8)) {
	}
	rig_render(&rig, 0);
	rig_render(&rig, 0);
	rig_hear(&rig);
	assert_int_equal(rig.lent_count, 2);
	rig_seek(&rig, 1, 0);
	rig_check(&rig);
	assert_false(rig_take(&rig, 8)); /* both slots are still lent */
	rig_release(&rig, 0);
	assert_true(rig_take(&rig, 8));
	rig_render(&rig, 0);
	rig_hear(&rig);
	assert_int_equal(rig.batches, 3);
	rig_finish(&rig);
}

static void seek_to_ends(void **state)
{
	struct stream_params params = rig_params(100, 8, 3);
	struct rig rig;

	(void)state;
	params.first_epoch = 2;
	rig_start(&rig, &params, 3);
	rig_seek(&rig, 2, 100); /* the end of an epoch: EpochEnd is all that is left of it */
	rig_hear(&rig);
	assert_int_equal(rig.epochs, 1);
	assert_int_equal(rig.batches, 0);
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 26);
	rig_seek(&rig, 4, 97); /* after the stream has ended: it goes on */
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 27);
	rig_seek(&rig, 4, 100);
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 27);
	assert_true(rig.ended);
	rig_seek(&rig, 0, 50); /* before the first epoch */
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 27 + 7 + 4 * 13);
	rig_finish(&rig);
}

static void seek_past_the_last_epoch(void **state)
{
	struct stream_params params = rig_params(100, 8, 3);
	struct error_text error = {""};
	struct rig rig;

	(void)state;
	params.first_epoch = 10;
	rig_start(&rig, &params, 3);
	rig_play(&rig, 3);
	while (rig.lent_count > 0)
		rig_release(&rig, 0);
	assert_true(rig_take(&rig, 4));
	assert_int_equal(stream_seek(&rig.stream, 13, 0, &error), CURSOR_DIFFERS);
	assert_non_null(strstr(error.text, "13"));
	assert_non_null(strstr(error.text, "12"));
	assert_int_equal(stream_seek(&rig.stream, UINT64_MAX, 0, &error), CURSOR_DIFFERS);
	rig_play(&rig, UINT64_MAX); /* a refused Seek changes nothing */
	assert_int_equal(rig.batches, 39);
	rig_finish(&rig);
}

/* ---- the end ---- */

static void stop_while_jobs_are_out(void **state)
{
	struct stream_params params = rig_params(100, 8, 0);
	struct stream_event_data event;
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 4);
	rig_play(&rig, 1);
	while (rig_take(&rig, 3)) {
	}
	stream_stop(&rig.stream);
	assert_false(stream_has_work(&rig.stream));
	assert_false(rig_take(&rig, 3));
	assert_int_equal(stream_next_event(&rig.stream, &event), STREAM_NOTHING);
	rig_lose(&rig, 0, 1, true);
	rig_lose(&rig, 0, 0, false);
	while (rig.job_count > 0) {
		rig_render(&rig, 0);
		rig_check(&rig);
	}
	assert_false(stream_has_work(&rig.stream)); /* lost rows are nobody's business any more */
	assert_int_equal(rig.stream.jobs, 0);
	assert_int_equal(stream_next_event(&rig.stream, &event), STREAM_NOTHING);
	rig_finish(&rig);
}

static void a_bad_order_leaves_the_arena_with_the_caller(void **state)
{
	struct stream_params params = rig_params(0, 8, 0);
	struct arena arena = ARENA_NULL;
	struct stream stream;

	(void)state;
	assert_int_equal(arena_geometry_init(&arena.geometry, 2, 8, 16), 0);
	assert_int_equal(arena_create(&arena, &arena.geometry), 0);
	assert_true(stream_init_consume_arena(&stream, &params, &arena) < 0);
	assert_true(arena.fd >= 0 && arena.base != NULL);
	params.order.samples = 9;
	assert_int_equal(stream_init_consume_arena(&stream, &params, &arena), 0);
	assert_true(arena.fd == -1 && arena.base == NULL);
	stream_finish(&stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_epochs),
		cmocka_unit_test(number_of_batches),
		cmocka_unit_test(without_shuffle),
		cmocka_unit_test(endless),
		cmocka_unit_test(nothing_beyond_the_depth),
		cmocka_unit_test(jobs_follow_the_time_that_rows_take),
		cmocka_unit_test(jobs_come_back_in_any_order),
		cmocka_unit_test(a_release_must_fit),
		cmocka_unit_test(seek_while_jobs_are_out),
		cmocka_unit_test(seek_keeps_what_the_client_holds),
		cmocka_unit_test(seek_to_ends),
		cmocka_unit_test(seek_past_the_last_epoch),
		cmocka_unit_test(stop_while_jobs_are_out),
		cmocka_unit_test(a_bad_order_leaves_the_arena_with_the_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
