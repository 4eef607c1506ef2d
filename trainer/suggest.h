/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The one of `count` names that `typed` was probably meant to be, or NULL. '_' counts as '-'. */
const char *suggest(const char *typed, const char *const *names, size_t count);
