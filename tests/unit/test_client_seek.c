/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client_fixture.h"

/* stoker_seek. */

static void a_seek_drops_what_is_queued(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct stoker_cursor cursor = {.epoch = 3,
		.position = 4,
		.seed = 9,
		.shuffle = true,
		.world = 2,
		.rank = 1,
		.shard_drop = true,
		.drop_last = true,
		.fingerprint = 5};
	Stoker__V1__ClientMessage *message;
	struct stoker_batch *held;

	(void)state;
	say_batch(&fixture, 7, 0);
	say_batch(&fixture, 7, 1);
	held = next_batch(stream, 0);
	say_epoch_end(&fixture, 7, 0, true); /* old, too */
	say_sought(&fixture, 2, 7);
	say_batch(&fixture, 7, 2);
	assert_int_equal(stoker_seek(stream, &cursor), 0);
	message = heard(&fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_SEEK);
	assert_int_equal(message->seek->stream, 7);
	assert_int_equal(message->seek->cursor->epoch, 3);
	assert_int_equal(message->seek->cursor->position, 4);
	assert_int_equal(message->seek->cursor->seed, 9);
	assert_int_equal(message->seek->cursor->rank, 1);
	assert_int_equal(message->seek->cursor->world, 2);
	assert_true(message->seek->cursor->shuffle);
	assert_true(message->seek->cursor->shard_drop);
	assert_true(message->seek->cursor->drop_last);
	assert_int_equal(message->seek->cursor->fingerprint, 5);
	stoker__v1__client_message__free_unpacked(message, NULL);
	heard_release(&fixture, 7, 1, 2);

	assert_int_equal(held->samples[0], 0);
	stoker_release(next_batch(stream, 2));
	heard_release(&fixture, 7, 2, 3);
	stoker_release(held);
	heard_release(&fixture, 7, 0, 1);
	fixture_finish(&fixture);
}

static void a_finished_stream_goes_on_after_a_seek(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct stoker_cursor cursor = {.world = 1};

	(void)state;
	say_epoch_end(&fixture, 7, 0, true);
	next_is(stream, STOKER_EPOCH_END);
	next_is(stream, STOKER_END);
	say_sought(&fixture, 2, 7);
	say_batch(&fixture, 7, 0);
	assert_int_equal(stoker_seek(stream, &cursor), 0);
	next_batch(stream, 0);
	fixture_finish(&fixture);
}

static void a_seek_to_the_end_of_an_epoch_foresees_it(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct stoker_cursor cursor = {.world = 1, .position = 16};
	struct stoker_batch *batch;

	(void)state;
	say_batch(&fixture, 7, 0);
	say_batch(&fixture, 7, 1);
	next_batch(stream, 0);
	next_batch(stream, 1);
	say_sought(&fixture, 2, 7);
	assert_int_equal(stoker_seek(stream, &cursor), 0);
	next_is(stream, STOKER_AGAIN);
	say_epoch_end(&fixture, 7, 0, false);
	next_is(stream, STOKER_EPOCH_END);
	assert_int_equal(stoker_next(stream, -1, &batch), -EDEADLK);

	cursor.position = 12;
	say_sought(&fixture, 3, 7);
	assert_int_equal(stoker_seek(stream, &cursor), 0);
	assert_int_equal(stoker_next(stream, -1, &batch), -EDEADLK);
	fixture_finish(&fixture);
}

static void sought_without_a_seek_changes_nothing(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct batch_message m;

	(void)state;
	say_batch(&fixture, 7, 0);
	make_batch(&m, 7, 1);
	m.cursor.position = 16;
	SAY(&fixture, BATCH, batch, &m.batch, -1);
	next_batch(stream, 0);
	next_batch(stream, 1);
	say_sought(&fixture, 0, 7);
	next_is(stream, STOKER_AGAIN); /* the end of the epoch is still owed */
	fixture_finish(&fixture);
}

static void a_refused_seek_changes_nothing(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct stoker_cursor cursor = {.world = 9};

	(void)state;
	say_batch(&fixture, 7, 0);
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_CURSOR, 2, 0, false);
	assert_int_equal(stoker_seek(stream, &cursor), -ESTALE);
	message_has(&fixture, "own words");
	next_batch(stream, 0);
	next_is(stream, STOKER_AGAIN);
	fixture_finish(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_seek_drops_what_is_queued),
		cmocka_unit_test(a_finished_stream_goes_on_after_a_seek),
		cmocka_unit_test(a_seek_to_the_end_of_an_epoch_foresees_it),
		cmocka_unit_test(sought_without_a_seek_changes_nothing),
		cmocka_unit_test(a_refused_seek_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
