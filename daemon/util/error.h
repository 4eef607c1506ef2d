/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>

/*
 * Two kinds of outcome travel through return values:
 *   negative  a fatal errno (-ENOMEM, -EIO, ...), passed up unchanged
 *   0         success
 *   positive  a condition that the function documents and its caller must handle
 *
 * Where a person will read about it, the function also fills a `struct error_text`.
 */
enum { ERROR_TEXT_MAX = 512 };

struct error_text {
	char text[ERROR_TEXT_MAX]; /* always terminated; "" when nothing was said */
};

/* Format a sentence into `error` (may be NULL) and return `code`, so that a failing line can be
 * `return error_set(error, -EINVAL, "%s: not an IDX file", path);`. Cut at ERROR_TEXT_MAX. */
__attribute__((format(printf, 3, 4))) int error_set(
	struct error_text *error, int code, const char *format, ...);
