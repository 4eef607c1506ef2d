/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Which sample comes when: exactly the order of PyTorch's DistributedSampler(shuffle, seed,
 * drop_last=shard_drop) after set_epoch(epoch), checked against torch 1.13.
 *
 * Shuffled: r = 0..n-1; MT19937 seeded with the low 32 bits of seed + epoch (all that torch's
 * Generator.manual_seed uses of its 64); for i in 0..n-2 swap r[i] with r[i + draw % (n - i)]
 * (Fisher-Yates forward, as torch.randperm on the CPU does it). The list is padded to a multiple of
 * `world` by repeating it from the front, as often as that takes, or cut with shard_drop; rank k
 * takes positions k, k + world, ...
 *
 * r[i] is final once step i is done, so the shuffle runs lazily, just ahead of the reader: opening
 * an epoch of a million samples never stops the loop. A jump ahead pays for the steps between.
 */
struct order_params {
	uint64_t samples; /* in the data set, 1 .. ORDER_SAMPLES_MAX */
	bool shuffle;
	uint64_t seed;
	uint32_t rank, world; /* rank < world, world >= 1 */
	bool shard_drop;
};

/* torch draws 64-bit numbers for larger permutations (n >= 2^32 / 20); refused here. */
#define ORDER_SAMPLES_MAX (UINT32_MAX / 20 - 1)

enum { ORDER_MT_WORDS = 624 };

struct order {
	struct order_params params;
	uint64_t length; /* samples of this rank per epoch, at least 1 */
	uint64_t epoch;
	uint32_t *permutation; /* NULL without shuffle */
	uint64_t settled;      /* permutation[0 .. settled) is final */
	uint32_t mt[ORDER_MT_WORDS];
	uint32_t mt_next; /* next word of mt to temper; ORDER_MT_WORDS = make new ones first */
};

#define ORDER_NULL                                                                                 \
	{                                                                                          \
		.permutation = NULL                                                                \
	}

/* -EINVAL (parameters out of range, or shard_drop with fewer samples than ranks, where torch's
 * sampler is empty and no epoch would ever hand out a batch), -ENOMEM. Starts at epoch 0. */
int order_init(struct order *order, const struct order_params *params);
void order_finish(struct order *order);

/* Start over with the permutation of `epoch`. Costs 4 bytes of writing per sample. */
void order_set_epoch(struct order *order, uint64_t epoch);

/* The sample at `position` (< order->length) of this rank in the current epoch, in any order. */
uint64_t order_at(struct order *order, uint64_t position);

/* Samples per epoch and rank, without building anything; 0 with shard_drop and samples < world. */
uint64_t order_length(const struct order_params *params);
