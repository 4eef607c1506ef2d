/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/cursor.h"

#include <inttypes.h>

static int differs(struct error_text *error, const char *what, uint64_t theirs, uint64_t ours)
{
	return error_set(error, CURSOR_DIFFERS,
		"the cursor was taken with %s = %" PRIu64 ", but this stream has %s = %" PRIu64
		": open with the same arguments, or start without a cursor",
		what, theirs, what, ours);
}

int cursor_check(const struct cursor *cursor, const struct cursor *own, struct error_text *error)
{
	const struct order_params *theirs = &cursor->order, *ours = &own->order;

	if (cursor->fingerprint != own->fingerprint &&
		cursor->fingerprint >> 32 == own->fingerprint >> 32)
		return error_set(error, CURSOR_DIFFERS,
			"the cursor was taken from another part of the data set (fingerprint %016" PRIx64
			", this stream has %016" PRIx64
			"): open the same part, or start without a cursor",
			cursor->fingerprint, own->fingerprint);
	if (cursor->fingerprint != own->fingerprint)
		return error_set(error, CURSOR_DIFFERS,
			"the cursor was taken from other data: the data set's samples, order or labels "
			"have changed (fingerprint %016" PRIx64 ", now %016" PRIx64 ")",
			cursor->fingerprint, own->fingerprint);
	if (theirs->shuffle != ours->shuffle)
		return differs(error, "shuffle", theirs->shuffle, ours->shuffle);
	if (theirs->seed != ours->seed)
		return differs(error, "seed", theirs->seed, ours->seed);
	if (theirs->world != ours->world)
		return differs(error, "world", theirs->world, ours->world);
	if (theirs->rank != ours->rank)
		return differs(error, "rank", theirs->rank, ours->rank);
	if (theirs->shard_drop != ours->shard_drop)
		return differs(error, "shard_drop", theirs->shard_drop, ours->shard_drop);
	if (cursor->drop_last != own->drop_last)
		return differs(error, "drop_last", cursor->drop_last, own->drop_last);
	if (cursor->position > order_length(ours))
		return error_set(error, CURSOR_DIFFERS,
			"the cursor's position %" PRIu64 " is past the end of an epoch of %" PRIu64
			" samples",
			cursor->position, order_length(ours));
	return 0;
}
