/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Paths and names are bytes; people and terminals get them escaped. Control bytes, backslash and
 * bytes that are not part of valid UTF-8 become \xHH (backslash itself \\), everything else stays.
 * When the result does not fit, its middle is replaced by "..." so that the file name stays visible.
 */
enum { ESCAPE_MAX = 320 };

struct escaped {
	char text[ESCAPE_MAX];
};

/* Returned by value so that it can stand in an argument list: log_error("%s: ...", escape(p, n).text). */
struct escaped escape_bytes(const void *bytes, size_t length);
struct escaped escape(const char *string);

/* Make a sentence from a less trusted process fit for logs and protobuf strings, in place: control
 * bytes and bytes that are not valid UTF-8 become '?'. Unlike escape it leaves what is escaped alone. */
void escape_sanitize(char *text);
