/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at `s` (RFC 3629), or 0. */
static size_t sequence(const uint8_t *s, size_t left)
{
	size_t length = s[0] < 0x80   ? 1
			: s[0] < 0xc2 ? 0
			: s[0] < 0xe0 ? 2
			: s[0] < 0xf0 ? 3
			: s[0] < 0xf5 ? 4
				      : 0;

	if (length == 0 || length > left)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if (length > 2) {
		unsigned start = s[0] << 8 | s[1];

		/* overlong forms, surrogates, beyond U+10FFFF */
		if (start < 0xe0a0 || (start >= 0xeda0 && start < 0xee00) ||
			(start >= 0xf000 && start < 0xf090) || start >= 0xf490)
			return 0;
	}
	return length;
}

bool text_is_utf8(const char *text)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t left = strlen(text), n;

	for (; left > 0; s += n, left -= n) {
		n = sequence(s, left);
		if (n == 0)
			return false;
	}
	return true;
}

/* C0 and C1 control characters and DEL move a terminal's cursor. */
static bool is_control(const uint8_t *s, size_t length)
{
	return s[0] < 0x20 || s[0] == 0x7f || (length == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

char *text_dup_escaped(const void *bytes, size_t length)
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t *s = bytes;
	char *text, *out;

	if (length > (SIZE_MAX - 1) / 4)
		return NULL;
	text = out = malloc(4 * length + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < length;) {
		size_t n = sequence(s + i, length - i);

		if (n == 0 || is_control(s + i, n)) {
			*out++ = '\\';
			*out++ = 'x';
			*out++ = hex[s[i] >> 4];
			*out++ = hex[s[i] & 15];
			i++;
			continue;
		}
		if (s[i] == '\\')
			*out++ = '\\';
		memcpy(out, s + i, n);
		out += n;
		i += n;
	}
	*out = '\0';
	return text;
}

char *text_clean(char *text)
{
	uint8_t *s = (uint8_t *)text;

	for (size_t left = strlen(text), n; left > 0; s += n, left -= n) {
		n = sequence(s, left);
		if (n == 0 || is_control(s, n)) {
			n = n ? n : 1;
			memset(s, '?', n);
		}
	}
	return text;
}
