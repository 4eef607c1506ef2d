/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The file names of a data set's archives, in order. The last component of a pattern may hold ranges,
 * "train-{000..099}.tar", each name of which must be there, and "*", which stands for any bytes but a
 * dot at the front. Ranges come in their order, what a "*" matches in byte order.
 */
struct shard_list {
	char *text; /* the names, each terminated */
	size_t text_used, text_capacity;
	struct shard {
		size_t name; /* offset in text; for name_sort */
	} * shards;
	size_t count, capacity;
};

#define SHARD_LIST_NULL                                                                            \
	{                                                                                          \
		.text = NULL                                                                       \
	}

enum {
	SHARDS_BAD = 1, /* the pattern is none, or matches nothing; the reason does not name it */
};

void shard_list_finish(struct shard_list *list);

/* Add a name; 0, -ENOMEM, or -EOVERFLOW (more than INDEX_SOURCES_MAX). */
int shard_list_add(struct shard_list *list, const char *name);

/* Add what a pattern's last component stands for in the directory (borrowed). 0, SHARDS_BAD, or
 * negative errno. */
int shard_list_expand(
	struct shard_list *list, int dir_fd, const char *pattern, struct error_text *reason);

/* Add all archives of the directory (borrowed), in byte order: 0 or negative errno. */
int shard_list_directory(struct shard_list *list, int dir_fd);

static inline const char *shard_name(const struct shard_list *list, size_t i)
{
	return list->text + list->shards[i].name;
}

/* Is this the name of an archive ("x.tar"; also "x.tar.gz" and the like, to be refused with a reason)? */
bool shard_is_name(const char *name);

/* Does the last component of this path hold a range or a "*"? */
bool shard_is_pattern(const char *path);
