/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/stoker.h"
#include "trainer/model.h"

/*
 * A training run on disk. Everything little-endian, without gaps:
 *   "stokerCP"  u32 version (1)  u32 bytes of the header (96)
 *   u32 inputs  u32 hidden  u32 classes  u32 flags (1 shuffle, 2 shard_drop, 4 drop_last)
 *   u64 epoch  u64 position  u64 seed  u32 rank  u32 world  u64 fingerprint     of the cursor
 *   u64 number of weights  u64 zero  u64 zero
 *   weights (f32, see model_weights_count)
 *   u64 FNV-1a over everything before it
 */
struct checkpoint {
	struct stoker_cursor cursor; /* after the last batch trained */
	uint32_t inputs, hidden, classes;
	float *weights; /* owned */
	size_t count;
};

#define CHECKPOINT_NULL                                                                            \
	{                                                                                          \
		.weights = NULL                                                                    \
	}

enum {
	CHECKPOINT_NONE = 1, /* there is no such file */
};

/* Read `path` into `checkpoint`. CHECKPOINT_NONE; -EBADMSG: not a whole checkpoint of this version;
 * -ENOMEM or another errno. */
int checkpoint_load(const char *path, struct checkpoint *checkpoint, struct problem *problem);

/* Write `path` so that at any moment, also after a power cut, the old or the new one is there whole. */
int checkpoint_save(const char *path, const struct checkpoint *checkpoint, struct problem *problem);

/* Could checkpoint_save write beside `path`? To know before hours of training, not after. */
int checkpoint_probe(const char *path, struct problem *problem);

void checkpoint_finish(struct checkpoint *checkpoint);
