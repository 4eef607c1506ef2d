/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The entry of `choices` (`count` strings) that somebody who wrote `word` probably meant, or NULL.
 * Letter case, '_' for '-' and a leading "--" do not count, and one part of a composed word may hit:
 * "num_worker" gives "workers". */
const char *suggest(const char *word, const char *const *choices, size_t count);
