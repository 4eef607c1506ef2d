/* SPDX-License-Identifier: Apache-2.0 */
/* Who is bad: samples that workers have died at, and what a data set remembers. */
#include "daemon/serve/bad_samples.h"
#include "daemon/serve/suspects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void each_sample_counts_once(void **state)
{
	struct error_text text = {.text = "is\nodd \xff"};
	struct bad_samples bad = {.seen = NULL};

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (uint64_t sample = 0; sample < 1000; sample++) {
			enum bad_reason reason = sample % 10 == 0 ? BAD_SIZE : BAD_PICTURE;

			assert_int_equal(
				bad_samples_note(&bad, sample, 1000, reason, &text), round == 0);
		}
	}
	assert_int_equal(bad.rows, 3000);
	assert_int_equal(bad.samples[BAD_SIZE], 100);
	assert_int_equal(bad.samples[BAD_PICTURE], 900);
	assert_int_equal(bad.listed, BAD_SAMPLES_LISTED);
	for (size_t i = 0; i < bad.listed; i++)
		assert_int_equal(bad.list[i].sample, i);
	assert_string_equal(bad.list[10].text.text, "is?odd ?");
	assert_int_equal(bad.list[10].reason, BAD_SIZE);
	bad_samples_finish(&bad);
}

/* The reason found first stays: a file that is missing later was no picture before. */
static void the_first_reason_stays(void **state)
{
	struct error_text text = {.text = "why"};
	struct bad_samples bad = {.seen = NULL};

	(void)state;
	assert_true(bad_samples_note(&bad, 7, 8, BAD_PICTURE, &text));
	assert_false(bad_samples_note(&bad, 7, 8, BAD_UNREADABLE, &text));
	assert_int_equal(bad.samples[BAD_UNREADABLE], 0);
	assert_int_equal(bad.rows, 2);
	bad_samples_finish(&bad);
}

static void two_deaths_convict(void **state)
{
	struct suspects suspects = {.list = NULL};

	(void)state;
	for (uint64_t sample = 0; sample < 50; sample++)
		assert_int_equal(suspects_blame(&suspects, sample), 1);
	suspects_absolve(&suspects, 3);
	assert_int_equal(suspects_deaths(&suspects, 3), 0);
	assert_int_equal(suspects_blame(&suspects, 3), 1);
	for (uint64_t sample = 0; sample < 50; sample += 2)
		assert_int_equal(suspects_blame(&suspects, sample), SUSPECT_DEATHS);
	suspects_absolve(&suspects, 4);
	assert_int_equal(suspects_deaths(&suspects, 4), SUSPECT_DEATHS);
	suspects_absolve_all(&suspects);
	for (uint64_t sample = 0; sample < 50; sample++)
		assert_int_equal(
			suspects_deaths(&suspects, sample), sample % 2 == 0 ? SUSPECT_DEATHS : 0);
	suspects_finish(&suspects);
	assert_int_equal(suspects_deaths(&suspects, 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sample_counts_once),
		cmocka_unit_test(the_first_reason_stays),
		cmocka_unit_test(two_deaths_convict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
