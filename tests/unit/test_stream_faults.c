/* SPDX-License-Identifier: Apache-2.0 */
/* Streams whose workers die and whose samples cannot be decoded. */
#include "daemon/worker/render_policy.h"
#include "tests/unit/stream_rig.h"

static void lost_rows_are_rendered_again_one_by_one(void **state)
{
	struct stream_params params = rig_params(100, 8, 1);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 2);
	assert_true(rig_take(&rig, 8));
	rig_lose(&rig, 0, 3, true);
	rig_check(&rig);
	for (unsigned i = 0; i < 5; i++) {
		assert_true(rig_take(&rig, 8));
		assert_int_equal(rig.jobs[i].job.render.rows, 1);
		assert_in_range(rig.jobs[i].job.render.first_row, 3, 7);
	}
	while (rig.job_count > 0)
		rig_render(&rig, 0);
	rig_hear(&rig);
	assert_int_equal(rig.batches, 1);
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 13);
	rig_finish(&rig);
}

static void a_worker_killed_from_outside_is_nobodys_fault(void **state)
{
	struct stream_params params = rig_params(20, 8, 1);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 2);
	for (unsigned i = 0; i < 100; i++) {
		assert_true(rig_take(&rig, 8));
		rig_lose(&rig, 0, 0, false);
		rig_hear(&rig);
		rig_check(&rig);
	}
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 3);
	rig_finish(&rig);
}

/* The sample that is at hand when workers die is bad after the second; those beside it are not. */
static void a_row_that_kills_two_workers_is_bad(void **state)
{
	struct stream_params params = rig_params(20, 8, 1);
	uint64_t killer;
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 2);
	killer = order_at(&rig.order, 8 + 5);
	rig.spoiled[killer] = true; /* what must be told at the end */
	rig_play(&rig, 1);
	for (unsigned deaths = 0; deaths < 2;) {
		uint32_t row = 0;

		if (rig.job_count == 0)
			assert_true(rig_take(&rig, 8));
		while (row < rig.jobs[0].job.render.rows &&
			rig.jobs[0].job.render.samples[row] != killer)
			row++;
		if (row < rig.jobs[0].job.render.rows) {
			rig_lose(&rig, 0, row, true);
			deaths++;
		} else {
			rig_render(&rig, 0);
		}
		rig_check(&rig);
		assert_true(deaths == 2 || !rig.stream.fault.set);
	}
	assert_true(rig.stream.fault.set);
	rig_play(&rig, UINT64_MAX);
	assert_true(rig.bad_sample);
	assert_int_equal(rig.batches, 1);
	assert_int_equal(rig.stream.fault.sample, killer);
	assert_non_null(strstr(rig.stream.fault.reason.text, "SIGSEGV"));
	rig_finish(&rig);
}

/* Only the row at hand is blamed for a death, not those that went down with it. */
static void rows_beside_it_are_not_blamed(void **state)
{
	struct stream_params params = rig_params(20, 8, 1);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 2);
	assert_true(rig_take(&rig, 8));
	rig_lose(&rig, 0, 3, true);
	for (unsigned i = 0; i < 5; i++)
		assert_true(rig_take(&rig, 8));
	for (unsigned i = 0; i < 5; i++) {
		bool blamed = rig.jobs[0].job.render.first_row == 3;

		if (blamed)
			rig_render(&rig, 0);
		else
			rig_lose(&rig, 0, 0, true); /* the first time that it is at hand */
		assert_false(rig.stream.fault.set);
	}
	rig_play(&rig, UINT64_MAX);
	assert_int_equal(rig.batches, 3);
	rig_finish(&rig);
}

/* ---- bad samples ---- */

static void the_first_bad_sample_is_told_in_its_place(void **state)
{
	struct stream_params params = rig_params(64, 8, 1);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 4);
	rig.spoiled[order_at(&rig.order, 8 + 2)] = true;
	rig.spoiled[order_at(&rig.order, 8 + 7)] = true;
	rig.spoiled[order_at(&rig.order, 16)] = true;
	while (rig_take(&rig, 4)) {
	}
	assert_int_equal(rig.job_count, 8);
	rig_render(&rig, 4); /* batch 2 is bad first */
	rig_hear(&rig);
	rig_render(&rig, 3); /* then the second half of batch 1 */
	rig_hear(&rig);
	assert_int_equal(rig.batches, 0);
	assert_false(rig_take(&rig, 4)); /* no more work is begun */
	rig_render(&rig, 1);
	rig_render(&rig, 0);
	rig_hear(&rig); /* batch 0 is fine; batch 1 has a job out, which may be worse */
	assert_int_equal(rig.batches, 1);
	assert_false(rig.bad_sample);
	rig_render(&rig, 0);
	rig_hear(&rig);
	assert_true(rig.bad_sample);
	assert_int_equal(rig.stream.fault.row, 2);
	stream_stop(&rig.stream);
	while (rig.job_count > 0)
		rig_render(&rig, 0);
	rig_check(&rig);
	assert_int_equal(rig.stream.free_slots, 3); /* the client still holds batch 0 */
	rig_finish(&rig);
}

static void seek_leaves_a_bad_sample_behind(void **state)
{
	struct stream_params params = rig_params(64, 8, 2);
	struct rig rig;

	(void)state;
	rig_start(&rig, &params, 4);
	rig.spoiled[order_at(&rig.order, 9)] = true;
	rig.spoiled[order_at(&rig.order, 15)] = true;
	while (rig_take(&rig, 7)) {
	}
	rig_render(&rig, 2);
	assert_true(rig.stream.fault.set);
	rig_seek(&rig, 0, 16);
	rig_render(&rig, 2); /* the second bad sample comes when nobody wants it any more */
	assert_false(rig.stream.fault.set);
	while (rig.job_count > 0)
		rig_render(&rig, 0);
	rig_play(&rig, 6);
	assert_int_equal(rig.batches, 6);
	assert_false(rig.bad_sample);
	rig_finish(&rig);
}

/* ---- policies: nothing ends the stream ---- */

/* Go on until the only job out is one for `sample`. */
static void take_at(struct rig *rig, uint64_t sample)
{
	while (rig->job_count == 0 || rig->jobs[0].job.render.samples[0] != sample) {
		if (rig->job_count > 0)
			rig_render(rig, 0);
		else
			assert_true(rig_take(rig, 1));
		rig_hear(rig);
		while (rig->lent_count > 0)
			rig_release(rig, 0);
	}
}

static void lose_at(struct rig *rig, uint32_t attempt)
{
	struct pool_job job = rig_pull(rig, 0);
	struct pool_loss loss = {.fault = true, .attempt = attempt, .cause = "SIGSEGV"};

	stream_job_lost(&rig->stream, &job, &loss);
	rig_check(rig);
}

static void a_killer_is_skipped_from_then_on(void **state)
{
	struct stream_params params = rig_params(20, 8, 2);
	uint64_t killer;
	struct rig rig;

	(void)state;
	params.on_bad_sample = BAD_SAMPLE_MASK;
	rig_start(&rig, &params, 2);
	killer = order_at(&rig.order, 5);
	for (int deaths = 0; deaths < SUSPECT_DEATHS; deaths++) {
		take_at(&rig, killer);
		assert_int_equal(rig.jobs[0].job.render.skip[0], 0);
		lose_at(&rig, 0);
	}
	take_at(&rig, killer);
	assert_int_equal(rig.jobs[0].job.render.skip[0], 1);
	rig_render(&rig, 0);
	/* In the next epoch too, wherever it stands. */
	take_at(&rig, killer);
	assert_int_equal(rig.jobs[0].job.render.skip[0], 1);
	assert_int_equal(rig.jobs[0].job.render.epoch, 1);
	rig_play(&rig, UINT64_MAX);
	assert_true(rig.ended);
	assert_false(rig.stream.fault.set);
	rig_finish(&rig);
}

/* A replacement may kill as well: each attempt is judged by its own sample. */
static void a_killing_replacement_is_skipped(void **state)
{
	struct stream_params params = rig_params(100, 8, 1);
	uint64_t bad, other;
	struct rig rig;

	(void)state;
	params.on_bad_sample = BAD_SAMPLE_REPLACE;
	rig_start(&rig, &params, 2);
	bad = order_at(&rig.order, 2);
	other = replacement_sample(params.order.seed, 0, bad, 3, 100);
	for (int deaths = 0; deaths < SUSPECT_DEATHS; deaths++) {
		take_at(&rig, bad);
		lose_at(&rig, 3);
	}
	assert_int_equal(suspects_deaths(&rig.stream.suspects, other), SUSPECT_DEATHS);
	assert_int_equal(suspects_deaths(&rig.stream.suspects, bad), 0);
	take_at(&rig, bad);
	assert_int_equal(rig.jobs[0].job.render.skip[0] & 1 << 3, 1 << 3);
	assert_int_equal(rig.jobs[0].job.render.skip[0] & 1, 0);
	/* Its own turn comes: not tried either. */
	take_at(&rig, other);
	assert_int_equal(rig.jobs[0].job.render.skip[0] & 1, 1);
	rig_play(&rig, UINT64_MAX);
	assert_false(rig.stream.fault.set);
	rig_finish(&rig);
}

/* A broken worker, or one that lies, dies at whatever it is given: the stream ends, and soon. */
static void dying_at_nothing_ends_the_stream(void **state)
{
	(void)state;
	for (int policy = BAD_SAMPLE_MASK; policy <= BAD_SAMPLE_REPLACE; policy++) {
		struct stream_params params = rig_params(100, 8, 1);
		unsigned deaths = 0;
		struct rig rig;

		params.on_bad_sample = (enum bad_sample_policy)policy;
		rig_start(&rig, &params, 2);
		assert_true(rig_take(&rig, 1));
		while (!rig.stream.fault.set) {
			lose_at(&rig, deaths % 10);
			assert_in_range(++deaths, 1, SUSPECT_DEATHS * (REPLACE_TRIES + 2));
			if (!rig.stream.fault.set)
				assert_true(rig_take(&rig, 1));
		}
		assert_int_equal(rig.stream.fault.bad, BAD_KILLER);
		assert_non_null(strstr(rig.stream.fault.reason.text, "left out"));
		rig_finish(&rig);
	}
}

/* Workers that die of something else now and then do not add up. */
static void a_survived_sample_is_absolved(void **state)
{
	struct stream_params params = rig_params(20, 8, 50);
	struct rig rig;

	(void)state;
	params.on_bad_sample = BAD_SAMPLE_MASK;
	rig_start(&rig, &params, 2);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t sample;

		while (rig.lent_count > 0)
			rig_release(&rig, 0);
		assert_true(rig_take(&rig, 1));
		sample = rig.jobs[0].job.render.samples[0];
		lose_at(&rig, 0);
		take_at(&rig, sample);
		assert_int_equal(rig.jobs[0].job.render.skip[0], 0);
		rig_play(&rig, 3);
	}
	assert_int_equal(rig.stream.suspects.count, 0);
	rig_finish(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_rows_are_rendered_again_one_by_one),
		cmocka_unit_test(a_worker_killed_from_outside_is_nobodys_fault),
		cmocka_unit_test(a_row_that_kills_two_workers_is_bad),
		cmocka_unit_test(rows_beside_it_are_not_blamed),
		cmocka_unit_test(the_first_bad_sample_is_told_in_its_place),
		cmocka_unit_test(seek_leaves_a_bad_sample_behind),
		cmocka_unit_test(a_killer_is_skipped_from_then_on),
		cmocka_unit_test(a_killing_replacement_is_skipped),
		cmocka_unit_test(dying_at_nothing_ends_the_stream),
		cmocka_unit_test(a_survived_sample_is_absolved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
