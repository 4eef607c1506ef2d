/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/cli.h"

/* Write DIRECTORY/params.jsonl: of each sample of the stream that `options` describe, in order, what the
 * random transforms draw for it, as the daemon computes it once more. `total` samples are expected.
 * CLI_OK, or CLI_FAILED after saying why. */
int params_write(const struct cli *cli, struct stoker *stoker, const struct stoker_options *options,
	const char *directory, uint64_t total);
