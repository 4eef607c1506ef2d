/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The directories that a scan has entered, by device and inode, so that links cannot lead it in
 * circles or take a sample twice. */
struct inode_set {
	struct inode_set_slot *slots; /* open addressing; capacity is 0 or a power of two */
	size_t capacity, count;
};

#define INODE_SET_NULL                                                                             \
	{                                                                                          \
		.slots = NULL                                                                      \
	}

void inode_set_finish(struct inode_set *set);

/* 1 = added, 0 = was there already, -ENOMEM. */
int inode_set_add(struct inode_set *set, const struct stat *st);
