/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/cli.h"
#include "client/cli/text.h"
#include "client/stoker.h"

/* The data sets of a status, for `stoker datasets` and as a part of `stoker status`. */
void datasets_print_json(struct json *json, const char *key, const struct stoker_status *status);
void datasets_print_table(const struct stoker_status *status, FILE *out);

/* The classes of one data set as a table, or its samples line by line, as they come. CLI_OK, or
 * CLI_FAILED after saying why. */
int dataset_print_classes(const struct cli *cli, struct stoker *stoker, const char *name);
int dataset_print_samples(const struct cli *cli, struct stoker *stoker, const char *name);

/* The bad samples found so far, for those data sets that have any. */
void datasets_print_bad(const struct stoker_status *status, FILE *out);
