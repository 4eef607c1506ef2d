/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/cli.h"

/* Open a stream of what the random transforms draw for the samples of the stream that `options` describe, as
 * the daemon computes it once more. CLI_OK, or CLI_FAILED after saying why. */
int params_open(const struct cli *cli, struct stoker *stoker, const struct stoker_options *options,
	struct stoker_stream **stream);

/* Write it to DIRECTORY/params.jsonl, an object for each sample, in order; `total` are expected. CLI_OK, or
 * CLI_FAILED after saying why. */
int params_write(const struct cli *cli, struct stoker *stoker, struct stoker_stream *stream,
	const char *directory, uint64_t total);
