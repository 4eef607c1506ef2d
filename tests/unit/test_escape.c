/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes made fit for people: always valid UTF-8, never too long, and what is lost is the middle. */
#include "daemon/util/error.h"
#include "daemon/util/escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONG = 1200 };

/* Decode one character, the long way: its code point, or -1. */
static int32_t decode(const uint8_t *s, size_t left, size_t *length)
{
	static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	int32_t code;

	*length = s[0] < 0x80       ? 1
		  : s[0] >> 5 == 6  ? 2
		  : s[0] >> 4 == 14 ? 3
		  : s[0] >> 3 == 30 ? 4
				    : 0;
	if (*length == 0 || *length > left)
		return -1;
	code = *length == 1 ? s[0] : s[0] & (0x7f >> *length);
	for (size_t i = 1; i < *length; i++) {
		if (s[i] >> 6 != 2)
			return -1;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[*length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return -1;
	return code;
}

/* Printable text only: what may go to terminals and into protobuf strings. */
static void check_fit(const char *text)
{
	size_t left = strlen(text), length;

	for (; left > 0; text += length, left -= length) {
		int32_t code = decode((const uint8_t *)text, left, &length);

		assert_true(code >= 0x20 && code != 0x7f && (code < 0x80 || code >= 0xa0));
	}
}

/* Undo the escaping of text[0 .. length): bytes written to `out`. */
static size_t unescape(const char *text, size_t length, uint8_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] != '\\') {
			out[n++] = (uint8_t)text[i];
		} else if (text[i + 1] == '\\') {
			out[n++] = '\\';
			i++;
		} else {
			char digits[3] = {text[i + 2], text[i + 3], '\0'};

			assert_int_equal(text[i + 1], 'x');
			out[n++] = (uint8_t)strtoul(digits, NULL, 16);
			i += 3;
		}
	}
	return n;
}

/* Is text[0 .. at) the start and text[at + 3 ..] the end of the input? */
static bool is_cut_at(const char *text, size_t at, const uint8_t *bytes, size_t length)
{
	uint8_t out[ESCAPE_MAX];
	size_t n = unescape(text, at, out), end = strlen(text) - at - 3;

	if (n > length || memcmp(out, bytes, n) != 0)
		return false;
	n = unescape(text + at + 3, end, out);
	return n <= length && memcmp(out, bytes + length - n, n) == 0;
}

static void check_escape(const uint8_t *bytes, size_t length)
{
	struct escaped escaped = escape_bytes(bytes, length);
	size_t size = strnlen(escaped.text, ESCAPE_MAX);
	uint8_t out[ESCAPE_MAX];

	assert_true(size < ESCAPE_MAX);
	check_fit(escaped.text);
	if (unescape(escaped.text, size, out) == length && memcmp(out, bytes, length) == 0)
		return;
	/* Cut: then it is full but for one character on either side, and head and tail are whole. */
	assert_true(size >= ESCAPE_MAX - 1 - 2 * 4);
	for (const char *dots = strstr(escaped.text, "..."); dots != NULL;
		dots = strstr(dots + 1, "...")) {
		size_t at = (size_t)(dots - escaped.text);

		if (at > ESCAPE_MAX / 2 - 8 && at < ESCAPE_MAX / 2 &&
			is_cut_at(escaped.text, at, bytes, length))
			return;
	}
	fail_msg("%s", escaped.text);
}

static void known_strings(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		const char *escaped;
	} cases[] = {
		{"", 0, ""},
		{"train/7.png", 11, "train/7.png"},
		{"a b'\"<&", 7, "a b'\"<&"},
		{"\\", 1, "\\\\"},
		{"\\x41", 4, "\\\\x41"},
		{"\n\r\t\0\x1b[2J\x7f", 9, "\\x0a\\x0d\\x09\\x00\\x1b[2J\\x7f"},
		{"gr\xc3\xbc\xc3\x9f.png", 10, "gr\xc3\xbc\xc3\x9f.png"},
		{"\xe7\x8c\xab", 3, "\xe7\x8c\xab"},
		{"\xf0\x9f\x90\x88", 4, "\xf0\x9f\x90\x88"},
		{"\xc2\x9b"
		 "2J",
			4, "\\xc2\\x9b2J"}, /* C1: CSI */
		{"\xc2\xa0", 2, "\xc2\xa0"},
		{"\xff\xfe", 2, "\\xff\\xfe"},
		{"\x80", 1, "\\x80"},
		{"\xc0\xaf", 2, "\\xc0\\xaf"}, /* overlong '/' */
		{"\xc1\xbf", 2, "\\xc1\\xbf"},
		{"\xe0\x9f\xbf", 3, "\\xe0\\x9f\\xbf"},
		{"\xf0\x8f\xbf\xbf", 4, "\\xf0\\x8f\\xbf\\xbf"},
		{"\xed\xa0\x80", 3, "\\xed\\xa0\\x80"}, /* a surrogate */
		{"\xed\x9f\xbf", 3, "\xed\x9f\xbf"},
		{"\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80"}, /* over U+10FFFF */
		{"\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf"},
		{"\xf5\x80\x80\x80", 4, "\\xf5\\x80\\x80\\x80"},
		{"a\xc3", 2, "a\\xc3"}, /* cut */
		{"a\xe7\x8c", 3, "a\\xe7\\x8c"},
		{"\xe7\x8c"
		 "a",
			3,
			"\\xe7\\x8c"
			"a"},
		{"\xf0\x9f\x90", 3, "\\xf0\\x9f\\x90"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(
			escape_bytes(cases[i].bytes, cases[i].length).text, cases[i].escaped);
		check_escape((const uint8_t *)cases[i].bytes, cases[i].length);
	}
	assert_string_equal(escape("a\nb").text, "a\\x0ab");
}

/* Lengths around the limit, of characters of each size, and both ends of a path stay visible. */
static void lengths_around_the_limit(void **state)
{
	static const char *const units[] = {"a", "\xc3\xbc", "\xe7\x8c\xab", "\xf0\x9f\x90\x88",
		"\\", "\n", "\xff", "a\xff", "\xe7\x8c", "\x80\xc2"};
	uint8_t bytes[LONG];

	(void)state;
	for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++) {
		size_t unit = strlen(units[k]);

		for (size_t length = 0; length < sizeof(bytes); length++) {
			bytes[length] = (uint8_t)units[k][length % unit];
			check_escape(bytes, length + 1);
		}
	}
	memset(bytes, 'x', sizeof(bytes));
	memcpy(bytes, "/data/train/", 12);
	memcpy(bytes + sizeof(bytes) - 10, "/00017.png", 10);

	struct escaped escaped = escape_bytes(bytes, sizeof(bytes));

	assert_memory_equal(escaped.text, "/data/train/xxx", 15);
	assert_non_null(strstr(escaped.text, "x...x"));
	assert_string_equal(escaped.text + strlen(escaped.text) - 11, "x/00017.png");
	memset(bytes, 'x', ESCAPE_MAX - 1); /* the longest that fits is whole */
	assert_null(strstr(escape_bytes(bytes, ESCAPE_MAX - 1).text, "..."));
	memset(bytes, 'x', ESCAPE_MAX);
	assert_non_null(strstr(escape_bytes(bytes, ESCAPE_MAX).text, "..."));
}

static uint32_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (uint32_t)(*random >> 32);
}

/* Bytes that are often nearly UTF-8. */
static size_t random_bytes(uint64_t *random, uint8_t *bytes)
{
	static const uint8_t edges[] = {0x00, 0x1f, 0x20, 0x7e, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
		0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff, '\\', '.', 'a'};
	size_t length = next_random(random) % (next_random(random) % 4 == 0 ? LONG : 40);
	uint32_t kind = next_random(random) % 3;

	for (size_t i = 0; i < length; i++) {
		uint32_t r = next_random(random);

		if (kind == 0)
			bytes[i] = (uint8_t)r;
		else if (kind == 1)
			bytes[i] = edges[r % sizeof(edges)];
		else
			bytes[i] = (uint8_t)("\xe7\x8c\xab\xc3\xbc\xf0\x9f\x90\x88x"[i % 10] ^
					     (r % 50 == 0));
	}
	return length;
}

static void random_strings(void **state)
{
	uint64_t random = 88172645463325252;
	uint8_t bytes[LONG];

	(void)state;
	for (int i = 0; i < 30000; i++)
		check_escape(bytes, random_bytes(&random, bytes));
}

static void sanitize(void **state)
{
	uint64_t random = 1234567;
	uint8_t bytes[LONG + 1];
	char text[] = "a\\x0a\n\xc3\xbc\xc2\x9b\xff"
		      "b\xe7\x8c";

	(void)state;
	escape_sanitize(text);
	assert_string_equal(text, "a\\x0a?\xc3\xbc???b??");
	for (int i = 0; i < 30000; i++) {
		size_t length = random_bytes(&random, bytes), before;
		char *copy;

		bytes[length] = '\0';
		before = strlen((char *)bytes);
		copy = strdup((char *)bytes);
		escape_sanitize((char *)bytes);
		assert_int_equal(strlen((char *)bytes), before);
		check_fit((char *)bytes);
		for (size_t k = 0; k < before; k++)
			assert_true(bytes[k] == '?' || bytes[k] == (uint8_t)copy[k]);
		escape_sanitize(strcpy(copy, (char *)bytes)); /* again changes nothing */
		assert_string_equal(copy, (char *)bytes);
		free(copy);
	}
}

static void errors_are_cut_and_carry_their_code(void **state)
{
	struct error_text error;
	char many[2 * ERROR_TEXT_MAX];

	(void)state;
	assert_int_equal(error_set(&error, -5, "%s: %d", "name", 7), -5);
	assert_string_equal(error.text, "name: 7");
	assert_int_equal(error_set(NULL, 3, "%d", 1), 3);
	memset(many, 'x', sizeof(many));
	many[sizeof(many) - 1] = '\0';
	error_set(&error, 0, "%s", many);
	assert_int_equal(strlen(error.text), ERROR_TEXT_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_strings),
		cmocka_unit_test(lengths_around_the_limit),
		cmocka_unit_test(random_strings),
		cmocka_unit_test(sanitize),
		cmocka_unit_test(errors_are_cut_and_carry_their_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
