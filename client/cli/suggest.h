/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The nearest of several words to a mistyped one:
 *
 *   struct suggestion s = suggestion_for("num_worker");
 *   suggestion_try(&s, "workers"); ...
 *   s.nearest     "workers", or NULL when nothing is near
 *
 * Letter case, '_' for '-' and leading dashes do not count; of a composed word one part may hit. */
struct suggestion {
	const char *word;
	const char *nearest;
	unsigned distance;
};

struct suggestion suggestion_for(const char *word);
void suggestion_try(struct suggestion *suggestion, const char *choice);
