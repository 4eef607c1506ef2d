/* SPDX-License-Identifier: Apache-2.0 */
/* Why rows of a batch on its way are bad. */
#include "daemon/serve/bad_rows.h"
#include "proto/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct error_text text_of(const char *words)
{
	struct error_text text;

	snprintf(text.text, sizeof(text.text), "%s", words);
	return text;
}

static void note(struct bad_rows *bad, uint32_t row, const char *words)
{
	struct error_text text = text_of(words);

	bad_rows_note(bad, row, 1000 + row, BAD_PICTURE, &text);
}

static void in_the_order_of_the_rows(void **state)
{
	static const uint32_t rows[] = {7, 3, 9, 0, 5, 65535, 4};
	struct bad_rows bad = {.list = NULL};

	(void)state;
	for (size_t i = 0; i < 7; i++)
		note(&bad, rows[i], "x");
	assert_int_equal(bad.count, 7);
	for (size_t i = 1; i < 7; i++)
		assert_true(bad.list[i - 1].row < bad.list[i].row);
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(bad.list[i].sample, 1000 + bad.list[i].row);
	note(&bad, 5, "another");
	assert_int_equal(bad.count, 7);
	assert_string_equal(bad.list[3].text, "another");
	bad_rows_clear(&bad);
	assert_int_equal(bad.count, 0);
	note(&bad, 1, "again");
	assert_int_equal(bad.count, 1);
	bad_rows_clear(&bad);
	bad_rows_clear(&bad);
}

/* Whatever the order in which they come, the first ones stay. */
static void no_more_than_the_first(void **state)
{
	enum { ROWS = 5 * PROTOCOL_BAD_ROWS_MAX };
	uint32_t rows[ROWS];

	(void)state;
	for (int round = 0; round < 20; round++) {
		struct bad_rows bad = {.list = NULL};

		for (uint32_t i = 0; i < ROWS; i++)
			rows[i] = round == 0 ? i : ROWS - 1 - i;
		srand((unsigned)round);
		for (uint32_t i = ROWS - 1; round > 1 && i > 0; i--) {
			uint32_t other = (uint32_t)rand() % (i + 1), row = rows[i];

			rows[i] = rows[other];
			rows[other] = row;
		}
		for (uint32_t i = 0; i < ROWS; i++)
			note(&bad, rows[i], "x");
		assert_int_equal(bad.count, PROTOCOL_BAD_ROWS_MAX);
		for (uint32_t i = 0; i < PROTOCOL_BAD_ROWS_MAX; i++)
			assert_int_equal(bad.list[i].row, i);
		note(&bad, PROTOCOL_BAD_ROWS_MAX - 1, "another");
		assert_int_equal(bad.count, PROTOCOL_BAD_ROWS_MAX);
		assert_string_equal(bad.list[PROTOCOL_BAD_ROWS_MAX - 1].text, "another");
		bad_rows_clear(&bad);
	}
}

/* They come from workers, which have seen hostile bytes, and go into a protobuf string. */
static void texts_are_bounded_and_clean(void **state)
{
	struct bad_rows bad = {.list = NULL};
	struct error_text text;

	(void)state;
	note(&bad, 0, "is\nodd \xff");
	assert_string_equal(bad.list[0].text, "is?odd ?");
	memset(text.text, 'a', sizeof(text.text));
	text.text[sizeof(text.text) - 1] = '\0';
	/* a character that the limit cuts in two */
	memcpy(text.text + PROTOCOL_BAD_TEXT_MAX - 1, "\xc3\xbc", 2);
	bad_rows_note(&bad, 1, 1, BAD_SIZE, &text);
	assert_int_equal(strlen(bad.list[1].text), PROTOCOL_BAD_TEXT_MAX);
	assert_int_equal(bad.list[1].text[PROTOCOL_BAD_TEXT_MAX - 1], '?');
	memset(text.text, 'a', sizeof(text.text)); /* not terminated */
	bad_rows_note(&bad, 2, 2, BAD_SIZE, &text);
	assert_int_equal(strlen(bad.list[2].text), PROTOCOL_BAD_TEXT_MAX);
	bad_rows_clear(&bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_the_order_of_the_rows),
		cmocka_unit_test(no_more_than_the_first),
		cmocka_unit_test(texts_are_bounded_and_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
