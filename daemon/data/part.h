/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A part of a data set: some of its samples, by their index in the whole of it, ascending. Positions in
 * a part are what a stream puts in order.
 *
 * A part [first, end) has the samples r[first] .. r[end - 1], where r is the permutation of torch's
 * randperm(n, generator=Generator().manual_seed(0)), the same each time; so a small part of class
 * folders has something of all classes. In torch:
 *
 *   Subset(dataset, sorted(torch.randperm(n, generator=torch.Generator().manual_seed(0))[a:b].tolist()))
 */
struct part {
	const uint32_t *samples; /* `count` of them, ascending; NULL = 0 .. count - 1, the whole */
	uint64_t count;
};

static inline uint64_t part_sample(const struct part *part, uint64_t position)
{
	return part->samples == NULL ? position : part->samples[position];
}

/* The position of a sample that is in the part; of another one any position. */
uint64_t part_position(const struct part *part, uint64_t sample);

/* Draw the part [first, end) of `samples` into a new sealed memfd: fd, -EINVAL (out of range, too many
 * to be ordered) or -errno. Takes some 20 ns a sample, and part_draw_memory bytes meanwhile. */
int part_draw(uint64_t samples, uint64_t first, uint64_t end);
uint64_t part_draw_memory(uint64_t samples);

/* Map what part_draw has made (`fd` is borrowed), checked: sealed, `count` samples, ascending, below
 * `samples`. 0, or -EBADMSG with the reason, or -errno. */
int part_map(struct part *part, int fd, uint64_t count, uint64_t samples, struct error_text *error);
void part_unmap(struct part *part);

/* What stands for a part in cursors: of the whole it is the index's own; of two parts of one index the
 * upper half is the same, and the lower one differs. */
uint64_t part_fingerprint(uint64_t index, uint64_t samples, uint64_t first, uint64_t end);
