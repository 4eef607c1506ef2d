/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/stoker.h"
#include "trainer/model.h"

#include <stdbool.h>
#include <stdint.h>

/* The command line of stoker-train; strings are borrowed from argv. */
struct options {
	const char *dataset;
	const char *val; /* NULL: no validation */
	const char *socket;
	const char *transform;
	const char *val_transform; /* NULL: `transform` */
	const char *checkpoint;
	uint32_t batch_size;
	uint32_t epochs;
	float rate;
	uint64_t seed;
	uint32_t rank, world;
	uint32_t log_every; /* 0: never */
	enum stoker_dtype dtype;
	int payload; /* 0 or enum stoker_payload */
	enum stoker_on_bad_sample on_bad_sample;
	struct device device;
	bool exif_orientation, grey16_clip;
	bool no_shuffle, shard_drop, drop_last, json;
	bool help, version;
};

/* Fill `options` from the command line, over the defaults. -EINVAL with *problem naming the option
 * when it is not understood. With --help or --version nothing else is required. */
int options_parse(struct options *options, int argc, char **argv, struct problem *problem);

extern const char options_help[];
