/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_scan.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 400 }; /* characters, more than any double needs */

/* <ctype.h> follows the locale and Python's syntax does not. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
	return is_digit(c) || c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

int scan_error(struct scanner *scanner, size_t at, const char *format, ...)
{
	struct transform_text *pipeline = scanner->pipeline;
	va_list arguments;
	int used;

	pipeline->line = 1;
	pipeline->column = 1;
	for (size_t i = 0; i < at; i++) {
		unsigned char c = scanner->text[i];

		if (c == '\n') {
			pipeline->line++;
			pipeline->column = 1;
		} else if ((c & 0xc0) != 0x80) { /* bytes inside a UTF-8 character do not count */
			pipeline->column++;
		}
	}
	used = snprintf(pipeline->error, sizeof(pipeline->error),
		"transforms, line %zu, column %zu: ", pipeline->line, pipeline->column);
	va_start(arguments, format);
	vsnprintf(pipeline->error + used, sizeof(pipeline->error) - used, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* Bytes of a string with its quotes, or of the first one alone where it cannot be shown. */
static size_t string_length(const char *text)
{
	size_t length = 1;

	while (text[length] >= 0x20 && text[length] < 0x7f && text[length] != text[0])
		length++;
	return text[length] == text[0] ? length + 1 : 1;
}

int scan_expected(struct scanner *scanner, const char *what)
{
	unsigned char c = scan_peek(scanner);
	size_t at = scanner->at, length = 0;

	while (is_name(scanner->text[at + length]))
		length++;
	if (c == '\0')
		return scan_error(scanner, at, "expected %s, found the end", what);
	if (c < 0x20 || c >= 0x7f)
		return scan_error(scanner, at, "expected %s, found byte 0x%02x", what, c);
	if (c == '\'' || c == '"') {
		length = string_length(scanner->text + at);
		return scan_error(scanner, at, "expected %s, found %.*s", what,
			length > 40 ? 40 : (int)length, scanner->text + at);
	}
	return scan_error(scanner, at, "expected %s, found '%.*s'", what,
		length ? length > 40 ? 40 : (int)length : 1, scanner->text + at);
}

char scan_peek(struct scanner *scanner)
{
	for (;;) {
		char c = scanner->text[scanner->at];

		if (c == '#')
			scanner->at += strcspn(scanner->text + scanner->at, "\n");
		else if (c == ' ' || (c >= '\t' && c <= '\r'))
			scanner->at++;
		else
			return c;
	}
}

bool scan_take(struct scanner *scanner, char c)
{
	if (scan_peek(scanner) != c)
		return false;
	scanner->at++;
	return true;
}

struct token scan_name(struct scanner *scanner)
{
	struct token token = {0};

	if (is_digit(scan_peek(scanner)))
		return token;
	token.at = scanner->at;
	while (is_name(scanner->text[scanner->at]))
		scanner->at++;
	token.length = scanner->at - token.at;
	return token;
}

bool token_is(const struct scanner *scanner, struct token token, const char *text)
{
	return token.length == strlen(text) &&
	       memcmp(scanner->text + token.at, text, token.length) == 0;
}

/* A number's characters without its underscores. */
struct digits {
	char text[NUMBER_MAX];
	size_t length;
};

static bool append(struct digits *digits, char c)
{
	if (digits->length + 1 >= sizeof(digits->text))
		return false;
	digits->text[digits->length++] = c;
	digits->text[digits->length] = '\0';
	return true;
}

static int digit_value(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* digit ("_"? digit)*: how many digits, or -1 for too many. Stops at what does not belong. */
static int scan_digits(struct scanner *scanner, struct digits *digits, int base)
{
	int n = 0;

	for (;;) {
		const char *next = scanner->text + scanner->at;
		int skip = n > 0 && *next == '_';

		if (digit_value(next[skip]) >= base)
			return n;
		if (!append(digits, next[skip]))
			return -1;
		scanner->at += skip + 1;
		n++;
	}
}

/* After "0x", "0o" or "0b" (an underscore may follow). */
static bool scan_based(struct scanner *scanner, int base, double *value)
{
	struct digits digits = {.length = 0};

	if (scanner->text[scanner->at] == '_')
		scanner->at++;
	if (scan_digits(scanner, &digits, base) <= 0)
		return false;
	*value = 0;
	for (size_t i = 0; i < digits.length; i++)
		*value = *value * base + digit_value(digits.text[i]);
	return true;
}

/* The rest of a decimal number: digits, point, exponent. */
static bool scan_decimal(struct scanner *scanner, struct number *number)
{
	struct digits digits = {.length = 0};
	int whole = scan_digits(scanner, &digits, 10), fraction = 0;
	bool zero = strspn(digits.text, "0") == digits.length;
	locale_t c_locale;

	number->integer = true;
	if (whole >= 0 && scanner->text[scanner->at] == '.') {
		number->integer = false;
		scanner->at++;
		append(&digits, '.');
		fraction = scan_digits(scanner, &digits, 10);
	}
	if (whole < 0 || fraction < 0 || whole + fraction == 0)
		return false;
	if ((scanner->text[scanner->at] | 0x20) == 'e') {
		number->integer = false;
		scanner->at++;
		append(&digits, 'e');
		if (scanner->text[scanner->at] == '-' || scanner->text[scanner->at] == '+')
			append(&digits, scanner->text[scanner->at++]);
		if (scan_digits(scanner, &digits, 10) <= 0)
			return false;
	}
	if (number->integer && digits.text[0] == '0' && !zero)
		return false; /* 010 is no number in Python */
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		return false;
	number->value = strtod_l(digits.text, NULL, c_locale);
	freelocale(c_locale);
	return true;
}

int scan_number(struct scanner *scanner, struct number *number)
{
	char first = scan_peek(scanner);
	size_t start = scanner->at;
	bool good;
	int base;

	number->at = start;
	if (!is_digit(first) && !(first == '.' && is_digit(scanner->text[start + 1])))
		return scan_expected(scanner, "a number");

	base = first != '0' ? 10 : 0;
	if (base == 0) {
		char mark = scanner->text[start + 1] | 0x20;

		base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
	}
	if (base == 10) {
		good = scan_decimal(scanner, number);
	} else {
		scanner->at += 2;
		number->integer = true;
		good = scan_based(scanner, base, &number->value);
	}
	if (!good || is_name(scanner->text[scanner->at]) || scanner->text[scanner->at] == '.') {
		size_t end = scanner->at;

		while (is_name(scanner->text[end]) || scanner->text[end] == '.')
			end++;
		return scan_error(scanner, start, "'%.*s' is not a number of Python",
			end - start > 40 ? 40 : (int)(end - start), scanner->text + start);
	}
	return 0;
}
