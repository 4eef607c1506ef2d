/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client_fixture.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>

/* stoker_next, stoker_release. */

static void shared_batches_stay_where_they_are(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	const uint8_t *arena = stoker_stream_info(stream)->arena;
	struct stoker_batch *batch;

	(void)state;
	next_is(stream, STOKER_AGAIN);
	say_batch(&fixture, 7, 1);
	batch = next_batch(stream, 1);
	assert_ptr_equal(batch->data, arena + BATCH_ARENA_PAGE + SLOT_STRIDE + TENSOR_OFFSET);
	assert_int_equal(batch->rows, BATCH_SIZE);
	assert_int_equal(batch->epoch, 0);
	assert_int_equal(batch->cursor.position, 8);
	assert_int_equal(batch->cursor.seed, 7);
	assert_int_equal(batch->cursor.world, 1);
	for (int i = 0; i < BATCH_SIZE; i++) {
		assert_int_equal(batch->samples[i], 100 + i);
		assert_int_equal(batch->labels[i], i);
		assert_int_equal(((const uint8_t *)batch->data)[i * ROW_BYTES], 16 + i);
	}
	heard_nothing(&fixture);
	stoker_release(batch);
	stoker_release(NULL);
	heard_release(&fixture, 7, 1, 2);
	fixture_finish(&fixture);
}

static void inline_batches_own_their_bytes(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_inline(&fixture, 1, 7);
	struct inline_batch b;
	struct stoker_batch *first, *second;

	(void)state;
	make_inline_batch(&b, 7, 0);
	SAY(&fixture, BATCH, batch, &b.m.batch, -1);
	make_inline_batch(&b, 7, 1);
	b.m.batch.rows = b.m.batch.n_samples = b.m.batch.n_labels = 1;
	b.m.batch.data.len = ROW_BYTES;
	b.data[0] = 99;
	SAY(&fixture, BATCH, batch, &b.m.batch, -1);
	first = next_batch(stream, 0);
	second = next_batch(stream, 1);
	assert_int_equal(first->rows, BATCH_SIZE);
	for (int i = 0; i < BATCH_SIZE; i++) {
		assert_int_equal(first->samples[i], 1000 + i);
		assert_int_equal(first->labels[i], i);
	}
	for (int i = 0; i < BATCH_SIZE * ROW_BYTES; i++)
		assert_int_equal(((const uint8_t *)first->data)[i], i + 1);
	assert_int_equal(second->rows, 1);
	assert_int_equal(((const uint8_t *)second->data)[0], 99);
	stoker_release(second);
	stoker_release(first);
	heard_release(&fixture, 7, 1, 2);
	heard_release(&fixture, 7, 0, 1);
	fixture_finish(&fixture);
}

/* ---- what must not be believed ---- */

static void refuse(struct fixture *fixture, struct stoker_stream *stream)
{
	next_is(stream, -EBADMSG);
	message_has(fixture, "broke the protocol");
	next_is(stream, -EBADMSG);
	fixture_finish(fixture);
}

static void wrong_batches_are_refused(void **state)
{
	static const struct {
		uint32_t rows, slot, stream;
		uint64_t step;
		bool no_cursor;
	} cases[] = {
		{.rows = 0, .stream = 7},
		{.rows = BATCH_SIZE + 1, .stream = 7},
		{.rows = 1, .slot = SLOTS, .stream = 7},
		{.rows = 1, .slot = UINT32_MAX, .stream = 7},
		{.rows = 1, .step = EPOCH_BATCHES, .stream = 7},
		{.rows = 1, .no_cursor = true, .stream = 7},
		{.rows = 1, .stream = 8},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture fixture = fixture_create();
		struct stoker_stream *stream = open_shared(&fixture, 1, 7);
		struct batch_message m;

		make_batch(&m, cases[i].stream, cases[i].step);
		m.batch.rows = cases[i].rows;
		m.batch.slot = cases[i].slot;
		if (cases[i].no_cursor)
			m.batch.cursor = NULL;
		SAY(&fixture, BATCH, batch, &m.batch, -1);
		refuse(&fixture, stream);
	}
}

static void wrong_inline_batches_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct fixture fixture = fixture_create();
		struct stoker_stream *stream = open_inline(&fixture, 1, 7);
		struct inline_batch b;

		make_inline_batch(&b, 7, 0);
		switch (i) {
		case 0: b.m.batch.n_samples--; break;
		case 1: b.m.batch.n_labels--; break;
		case 2: b.m.batch.data.len--; break;
		case 3: b.m.batch.rows--; break;
		case 4: b.labels[3] = 10; break;
		case 5: b.labels[0] = -1; break;
		}
		SAY(&fixture, BATCH, batch, &b.m.batch, -1);
		refuse(&fixture, stream);
	}
}

static void slots_in_use_are_not_sent_again(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);

	(void)state;
	say_batch(&fixture, 7, 0);
	next_batch(stream, 0);
	say_batch(&fixture, 7, 3); /* in the same slot */
	refuse(&fixture, stream);

	fixture = fixture_create();
	stream = open_shared(&fixture, 1, 7);
	for (int step = 0; step <= DEPTH; step++)
		say_batch(&fixture, 7, step);
	next_batch(stream, 0);
	next_batch(stream, 1);
	refuse(&fixture, stream); /* one more than depth */
}

static void an_oversized_inline_frame_is_refused(void **state)
{
	static const uint8_t header[] = {1, 0, 0x10, 0, 0, 0, 0, 0}; /* 1 MiB + 1 */
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_inline(&fixture, 1, 7);

	(void)state;
	assert_int_equal(send(fixture.server.fd, header, 8, 0), 8);
	next_is(stream, -EBADMSG);
	fixture_finish(&fixture);
}

/* ---- ends and waits ---- */

static void epochs_end(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);

	(void)state;
	say_batch(&fixture, 7, 3);
	say_epoch_end(&fixture, 7, 0, false);
	say_batch(&fixture, 7, 0);
	say_epoch_end(&fixture, 7, 1, true);
	stoker_release(next_batch(stream, 3));
	next_is(stream, STOKER_EPOCH_END);
	stoker_release(next_batch(stream, 0));
	next_is(stream, STOKER_EPOCH_END);
	next_is(stream, STOKER_END);
	next_is(stream, STOKER_END);
	fixture_finish(&fixture);
}

static void holding_everything_is_not_waited_for(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct stoker_batch *batch, *first;

	(void)state;
	say_batch(&fixture, 7, 0);
	say_batch(&fixture, 7, 1);
	first = next_batch(stream, 0);
	next_batch(stream, 1);
	assert_int_equal(stoker_next(stream, -1, &batch), -EDEADLK);
	message_has(&fixture, "all 2 batches");
	stoker_release(first);
	heard_release(&fixture, 7, 0, 1);
	/* with the last batch of an epoch in hand, its end can still come */
	say_batch(&fixture, 7, 3);
	next_batch(stream, 3);
	next_is(stream, STOKER_AGAIN);
	say_epoch_end(&fixture, 7, 0, false);
	next_is(stream, STOKER_EPOCH_END);
	assert_int_equal(stoker_next(stream, -1, &batch), -EDEADLK);
	fixture_finish(&fixture);
}

/* A seek may begin anywhere, and drop_last may leave samples over: the end of an epoch is known from
 * the cursor and not from the step. */
static void the_end_of_an_epoch_is_foreseen(void **state)
{
	static const struct {
		uint64_t position;
		bool drop_last;
		int result;
	} cases[] = {
		{16, false, STOKER_AGAIN},
		{15, false, -EDEADLK},
		{13, true, STOKER_AGAIN},
		{12, true, -EDEADLK},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture fixture = fixture_create();
		struct stoker_stream *stream = open_shared(&fixture, 1, 7);
		struct batch_message m;

		say_batch(&fixture, 7, 0);
		make_batch(&m, 7, 1);
		m.cursor.position = cases[i].position;
		m.cursor.drop_last = cases[i].drop_last;
		SAY(&fixture, BATCH, batch, &m.batch, -1);
		next_batch(stream, 0);
		next_batch(stream, 1);
		next_is(stream, cases[i].result);
		fixture_finish(&fixture);
	}
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void waits_end_in_time_despite_signals(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval often = {.it_interval.tv_usec = 2000, .it_value.tv_usec = 2000},
			 never = {0};
	struct timespec before, after;
	struct stoker_batch *batch;

	(void)state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(stoker_next(stream, 50, &batch), STOKER_AGAIN);
	clock_gettime(CLOCK_MONOTONIC, &after);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_true((after.tv_sec - before.tv_sec) * 1000 +
			    (after.tv_nsec - before.tv_nsec) / 1000000 >=
		    49);
	fixture_finish(&fixture);
}

static void a_stream_error_comes_after_its_batches(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7), *other;
	struct stoker_cursor cursor = {.world = 1};
	struct stoker_batch *batch;

	(void)state;
	say_batch(&fixture, 7, 0);
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_BAD_SAMPLE, 0, 7, false);
	batch = next_batch(stream, 0);
	next_is(stream, -EIO);
	message_has(&fixture, "the daemon's ?own words");
	next_is(stream, -EIO);
	assert_int_equal(stoker_seek(stream, &cursor), -EIO);
	assert_int_equal(batch->samples[0], 0);
	stoker_release(batch);
	stoker_close(stream);
	heard_nothing(&fixture); /* the daemon has forgotten the stream */
	other = open_inline(&fixture, 3, 8);
	next_is(other, STOKER_AGAIN);
	fixture_finish(&fixture);
}

static void going_away_comes_after_the_batches(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	Stoker__V1__GoingAway going_away = STOKER__V1__GOING_AWAY__INIT;

	(void)state;
	say_batch(&fixture, 7, 0);
	SAY(&fixture, GOING_AWAY, going_away, &going_away, -1);
	fdio_finish(&fixture.server);
	/* let both be read before the first is asked for */
	assert_int_equal(client_step(fixture.stoker, 0), 1);
	assert_int_equal(client_step(fixture.stoker, 0), 1);
	stoker_release(next_batch(stream, 0));
	next_is(stream, -ESHUTDOWN);
	next_is(stream, -ESHUTDOWN);
	fixture_finish(&fixture);
}

static void a_lost_daemon_comes_after_the_batches(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct stoker_batch *first, *second;

	(void)state;
	say_batch(&fixture, 7, 0);
	say_batch(&fixture, 7, 1);
	fdio_finish(&fixture.server);
	first = next_batch(stream, 0);
	stoker_release(first); /* no SIGPIPE */
	second = next_batch(stream, 1);
	next_is(stream, -ECONNRESET);
	message_has(&fixture, "/test.sock");
	assert_int_equal(second->samples[0], 100);
	stoker_release(second);
	stoker_close(stream);
	fixture_finish(&fixture);
}

static void streams_do_not_disturb_each_other(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *one = open_shared(&fixture, 1, 1);
	struct stoker_stream *two = open_inline(&fixture, 2, 2);
	struct inline_batch b;

	(void)state;
	say_batch(&fixture, 1, 0);
	make_inline_batch(&b, 2, 0);
	SAY(&fixture, BATCH, batch, &b.m.batch, -1);
	say_batch(&fixture, 1, 1);
	say_epoch_end(&fixture, 1, 0, true);
	make_inline_batch(&b, 2, 1);
	SAY(&fixture, BATCH, batch, &b.m.batch, -1);
	stoker_release(next_batch(two, 0));
	heard_release(&fixture, 2, 0, 1);
	stoker_release(next_batch(two, 1));
	heard_release(&fixture, 2, 1, 2);
	next_is(two, STOKER_AGAIN);
	stoker_release(next_batch(one, 0));
	heard_release(&fixture, 1, 0, 1);
	stoker_close(two);
	heard_close(&fixture, 3, 2);
	stoker_release(next_batch(one, 1));
	next_is(one, STOKER_EPOCH_END);
	next_is(one, STOKER_END);
	fixture_finish(&fixture);
}

static void a_flood_of_epoch_ends_is_refused(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *one = open_inline(&fixture, 1, 1);
	struct stoker_stream *two = open_inline(&fixture, 2, 2);

	(void)state;
	for (int i = 0; i < DEPTH + 2; i++)
		say_epoch_end(&fixture, 1, i, false);
	next_is(two, -EBADMSG);
	assert_non_null(one);
	fixture_finish(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_batches_stay_where_they_are),
		cmocka_unit_test(inline_batches_own_their_bytes),
		cmocka_unit_test(wrong_batches_are_refused),
		cmocka_unit_test(wrong_inline_batches_are_refused),
		cmocka_unit_test(slots_in_use_are_not_sent_again),
		cmocka_unit_test(an_oversized_inline_frame_is_refused),
		cmocka_unit_test(epochs_end),
		cmocka_unit_test(holding_everything_is_not_waited_for),
		cmocka_unit_test(the_end_of_an_epoch_is_foreseen),
		cmocka_unit_test(waits_end_in_time_despite_signals),
		cmocka_unit_test(a_stream_error_comes_after_its_batches),
		cmocka_unit_test(going_away_comes_after_the_batches),
		cmocka_unit_test(a_lost_daemon_comes_after_the_batches),
		cmocka_unit_test(streams_do_not_disturb_each_other),
		cmocka_unit_test(a_flood_of_epoch_ends_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
