/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/text.h"
#include "client/stoker.h"

/* The data sets of a status, for `stoker datasets` and as a part of `stoker status`. */
void datasets_print_json(struct json *json, const char *key, const struct stoker_status *status);
void datasets_print_table(const struct stoker_status *status, FILE *out);

/* The bad samples found so far, for those data sets that have any. */
void datasets_print_bad(const struct stoker_status *status, FILE *out);
