/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/transform_scan.h"

/* A value as it stands in Python's source, before it is known what it is for. */
enum literal_kind {
	LITERAL_NOTHING, /* no value stands here */
	LITERAL_NUMBER,
	LITERAL_SEQUENCE, /* a tuple or a list of numbers */
	LITERAL_STRING,
	LITERAL_NAME, /* None, True, torch.float32 */
};

enum { LITERAL_NUMBERS_MAX = 8, LITERAL_PREFIX_MAX = 64 };

struct literal {
	enum literal_kind kind;
	size_t at;
	size_t count;                               /* NUMBER: 1; SEQUENCE: any */
	struct number numbers[LITERAL_NUMBERS_MAX]; /* NUMBER, SEQUENCE */
	struct token token;              /* STRING: inside the quotes; NAME: its last part */
	char prefix[LITERAL_PREFIX_MAX]; /* NAME: "torch", what stands before the last part */
};

/*
 * Take a value. Numbers may be written with + - * / // and parentheses, int(), float() and round(), and
 * sequences as [0.5] * 3, all computed as Python does. 0, also when nothing that could be a value comes
 * next; -EINVAL: it begins as one and goes wrong.
 */
int literal_parse(struct scanner *scanner, struct literal *literal);

/* Is it this name, without a prefix? */
bool literal_is(const struct scanner *scanner, const struct literal *literal, const char *name);

/* Say that `what` was expected where the value stands. */
int literal_expected(struct scanner *scanner, const struct literal *literal, const char *what);
