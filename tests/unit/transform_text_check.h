/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/transform_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static inline struct transform_text parse(const char *text)
{
	struct transform_text pipeline;
	int r = transform_text_parse(&pipeline, text);

	if (r < 0)
		print_error("%s\n", pipeline.error);
	assert_int_equal(r, 0);
	return pipeline;
}

/* A text that is refused, where, and some of the words of the error. */
struct refused_text {
	const char *text;
	size_t line, column;
	const char *words;
};

static inline void assert_refused(const struct refused_text *texts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct transform_text pipeline;
		char place[64];
		int r = transform_text_parse(&pipeline, texts[i].text);

		snprintf(place, sizeof(place), "transforms, line %zu, column %zu: ", texts[i].line,
			texts[i].column);
		if (r != -EINVAL || pipeline.line != texts[i].line ||
			pipeline.column != texts[i].column ||
			strncmp(pipeline.error, place, strlen(place)) != 0 ||
			!strstr(pipeline.error, texts[i].words))
			fail_msg("%s\n  gives %d: %s\n  not column %zu: %s", texts[i].text, r,
				r ? pipeline.error : "", texts[i].column, texts[i].words);
	}
}

static inline bool numbers_are(
	const struct transform_text_numbers *numbers, size_t count, const uint32_t *values)
{
	return numbers->count == count &&
	       memcmp(numbers->values, values, count * sizeof(values[0])) == 0;
}

static inline bool doubles_are(
	const struct transform_text_doubles *doubles, size_t count, const double *values)
{
	for (size_t i = 0; i < count && doubles->count == count; i++) {
		if (doubles->values[i] != values[i])
			return false;
	}
	return doubles->count == count;
}

/* Whole numbers in parentheses after the list. */
#define NUMBERS_ARE(numbers, ...)                                                                  \
	numbers_are(&(numbers), sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),              \
		(const uint32_t[]){__VA_ARGS__})
#define DOUBLES_ARE(doubles, ...)                                                                  \
	doubles_are(&(doubles), sizeof((double[]){__VA_ARGS__}) / sizeof(double),                  \
		(const double[]){__VA_ARGS__})
