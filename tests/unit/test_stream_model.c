/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams under random workers and clients: jobs come back late, out of order or not at all, samples
 * are bad, batches are held, the place changes. No batch may be lost, repeated, mixed up or out of
 * order, and no slot may be lost; stream_rig.h checks that after each step. At the end everybody
 * behaves, and the stream must still get to its end.
 */
#include "tests/unit/stream_rig.h"

enum {
	RUNS = 300,
	STEPS = 1500,
};

struct mix {
	uint32_t take, render, lose, hear, release, seek; /* how often, relative to each other */
};

static void start_random(struct rig *rig, uint64_t seed, uint64_t epochs)
{
	struct stream_params params = {.epochs = epochs, .fingerprint = 1};

	rig->random = seed * UINT64_C(0x9e3779b97f4a7c15);
	params.batch_size = 1 + rig_random(rig, rig_random(rig, 2) ? 5 : RIG_BATCH);
	params.drop_last = rig_random(rig, 2);
	params.order.world = 1 + rig_random(rig, 3);
	params.order.rank = rig_random(rig, params.order.world);
	params.order.shard_drop = rig_random(rig, 2);
	params.order.shuffle = rig_random(rig, 4) > 0;
	params.order.seed = seed;
	params.first_epoch = rig_random(rig, 3);
	do
		params.order.samples = 1 + rig_random(rig, RIG_SAMPLES);
	while (stream_epoch_batches(&params) == 0);

	uint64_t random = rig->random;

	rig_start(rig, &params, 1 + (uint32_t)(random % RIG_SLOTS));
	rig->random = random;
}

/* A worker dies, at any row of its oldest job; the job's rows are lost. A fault would be held against
 * the sample after rows_done, so none is given to a sample that has one already. */
static void lose_one(struct rig *rig)
{
	unsigned i = rig_random(rig, rig->job_count);
	const struct pool_job *job = &rig->jobs[i].job;
	uint32_t rows = 0, most = rig_random(rig, job->render.rows);
	bool fault;

	while (rows < most && !rig->spoiled[job->render.samples[rows]])
		rows++;
	fault = rig_random(rig, 2) &&
		suspects_deaths(&rig->stream.suspects, job->render.samples[rows]) == 0;
	rig_lose(rig, i, rows, fault);
}

static void seek_somewhere(struct rig *rig)
{
	const struct stream_params *params = &rig->stream.params;
	uint64_t epochs = params->epochs != 0 ? params->first_epoch + params->epochs : 10;
	uint64_t position = rig_random(rig, (uint32_t)rig->order.length + 1);

	if (rig_random(rig, 4) == 0)
		position = rig_random(rig, 2) ? 0 : rig->order.length;
	rig_seek(rig, rig_random(rig, (uint32_t)epochs), position);
}

static void step(struct rig *rig, const struct mix *mix)
{
	uint32_t all = mix->take + mix->render + mix->lose + mix->hear + mix->release + mix->seek;
	uint32_t what = rig_random(rig, all);

	if (what < mix->take) {
		if (rig->job_count < RIG_JOBS)
			rig_take(rig, 1 + rig_random(rig, JOB_ROWS_MAX));
		return;
	}
	what -= mix->take;
	if (what < mix->render + mix->lose) {
		if (rig->job_count == 0)
			return;
		if (what < mix->render)
			rig_render(rig, rig_random(rig, rig->job_count));
		else
			lose_one(rig);
		return;
	}
	what -= mix->render + mix->lose;
	if (what < mix->hear) {
		rig_hear(rig);
	} else if (what < mix->hear + mix->release) {
		if (rig->lent_count > 0)
			rig_release(rig, rig_random(rig, rig->lent_count));
	} else {
		seek_somewhere(rig);
	}
}

/* Stop, let what is out come back, and see that every slot is there. */
static void stop_and_count(struct rig *rig)
{
	stream_stop(&rig->stream);
	while (rig->job_count > 0) {
		if (rig_random(rig, 3) == 0)
			lose_one(rig);
		else
			rig_render(rig, rig_random(rig, rig->job_count));
		rig_check(rig);
	}
	while (rig->lent_count > 0)
		rig_release(rig, 0);
	assert_int_equal(rig->stream.free_slots, rig->stream.arena.geometry.slots);
	rig_finish(rig);
}

static void run_to_the_end(const struct mix *mix, uint64_t epochs)
{
	uint64_t batches = 0;

	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		struct rig rig;

		start_random(&rig, seed, epochs);
		for (int i = 0; i < STEPS; i++) {
			step(&rig, mix);
			rig_check(&rig);
		}
		if (epochs != 0) {
			rig_play(&rig, UINT64_MAX);
			assert_true(rig.ended);
		} else {
			rig_play(&rig, 3);
		}
		batches += rig.batches;
		stop_and_count(&rig);
	}
	assert_true(batches > RUNS); /* they were not all stuck */
}

static void workers_in_any_order(void **state)
{
	(void)state;
	run_to_the_end(&(struct mix){.take = 4, .render = 4, .hear = 3, .release = 3}, 3);
}

static void workers_that_die(void **state)
{
	(void)state;
	run_to_the_end(
		&(struct mix){.take = 6, .render = 4, .lose = 2, .hear = 3, .release = 3}, 3);
}

static void clients_that_jump(void **state)
{
	(void)state;
	run_to_the_end(
		&(struct mix){
			.take = 40, .render = 30, .lose = 10, .hear = 20, .release = 20, .seek = 3},
		3);
}

static void endless_with_everything(void **state)
{
	(void)state;
	run_to_the_end(
		&(struct mix){
			.take = 8, .render = 6, .lose = 1, .hear = 4, .release = 4, .seek = 1},
		0);
}

/* With bad samples in the data, the stream gets exactly as far as the first one. */
static void bad_samples(void **state)
{
	static const struct mix mix = {
		.take = 60, .render = 50, .lose = 20, .hear = 30, .release = 30, .seek = 1};
	unsigned bad = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		struct rig rig;

		start_random(&rig, seed, 1);
		for (uint32_t i = 1 + rig_random(&rig, 4); i > 0; i--)
			rig.spoiled[rig_random(&rig, (uint32_t)rig.stream.params.order.samples)] =
				true;
		for (int i = 0; i < STEPS && !rig.bad_sample; i++) {
			step(&rig, &mix);
			rig_check(&rig);
		}
		rig_play(&rig, UINT64_MAX);
		assert_true(rig.ended != rig.bad_sample);
		bad += rig.bad_sample;
		stop_and_count(&rig);
	}
	assert_true(bad > RUNS / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workers_in_any_order),
		cmocka_unit_test(workers_that_die),
		cmocka_unit_test(clients_that_jump),
		cmocka_unit_test(endless_with_everything),
		cmocka_unit_test(bad_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
