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

struct escaped escape_bytes(const void *bytes, size_t length)
{
	enum { HALF = (ESCAPE_MAX - 4) / 2 };
	const uint8_t *s = bytes;
	struct escaped escaped;
	size_t used = 0, i = 0;

	while (i < length) {
		char one[16];
		size_t n, step = escape_one(s + i, length - i, one, &n);

		if (used + n >= ESCAPE_MAX)
			break;
		memcpy(escaped.text + used, one, n);
		used += n;
		i += step;
	}
	escaped.text[used] = '\0';
	if (i == length)
		return escaped;

	/* Too long: keep the first half, and fill the second from the end of the input backwards. */
	size_t head = 0, tail_start = length;
	for (i = 0; i < length;) {
		char one[16];
		size_t n, step = escape_one(s + i, length - i, one, &n);

		if (head + n > HALF)
			break;
		head += n;
		i += step;
	}
	for (size_t start = length, size = 0; start > i;) {
		size_t at = start - 1, n;
		char one[16];

		while (at > i && start - at < 4 && (s[at] & 0xc0) == 0x80)
			at--;
		if (escape_one(s + at, length - at, one, &n) != start - at) {
			at = start - 1; /* a stray continuation byte stands for itself */
			n = 4;
		}
		if (size + n > HALF)
			break;
		size += n;
		start = at;
		tail_start = at;
	}
	memcpy(escaped.text + head, "...", 3);
	used = head + 3;
	for (i = tail_start; i < length;) {
		char one[16];
		size_t n, step = escape_one(s + i, length - i, one, &n);

		if (used + n >= ESCAPE_MAX)
			break;
		memcpy(escaped.text + used, one, n);
		used += n;
		i += step;
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
