/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/transform_text.h"

#include <stdbool.h>

/* The characters of a pipeline's text: tokens, numbers, names and the place of an error. */
struct scanner {
	const char *text;
	size_t at; /* of the next character */
	struct transform_text *pipeline;
};

/* A piece of the text. */
struct token {
	size_t at, length;
};

/* Say what is wrong with the character `at`, and return -EINVAL. */
__attribute__((format(printf, 3, 4))) int scan_error(
	struct scanner *scanner, size_t at, const char *format, ...);

/* The same, ending in ", found ..." with what stands at the next token. */
int scan_expected(struct scanner *scanner, const char *what);

/* Go to the next token, over white space and comments, and return its first character. */
char scan_peek(struct scanner *scanner);

/* Take `c` if it is the next token. */
bool scan_take(struct scanner *scanner, char c);

/* Take a name if one is next; else the token is empty. */
struct token scan_name(struct scanner *scanner);

bool token_is(const struct scanner *scanner, struct token token, const char *text);

/* A number of Python. */
struct number {
	size_t at;
	double value;
	bool integer; /* an int of Python's, not a float */
};

/* Take a number without a sign: underscores, 0x 0o 0b, point, exponent. 0 or -EINVAL. */
int scan_number(struct scanner *scanner, struct number *number);

/* ---- transform_names.c ---- */

/* Does torchvision have a transform of this name that we have not? Then why, or what to do: the end of
 * a sentence; else NULL. */
const char *transform_name_foreign(const char *name, size_t length);

/* The name most like this one, or NULL when none is near. */
const char *transform_name_suggest(const char *name, size_t length);
