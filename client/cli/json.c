/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Length of the valid UTF-8 sequence that starts with s[0] >= 0x80, or 0 (RFC 3629). */
static size_t utf8_sequence(const unsigned char *s)
{
	size_t length = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
			: (s[0] & 0xf0) == 0xe0        ? 3
			: s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
						       : 0;

	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80) /* the string's NUL ends here too */
			return 0;
	}
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return length;
}

static void string(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	fputc('"', out);
	while (*s != '\0') {
		size_t length = *s < 0x80 ? 1 : utf8_sequence(s);

		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", *s);
		else if (length == 0)
			fputs("\\ufffd", out);
		else
			fwrite(s, 1, length, out);
		s += length > 0 ? length : 1;
	}
	fputc('"', out);
}

static void start(struct json *json, const char *key)
{
	if (json->follows)
		fputs(", ", json->out);
	json->follows = true;
	if (key != NULL) {
		string(json->out, key);
		fputs(": ", json->out);
	}
}

void json_open(struct json *json, const char *key, char bracket)
{
	start(json, key);
	fputc(bracket, json->out);
	json->follows = false;
}

void json_close(struct json *json, char bracket)
{
	fputc(bracket, json->out);
	json->follows = true;
}

void json_text(struct json *json, const char *key, const char *text)
{
	start(json, key);
	if (text == NULL)
		fputs("null", json->out);
	else
		string(json->out, text);
}

void json_number(struct json *json, const char *key, uint64_t number)
{
	start(json, key);
	fprintf(json->out, "%" PRIu64, number);
}

void json_real(struct json *json, const char *key, double number)
{
	start(json, key);
	if (isfinite(number))
		fprintf(json->out, "%.6g", number);
	else
		fputs("null", json->out);
}

void json_exact(struct json *json, const char *key, double number)
{
	char text[32];

	start(json, key);
	if (!isfinite(number)) {
		fputs("null", json->out);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, number);
		if (strtod(text, NULL) == number)
			break;
	}
	fputs(text, json->out);
}

void json_bool(struct json *json, const char *key, bool value)
{
	start(json, key);
	fputs(value ? "true" : "false", json->out);
}
