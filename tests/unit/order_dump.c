/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders for tests/integration/test_order.py, which compares them with torch's.
 *
 * Reads lines "samples world rank seed epoch shuffle shard_drop" from stdin and answers each with
 * one line: the whole order of that rank and epoch, or "refused".
 */
#include "daemon/data/order.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	struct order_params params;
	uint64_t epoch;
	int shuffle, drop;

	while (scanf("%" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu64 " %d %d",
		       &params.samples, &params.world, &params.rank, &params.seed, &epoch, &shuffle,
		       &drop) == 7) {
		struct order order;

		params.shuffle = shuffle;
		params.shard_drop = drop;
		if (order_init(&order, &params) < 0) {
			puts("refused");
			continue;
		}
		order_set_epoch(&order, epoch);
		for (uint64_t i = 0; i < order.length; i++)
			printf("%" PRIu64 " ", order_at(&order, i));
		putchar('\n');
		order_finish(&order);
	}
	return 0;
}
