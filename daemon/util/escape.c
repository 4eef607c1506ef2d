/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/util/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at `s` (RFC 3629: no surrogates, no overlong forms), or 0. */
static size_t utf8_sequence(const uint8_t *s, size_t left)
{
	size_t length = s[0] < 0x80                    ? 1
			: s[0] >= 0xc2 && s[0] <= 0xdf ? 2
			: (s[0] & 0xf0) == 0xe0        ? 3
			: s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
						       : 0;

	if (length == 0 || length > left)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return length;
}

/* C1 control characters (U+0080..U+009F) move terminals too. */
static bool is_control(const uint8_t *s, size_t length)
{
	return s[0] < 0x20 || s[0] == 0x7f || (length == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

/* Write the escaped form of what stands at `s` and return how many input bytes that was. */
static size_t escape_one(const uint8_t *s, size_t left, char out[16], size_t *out_length)
{
	size_t length = utf8_sequence(s, left);
	bool control = is_control(s, length);

	if (s[0] == '\\') {
		*out_length = (size_t)sprintf(out, "\\\\");
		return 1;
	}
	if (length == 0 || control) {
		*out_length = (size_t)sprintf(out, "\\x%02x", s[0]);
		return 1;
	}
	memcpy(out, s, length);
	*out_length = length;
	return length;
}

/* Append the escaped form of s[*at .. length) to out[*used ..], as far as it fits below `limit`; *at and
 * *used move on. */
static void append(
	const uint8_t *s, size_t length, size_t *at, char *out, size_t *used, size_t limit)
{
	while (*at < length) {
		char one[16];
		size_t n, step = escape_one(s + *at, length - *at, one, &n);

		if (*used + n > limit)
			return;
		memcpy(out + *used, one, n);
		*used += n;
		*at += step;
	}
}

/* Where the last part of s[least .. length) begins that takes at most `room` bytes escaped. */
static size_t find_tail(const uint8_t *s, size_t least, size_t length, size_t room)
{
	size_t start = length;

	for (size_t size = 0; start > least;) {
		size_t at = start - 1, n;
		char one[16];

		while (at > least && start - at < 4 && (s[at] & 0xc0) == 0x80)
			at--;
		if (escape_one(s + at, length - at, one, &n) != start - at) {
			at = start - 1; /* a stray continuation byte stands for itself */
			n = 4;
		}
		if (size + n > room)
			break;
		size += n;
		start = at;
	}
	return start;
}

struct escaped escape_bytes(const void *bytes, size_t length)
{
	enum { MOST = ESCAPE_MAX - 1, HALF = (MOST - 3) / 2 };
	struct escaped escaped;
	size_t used = 0, at = 0;

	append(bytes, length, &at, escaped.text, &used, MOST);
	if (at < length) {
		used = at = 0;
		append(bytes, length, &at, escaped.text, &used, HALF);
		memcpy(escaped.text + used, "...", 3);
		used += 3;
		at = find_tail(bytes, at, length, HALF);
		append(bytes, length, &at, escaped.text, &used, MOST);
	}
	escaped.text[used] = '\0';
	return escaped;
}

struct escaped escape(const char *string)
{
	return escape_bytes(string, strlen(string));
}

void escape_sanitize(char *text)
{
	uint8_t *s = (uint8_t *)text;
	size_t left = strlen(text);

	while (left > 0) {
		size_t length = utf8_sequence(s, left);

		if (length == 0 || is_control(s, length)) {
			memset(s, '?', length > 0 ? length : 1);
			length = length > 0 ? length : 1;
		}
		s += length;
		left -= length;
	}
}
