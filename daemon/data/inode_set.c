/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/inode_set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct inode_set_slot {
	uint64_t device, inode;
	bool used;
};

void inode_set_finish(struct inode_set *set)
{
	free(set->slots);
	*set = (struct inode_set)INODE_SET_NULL;
}

/* The slot that holds this pair, or the free one where it belongs. */
static struct inode_set_slot *find(const struct inode_set *set, uint64_t device, uint64_t inode)
{
	uint64_t hash = (inode ^ device << 32) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden */
	size_t i = (size_t)(hash >> 32) & (set->capacity - 1);

	while (set->slots[i].used &&
		(set->slots[i].device != device || set->slots[i].inode != inode))
		i = (i + 1) & (set->capacity - 1);
	return &set->slots[i];
}

static int grow(struct inode_set *set)
{
	struct inode_set larger = {.capacity = set->capacity ? set->capacity * 2 : 64};

	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < set->capacity; i++) {
		if (set->slots[i].used)
			*find(&larger, set->slots[i].device, set->slots[i].inode) = set->slots[i];
	}
	larger.count = set->count;
	inode_set_finish(set);
	*set = larger;
	return 0;
}

int inode_set_add(struct inode_set *set, const struct stat *st)
{
	struct inode_set_slot *slot;

	if (set->count >= set->capacity / 2) {
		int r = grow(set);

		if (r < 0)
			return r;
	}
	slot = find(set, st->st_dev, st->st_ino);
	if (slot->used)
		return 0;
	*slot = (struct inode_set_slot){.device = st->st_dev, .inode = st->st_ino, .used = true};
	set->count++;
	return 1;
}
