/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/order.h"

#include <errno.h>
#include <stdlib.h>

/* MT19937: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998). */
enum { MT_SHIFT = 397 };

static void mt_seed(struct order *order, uint32_t seed)
{
	uint32_t *mt = order->mt;

	mt[0] = seed;
	for (uint32_t i = 1; i < ORDER_MT_WORDS; i++)
		mt[i] = UINT32_C(1812433253) * (mt[i - 1] ^ (mt[i - 1] >> 30)) + i;
	order->mt_next = ORDER_MT_WORDS;
}

static uint32_t mt_twist(uint32_t high, uint32_t low)
{
	uint32_t word = (high & UINT32_C(0x80000000)) | (low & UINT32_C(0x7fffffff));

	return (word >> 1) ^ (-(word & 1) & UINT32_C(0x9908b0df));
}

static void mt_refill(struct order *order)
{
	uint32_t *mt = order->mt;
	uint32_t i = 0;

	for (; i < ORDER_MT_WORDS - MT_SHIFT; i++)
		mt[i] = mt[i + MT_SHIFT] ^ mt_twist(mt[i], mt[i + 1]);
	for (; i < ORDER_MT_WORDS - 1; i++)
		mt[i] = mt[i + MT_SHIFT - ORDER_MT_WORDS] ^ mt_twist(mt[i], mt[i + 1]);
	mt[i] = mt[MT_SHIFT - 1] ^ mt_twist(mt[i], mt[0]);
	order->mt_next = 0;
}

static uint32_t mt_draw(struct order *order)
{
	uint32_t y;

	if (order->mt_next == ORDER_MT_WORDS)
		mt_refill(order);
	y = order->mt[order->mt_next++];
	y ^= y >> 11;
	y ^= (y << 7) & UINT32_C(0x9d2c5680);
	y ^= (y << 15) & UINT32_C(0xefc60000);
	return y ^ (y >> 18);
}

uint64_t order_length(const struct order_params *params)
{
	uint64_t length = params->samples / params->world;

	if (!params->shard_drop && params->samples % params->world != 0)
		length++;
	return length;
}

int order_init(struct order *order, const struct order_params *params)
{
	*order = (struct order)ORDER_NULL;
	if (params->samples == 0 || params->samples > ORDER_SAMPLES_MAX || params->world == 0 ||
		params->rank >= params->world || order_length(params) == 0)
		return -EINVAL;

	order->params = *params;
	order->length = order_length(params);
	if (params->shuffle) {
		order->permutation = malloc(params->samples * sizeof(*order->permutation));
		if (!order->permutation)
			return -ENOMEM;
	}
	order_set_epoch(order, 0);
	return 0;
}

void order_finish(struct order *order)
{
	free(order->permutation);
	*order = (struct order)ORDER_NULL;
}

void order_set_epoch(struct order *order, uint64_t epoch)
{
	order->epoch = epoch;
	if (!order->permutation)
		return;
	for (uint32_t i = 0; i < order->params.samples; i++)
		order->permutation[i] = i;
	order->settled = 0;
	mt_seed(order, (uint32_t)(order->params.seed + epoch));
}

/* Do the steps of the shuffle up to and including `last`. The last place of all needs no draw of its
 * own: it holds what the others left over. */
static void settle(struct order *order, uint64_t last)
{
	uint32_t *permutation = order->permutation;
	uint32_t samples = (uint32_t)order->params.samples;
	uint32_t i = (uint32_t)order->settled;

	for (; i <= last && i + 1 < samples; i++) {
		uint32_t j = i + mt_draw(order) % (samples - i);
		uint32_t value = permutation[i];

		permutation[i] = permutation[j];
		permutation[j] = value;
	}
	order->settled = i;
}

uint64_t order_at(struct order *order, uint64_t position)
{
	/* Padding repeats the list from the front. */
	uint64_t place =
		(position * order->params.world + order->params.rank) % order->params.samples;

	if (!order->permutation)
		return place;
	if (place >= order->settled)
		settle(order, place);
	return order->permutation[place];
}
