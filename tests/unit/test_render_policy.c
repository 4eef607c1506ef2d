/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in for samples that cannot be rendered. The data set is raw pixels in a memfd; a bad
 * sample has the wrong number of them. */
#include "daemon/util/ownership.h"
#include "daemon/worker/render_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { SAMPLES = 20, BYTES = 6, BATCH = 4, SEED = 5, EPOCH = 3 };

struct rig {
	struct view view;
	struct index_header header;
	struct index_sample samples[SAMPLES];
	struct renderer renderer;
	struct job_render job;
	_Atomic uint32_t attempt;
};

/* Pixels of sample i are all i + 1, so a row that was not written is known by its zeros. */
static void rig_start(struct rig *rig, uint32_t samples, enum bad_sample_policy policy)
{
	struct transform_source source = {BYTES, 1, 1};
	uint8_t pixels[SAMPLES][BYTES];

	memset(rig, 0, sizeof(*rig));
	rig->view = (struct view)VIEW_NULL;
	rig->header = (struct index_header){
		.kind = INDEX_IDX,
		.samples = samples,
		.width = BYTES,
		.height = 1,
		.channels = 1,
		.data_in_memfd = 1,
	};
	for (uint32_t i = 0; i < SAMPLES; i++) {
		memset(pixels[i], (int)i + 1, BYTES);
		rig->samples[i] = (struct index_sample){
			.offset = i * BYTES, .length = BYTES, .label = (int32_t)i % 3};
	}
	rig->view.index.header = &rig->header;
	rig->view.index.samples = rig->samples;
	rig->view.source_fd = memfd_create("pixels", MFD_CLOEXEC);
	assert_int_equal(write(rig->view.source_fd, pixels, sizeof(pixels)), sizeof(pixels));
	assert_int_equal(
		transform_compile(&rig->view.plan, &source, NULL, 0, PIXEL_U8, PIXEL_NCHW, NULL),
		0);
	struct arena_geometry geometry;
	assert_int_equal(arena_geometry_init(&geometry, 1, BATCH, BYTES), 0);
	assert_int_equal(arena_create(&rig->view.arena, &geometry), 0);
	assert_int_equal(arena_populate(rig->view.arena.fd, geometry.bytes, NULL), 0);
	memset(arena_pixels(&rig->view.arena, 0, 0), 0xee, BATCH * BYTES);
	rig->view.part.count = samples;
	rig->view.on_bad_sample = policy;
	rig->view.seed = SEED;
	rig->job = (struct job_render){.kind = JOB_RENDER, .rows = BATCH, .epoch = EPOCH};
	for (uint64_t i = 0; i < BATCH; i++)
		rig->job.samples[i] = i;
}

static void rig_finish(struct rig *rig)
{
	renderer_finish(&rig->renderer);
	close_fd(rig->view.source_fd);
	arena_finish(&rig->view.arena);
}

static void spoil(struct rig *rig, uint64_t sample)
{
	rig->samples[sample].length = BYTES - 1;
}

static int render(struct rig *rig, uint32_t row)
{
	struct error_text why = {.text = ""};
	int bad = render_job_row(&rig->renderer, &rig->view, &rig->job, row, &rig->attempt, &why);

	assert_true((bad == 0) == (why.text[0] == '\0'));
	return bad;
}

static void check_row(struct rig *rig, uint32_t row, uint64_t sample, uint32_t status)
{
	const struct batch_row *entry = &arena_rows(&rig->view.arena, 0)[row];
	uint8_t want[BYTES];

	memset(want, status == BATCH_ROW_MASKED ? 0 : (int)sample + 1, BYTES);
	assert_int_equal(entry->sample, sample);
	assert_int_equal(entry->label, sample % 3);
	assert_int_equal(entry->status, status);
	assert_memory_equal(arena_pixels(&rig->view.arena, 0, row), want, BYTES);
}

static uint64_t choice(uint64_t sample, uint32_t attempt)
{
	return replacement_sample(SEED, EPOCH, sample, attempt, SAMPLES);
}

/* Numbers from another implementation of the rule that PROTOCOL.md gives. */
static void the_rule_is_fixed(void **state)
{
	(void)state;
	assert_int_equal(replacement_sample(0, 0, 0, 1, 10), 7);
	assert_int_equal(replacement_sample(5, 3, 17, 2, 150), 90);
	assert_int_equal(replacement_sample(UINT64_MAX, 7, 59999, 8, 60000), 42509);
	assert_int_equal(replacement_sample(1, 2, 1, 3, 2), 0);
}

/* Never the sample itself, always one of the data set, and each other one about as often. */
static void choices_are_even(void **state)
{
	enum { SET = 7, TRIES = 6000 };
	unsigned counts[SET] = {0};

	(void)state;
	for (uint64_t epoch = 0; epoch < TRIES / 2; epoch++) {
		for (uint32_t attempt = 1; attempt <= 2; attempt++) {
			uint64_t other = replacement_sample(9, epoch, 3, attempt, SET);

			assert_true(other < SET && other != 3);
			counts[other]++;
		}
	}
	for (unsigned i = 0; i < SET; i++) {
		if (i != 3)
			assert_in_range(counts[i], 850, 1150);
	}
}

static void good_rows_are_left_alone(void **state)
{
	(void)state;
	for (int policy = BAD_SAMPLE_ERROR; policy <= BAD_SAMPLE_REPLACE; policy++) {
		struct rig rig;

		rig_start(&rig, SAMPLES, (enum bad_sample_policy)policy);
		for (uint32_t row = 0; row < BATCH; row++) {
			assert_int_equal(render(&rig, row), 0);
			check_row(&rig, row, row, BATCH_ROW_OK);
		}
		rig_finish(&rig);
	}
}

static void an_error_leaves_the_row(void **state)
{
	struct rig rig;

	(void)state;
	rig_start(&rig, SAMPLES, BAD_SAMPLE_ERROR);
	spoil(&rig, 1);
	assert_int_equal(render(&rig, 1), BAD_PICTURE);
	assert_int_equal(arena_pixels(&rig.view.arena, 0, 1)[0], 0xee);
	rig_finish(&rig);
}

static void a_masked_row_is_zero(void **state)
{
	struct rig rig;

	(void)state;
	rig_start(&rig, SAMPLES, BAD_SAMPLE_MASK);
	spoil(&rig, 2);
	assert_int_equal(render(&rig, 2), BAD_PICTURE);
	check_row(&rig, 2, 2, BATCH_ROW_MASKED);
	assert_int_equal(arena_pixels(&rig.view.arena, 0, 1)[BYTES - 1], 0xee);
	assert_int_equal(arena_pixels(&rig.view.arena, 0, 3)[0], 0xee);
	rig_finish(&rig);
}

static void the_first_good_choice_replaces(void **state)
{
	struct rig rig;

	(void)state;
	rig_start(&rig, SAMPLES, BAD_SAMPLE_REPLACE);
	spoil(&rig, 2);
	assert_int_equal(render(&rig, 2), BAD_PICTURE);
	check_row(&rig, 2, choice(2, 1), BATCH_ROW_REPLACED);
	assert_int_equal(rig.attempt, 1);
	spoil(&rig, choice(2, 1));
	assert_int_equal(render(&rig, 2), BAD_PICTURE);
	check_row(&rig, 2, choice(2, 2), BATCH_ROW_REPLACED);
	assert_int_equal(rig.attempt, 2);
	rig_finish(&rig);
}

static void without_a_good_choice_the_row_is_masked(void **state)
{
	struct rig rig;

	(void)state;
	rig_start(&rig, SAMPLES, BAD_SAMPLE_REPLACE);
	for (uint64_t i = 0; i < SAMPLES; i++)
		spoil(&rig, i);
	assert_int_equal(render(&rig, 0), BAD_PICTURE);
	check_row(&rig, 0, 0, BATCH_ROW_MASKED);
	assert_int_equal(rig.attempt, REPLACE_TRIES);
	rig_finish(&rig);
	rig_start(&rig, 1, BAD_SAMPLE_REPLACE);
	spoil(&rig, 0);
	assert_int_equal(render(&rig, 0), BAD_PICTURE);
	check_row(&rig, 0, 0, BATCH_ROW_MASKED);
	rig_finish(&rig);
}

/* Samples that kill workers are not touched, as if they were bad. */
static void killers_are_skipped(void **state)
{
	struct rig rig;

	(void)state;
	rig_start(&rig, SAMPLES, BAD_SAMPLE_MASK);
	rig.job.skip[1] = 1;
	assert_int_equal(render(&rig, 1), BAD_KILLER);
	check_row(&rig, 1, 1, BATCH_ROW_MASKED);
	assert_int_equal(render(&rig, 0), 0);
	rig.view.on_bad_sample = BAD_SAMPLE_REPLACE;
	assert_int_equal(render(&rig, 1), BAD_KILLER);
	check_row(&rig, 1, choice(1, 1), BATCH_ROW_REPLACED);
	rig.job.skip[1] = 1 << 0 | 1 << 1 | 1 << 2;
	assert_int_equal(render(&rig, 1), BAD_KILLER);
	check_row(&rig, 1, choice(1, 3), BATCH_ROW_REPLACED);
	rig.job.skip[1] = (1 << (REPLACE_TRIES + 1)) - 1;
	assert_int_equal(render(&rig, 1), BAD_KILLER);
	check_row(&rig, 1, 1, BATCH_ROW_MASKED);
	rig_finish(&rig);
}

/* A file that is gone, and one that has shrunk: bad, but not for its pixels. */
static void unreadable_is_told_apart(void **state)
{
	struct rig rig;

	(void)state;
	rig_start(&rig, SAMPLES, BAD_SAMPLE_MASK);
	assert_int_equal(ftruncate(rig.view.source_fd, 2 * BYTES), 0);
	assert_int_equal(render(&rig, 1), 0);
	assert_int_equal(render(&rig, 2), BAD_UNREADABLE);
	check_row(&rig, 2, 2, BATCH_ROW_MASKED);
	rig.header.width = BYTES / 2;
	rig.samples[0].length = BYTES / 2;
	assert_int_equal(render(&rig, 0), BAD_SIZE);
	rig_finish(&rig);
}

/* In a part of a data set everything is counted in the part. */
static void a_part_replaces_from_itself(void **state)
{
	static const uint32_t part[] = {2, 3, 5, 7, 11, 13, 17};
	enum { COUNT = sizeof(part) / sizeof(part[0]) };
	struct rig rig;

	(void)state;
	rig_start(&rig, SAMPLES, BAD_SAMPLE_REPLACE);
	rig.view.part = (struct part){part, COUNT};
	for (uint32_t at = 0; at < COUNT; at++) {
		uint64_t other = part[replacement_sample(SEED, EPOCH, at, 1, COUNT)];

		rig.job.samples[0] = part[at];
		rig.samples[part[at]].length = BYTES - 1;
		assert_int_equal(render(&rig, 0), BAD_PICTURE);
		check_row(&rig, 0, other, BATCH_ROW_REPLACED);
		rig.samples[part[at]].length = BYTES;
	}
	for (uint32_t at = 0; at < COUNT; at++)
		spoil(&rig, part[at]);
	assert_int_equal(render(&rig, 0), BAD_PICTURE);
	check_row(&rig, 0, part[COUNT - 1], BATCH_ROW_MASKED);
	rig_finish(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rule_is_fixed),
		cmocka_unit_test(choices_are_even),
		cmocka_unit_test(good_rows_are_left_alone),
		cmocka_unit_test(an_error_leaves_the_row),
		cmocka_unit_test(a_masked_row_is_zero),
		cmocka_unit_test(the_first_good_choice_replaces),
		cmocka_unit_test(without_a_good_choice_the_row_is_masked),
		cmocka_unit_test(killers_are_skipped),
		cmocka_unit_test(unreadable_is_told_apart),
		cmocka_unit_test(a_part_replaces_from_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
