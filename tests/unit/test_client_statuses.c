/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are not what was asked for, and bad samples in a status, as libstoker shows them. */
#include "tests/unit/client_fixture.h"

/* Give the rows of slot `slot` their statuses. The client's mapping cannot be made writable, so a page
 * with the same content takes the place of its row table. */
static void set_statuses(struct stoker_stream *stream, int slot, const uint32_t *statuses)
{
	const struct stoker_info *info = stoker_stream_info(stream);
	uint8_t *start = (uint8_t *)info->arena + BATCH_ARENA_PAGE + slot * SLOT_STRIDE;

	uint8_t copy[BATCH_ARENA_PAGE];

	memcpy(copy, start, sizeof(copy));
	for (int i = 0; i < BATCH_SIZE; i++)
		((struct batch_row *)copy)[i].status = statuses[i];
	assert_ptr_equal(mmap(start, sizeof(copy), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		start);
	memcpy(start, copy, sizeof(copy));
}

static void shared_rows_show_their_status(void **state)
{
	static const uint32_t statuses[BATCH_SIZE] = {
		BATCH_ROW_OK, BATCH_ROW_MASKED, BATCH_ROW_REPLACED, 77};
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct stoker_batch *good, *bad;

	(void)state;
	set_statuses(stream, 1, statuses);
	say_batch(&fixture, 7, 0);
	say_batch(&fixture, 7, 1);
	good = next_batch(stream, 0);
	assert_null(good->statuses);
	assert_int_equal(good->bad, 0);
	bad = next_batch(stream, 1);
	assert_int_equal(bad->bad, 3);
	assert_int_equal(bad->statuses[0], STOKER_ROW_OK);
	assert_int_equal(bad->statuses[1], STOKER_ROW_MASKED);
	assert_int_equal(bad->statuses[2], STOKER_ROW_REPLACED);
	assert_int_equal(bad->statuses[3], STOKER_ROW_MASKED); /* unknown: nothing to train on */
	assert_int_equal(bad->samples[3], 103);
	stoker_release(good);
	stoker_release(bad);
	fixture_finish(&fixture);
}

static void inline_rows_show_their_status(void **state)
{
	Stoker__V1__RowStatus statuses[BATCH_SIZE] = {STOKER__V1__ROW_STATUS__ROW_REPLACED,
		STOKER__V1__ROW_STATUS__ROW_OK, STOKER__V1__ROW_STATUS__ROW_MASKED,
		(Stoker__V1__RowStatus)-1};
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_inline(&fixture, 1, 7);
	struct inline_batch b;
	struct stoker_batch *batch;

	(void)state;
	make_inline_batch(&b, 7, 0);
	b.m.batch.statuses = statuses;
	b.m.batch.n_statuses = BATCH_SIZE;
	b.m.batch.bad = 3;
	SAY(&fixture, BATCH, batch, &b.m.batch, -1);
	batch = next_batch(stream, 0);
	assert_int_equal(batch->bad, 3);
	assert_int_equal(batch->statuses[0], STOKER_ROW_REPLACED);
	assert_int_equal(batch->statuses[1], STOKER_ROW_OK);
	assert_int_equal(batch->statuses[2], STOKER_ROW_MASKED);
	assert_int_equal(batch->statuses[3], STOKER_ROW_MASKED);
	stoker_release(batch);
	memset(statuses, 0, sizeof(statuses));
	make_inline_batch(&b, 7, 1);
	b.m.batch.statuses = statuses;
	b.m.batch.n_statuses = BATCH_SIZE;
	SAY(&fixture, BATCH, batch, &b.m.batch, -1);
	batch = next_batch(stream, 1);
	assert_null(batch->statuses);
	assert_int_equal(batch->bad, 0);
	stoker_release(batch);
	fixture_finish(&fixture);
}

static void a_wrong_number_of_statuses_is_refused(void **state)
{
	Stoker__V1__RowStatus statuses[BATCH_SIZE + 1] = {STOKER__V1__ROW_STATUS__ROW_OK};

	(void)state;
	for (size_t n = 1; n <= BATCH_SIZE + 1; n++) {
		struct fixture fixture = fixture_create();
		struct stoker_stream *stream = open_inline(&fixture, 1, 7);
		struct inline_batch b;

		make_inline_batch(&b, 7, 0);
		b.m.batch.statuses = statuses;
		b.m.batch.n_statuses = n;
		SAY(&fixture, BATCH, batch, &b.m.batch, -1);
		if (n == BATCH_SIZE) {
			stoker_release(next_batch(stream, 0));
		} else {
			next_is(stream, -EBADMSG);
			message_has(&fixture, "status");
		}
		fixture_finish(&fixture);
	}
}

static void the_policy_is_checked(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_options options = make_options();
	struct stoker_stream *stream;

	(void)state;
	assert_int_equal(options.on_bad_sample, STOKER_BAD_ERROR);
	options.on_bad_sample = (enum stoker_on_bad_sample)3;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	message_has(&fixture, "on_bad_sample 3");
	fixture_finish(&fixture);
}

static void bad_samples_are_listed(void **state)
{
	struct fixture fixture = fixture_create();
	Stoker__V1__StatusReply reply = STOKER__V1__STATUS_REPLY__INIT;
	Stoker__V1__DatasetStatus dataset = STOKER__V1__DATASET_STATUS__INIT, *datasets = &dataset;
	Stoker__V1__BadCount count = STOKER__V1__BAD_COUNT__INIT, odd = count;
	Stoker__V1__BadCount *counts[] = {&count, &odd};
	Stoker__V1__BadSample sample = STOKER__V1__BAD_SAMPLE__INIT, *samples = &sample;
	struct stoker_status *status;

	(void)state;
	count.reason = STOKER__V1__BAD_REASON__BAD_SIZE;
	count.samples = 12;
	odd.reason = (Stoker__V1__BadReason)99;
	odd.samples = 1;
	sample.sample = 5;
	sample.name = (char *)"/data/a\033.png";
	sample.text = (char *)"is 2x2";
	sample.reason = STOKER__V1__BAD_REASON__BAD_SIZE;
	dataset.bad_rows = 40;
	dataset.n_bad_count = 2;
	dataset.bad_count = counts;
	dataset.n_bad_sample = 1;
	dataset.bad_sample = &samples;
	reply.request = 1;
	reply.n_dataset = 1;
	reply.dataset = &datasets;
	SAY(&fixture, STATUS, status, &reply, -1);
	assert_int_equal(stoker_status(fixture.stoker, &status), 0);
	assert_int_equal(status->datasets[0].bad_samples, 13);
	assert_int_equal(status->datasets[0].bad_rows, 40);
	assert_int_equal(status->datasets[0].bad_count_count, 2);
	assert_string_equal(status->datasets[0].bad_counts[0].reason, "size");
	assert_string_equal(status->datasets[0].bad_counts[1].reason, "other");
	assert_int_equal(status->datasets[0].bad_listed, 1);
	assert_int_equal(status->datasets[0].bad[0].sample, 5);
	assert_null(strchr(status->datasets[0].bad[0].name, '\033'));
	assert_string_equal(status->datasets[0].bad[0].text, "is 2x2");
	stoker_status_free(status);
	fixture_finish(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_rows_show_their_status),
		cmocka_unit_test(inline_rows_show_their_status),
		cmocka_unit_test(a_wrong_number_of_statuses_is_refused),
		cmocka_unit_test(the_policy_is_checked),
		cmocka_unit_test(bad_samples_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
