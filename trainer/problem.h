/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What went wrong, in words for people: names the object and the way out. */
struct problem {
	char text[768]; /* always terminated; "" when nothing was said */
};

/* Format into `problem` and return `code`, so that a failing line can be
 * `return problem_set(problem, -EINVAL, "%s: not a checkpoint", path);`. */
__attribute__((format(printf, 3, 4))) int problem_set(
	struct problem *problem, int code, const char *format, ...);
