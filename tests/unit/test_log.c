/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/util/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Run `speak` with stderr going into a pipe and return what it wrote; the caller frees it. */
static char *capture(void (*speak)(void))
{
	enum { ROOM = 1 << 16 };
	int saved = dup(STDERR_FILENO), fds[2];
	char *text = calloc(1, ROOM);
	ssize_t length;

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	speak();
	dup2(saved, STDERR_FILENO);
	close(saved);
	for (size_t used = 0; (length = read(fds[0], text + used, ROOM - 1 - used)) > 0;)
		used += (size_t)length;
	close(fds[0]);
	return text;
}

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;

	for (text = strstr(text, word); text != NULL; text = strstr(text + 1, word))
		n++;
	return n;
}

static void speak_at_all_levels(void)
{
	log_open("program", LOG_LEVEL_NOTICE);
	log_error("one");
	log_notice("two %d", 2);
	log_info("three");
}

static void test_level(void **state)
{
	char *text = capture(speak_at_all_levels);

	(void)state;
	assert_string_equal(text, "program: error: one\nprogram: notice: two 2\n");
	free(text);
}

static void speak_too_long(void)
{
	static char word[5000];

	memset(word, 'x', sizeof(word) - 1);
	log_open("program", LOG_LEVEL_INFO);
	log_error("%s", word);
	log_error("next");
}

static void test_long_line(void **state)
{
	char *text = capture(speak_too_long);

	(void)state;
	/* Cut, but still a line of its own. */
	assert_int_equal(count(text, "\n"), 2);
	assert_non_null(strstr(text, "xxx\nprogram: error: next\n"));
	free(text);
}

static void speak_like_a_flood(void)
{
	struct log_limit limit = {0}, other = {0}, few = {.most = 3};

	log_open("program", LOG_LEVEL_INFO);
	for (int i = 0; i < 3 * LOG_LIMIT_LINES; i++)
		log_limited(&limit, LOG_LEVEL_WARNING, "flood");
	log_limited(&other, LOG_LEVEL_WARNING, "drop");
	for (int i = 0; i < 50; i++)
		log_limited(&few, LOG_LEVEL_WARNING, "few");
	limit.minute--; /* as if the minute were over */
	log_limited(&limit, LOG_LEVEL_WARNING, "flood again");
}

static void test_limit(void **state)
{
	char *text = capture(speak_like_a_flood);
	unsigned floods = count(text, "flood\n");

	(void)state;
	/* The minute may end during the test: then a second hundred passes. */
	assert_true(floods == LOG_LIMIT_LINES || floods == 2 * LOG_LIMIT_LINES);
	assert_int_equal(count(text, "drop"), 1);
	assert_int_equal(count(text, "flood again"), 1);
	assert_true(count(text, "few\n") == 3 || count(text, "few\n") == 6);
	assert_true(count(text, "lines like the last ones were left out") >= 1);
	free(text);
}

static void test_parse(void **state)
{
	(void)state;
	assert_int_equal(log_level_parse("error"), LOG_LEVEL_ERROR);
	assert_int_equal(log_level_parse("debug"), LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("Debug"), -EINVAL);
	assert_int_equal(log_level_parse(""), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_level),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
