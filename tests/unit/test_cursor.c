/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors that belong to other data or another order are refused by the name of what differs. */
#include "daemon/serve/cursor.h"
#include "daemon/serve/open_request.h"
#include "daemon/serve/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct cursor own = {
	.epoch = 2,
	.order = {.samples = 100, .shuffle = true, .seed = 42, .rank = 1, .world = 3},
	.drop_last = true,
	.fingerprint = 0x1234567890abcdef,
};

/* `cursor` is refused, and the text has both words. */
static void check_refused(const struct cursor *cursor, const char *what, const char *value)
{
	struct error_text error = {""};

	assert_int_equal(cursor_check(cursor, &own, &error), CURSOR_DIFFERS);
	if (strstr(error.text, what) == NULL || strstr(error.text, value) == NULL)
		fail_msg("%s", error.text);
	assert_int_equal(cursor_check(cursor, &own, NULL), CURSOR_DIFFERS);
}

static void what_differs_is_named(void **state)
{
	struct cursor cursor = own;

	(void)state;
	assert_int_equal(cursor_check(&own, &own, NULL), 0);
	cursor.fingerprint++;
	check_refused(&cursor, "fingerprint", "1234567890abcdf0");
	cursor = own;
	cursor.order.shuffle = false;
	check_refused(&cursor, "shuffle", "0");
	cursor = own;
	cursor.order.seed = UINT64_MAX;
	check_refused(&cursor, "seed", "18446744073709551615");
	cursor = own;
	cursor.order.world = 4;
	check_refused(&cursor, "world", "4");
	cursor = own;
	cursor.order.rank = 2;
	check_refused(&cursor, "rank", "2");
	cursor = own;
	cursor.order.shard_drop = true;
	check_refused(&cursor, "shard_drop", "1");
	cursor = own;
	cursor.drop_last = false;
	check_refused(&cursor, "drop_last", "0");
}

/* Changed data is the worst of it: it is named first. */
static void the_data_come_first(void **state)
{
	struct cursor cursor = {.fingerprint = 1, .order.seed = 7};

	(void)state;
	check_refused(&cursor, "data set", "fingerprint");
}

/* The upper half of a fingerprint is the data set's, the lower one the part's. */
static void another_part_is_named(void **state)
{
	struct cursor cursor = own;

	(void)state;
	cursor.fingerprint ^= 1;
	check_refused(&cursor, "another part of the data set", "12345678");
	cursor.fingerprint ^= UINT64_C(1) << 40;
	check_refused(&cursor, "from other data", "12345678");
}

static void positions(void **state)
{
	struct cursor cursor = own;

	(void)state;
	assert_int_equal(order_length(&own.order), 34);
	for (cursor.position = 0; cursor.position <= 34; cursor.position++)
		assert_int_equal(cursor_check(&cursor, &own, NULL), 0);
	check_refused(&cursor, "position", "35");
	cursor.position = UINT64_MAX;
	check_refused(&cursor, "position", "18446744073709551615");
	cursor.position = 0;
	cursor.epoch = UINT64_MAX; /* for stream_seek to judge */
	assert_int_equal(cursor_check(&cursor, &own, NULL), 0);
}

static void a_message_and_back(void **state)
{
	Stoker__V1__Cursor message = STOKER__V1__CURSOR__INIT;
	struct cursor cursor = own, back;

	(void)state;
	cursor.position = 17;
	cursor.order.shard_drop = true;
	cursor_to_message(&cursor, &message);
	assert_int_equal(message.epoch, 2);
	assert_int_equal(message.position, 17);
	assert_int_equal(message.seed, 42);
	assert_int_equal(message.rank, 1);
	assert_int_equal(message.world, 3);
	assert_true(message.shuffle && message.shard_drop && message.drop_last);
	back = cursor_from_message(&message);
	assert_int_equal(back.order.samples, 0); /* no part of it: the fingerprint covers them */
	cursor.order = own.order;
	cursor.order.shard_drop = true;
	assert_int_equal(cursor_check(&back, &cursor, NULL), 0);
	assert_int_equal(back.epoch, cursor.epoch);
	assert_int_equal(back.position, cursor.position);
	assert_int_equal(back.drop_last, cursor.drop_last);
	assert_int_equal(back.fingerprint, cursor.fingerprint);
}

static void an_empty_message_is_the_first_place_of_one_rank(void **state)
{
	Stoker__V1__Cursor message = STOKER__V1__CURSOR__INIT;
	struct cursor cursor = cursor_from_message(&message);

	(void)state;
	assert_int_equal(cursor.order.world, 1);
	assert_int_equal(cursor.order.rank, 0);
	assert_int_equal(cursor.epoch, 0);
	assert_int_equal(cursor.position, 0);
	assert_false(cursor.order.shuffle);
}

static void the_origin_of_a_stream(void **state)
{
	struct stream_params params = {
		.order = own.order,
		.batch_size = 8,
		.drop_last = true,
		.first_epoch = 2,
		.fingerprint = own.fingerprint,
	};
	struct cursor origin = stream_cursor_origin(&params);

	(void)state;
	assert_int_equal(origin.epoch, 2);
	assert_int_equal(origin.position, 0);
	assert_int_equal(cursor_check(&origin, &own, NULL), 0);
	assert_int_equal(cursor_check(&own, &origin, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_differs_is_named),
		cmocka_unit_test(the_data_come_first),
		cmocka_unit_test(another_part_is_named),
		cmocka_unit_test(positions),
		cmocka_unit_test(a_message_and_back),
		cmocka_unit_test(an_empty_message_is_the_first_place_of_one_rank),
		cmocka_unit_test(the_origin_of_a_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
