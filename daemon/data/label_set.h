/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/index.h"
#include "daemon/util/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Labels as people spell them, numbered as they come and settled at the end. If all of them are whole
 * numbers they are classes as they are: there are as many as the highest says, with or without samples.
 * Otherwise they are names, numbered in byte order (code point order, in UTF-8). With a list of classes
 * (daemon/data/class_list.h) they are names in it, or else their numbers in it.
 */
struct label_set {
	char *text; /* the labels, each terminated */
	size_t text_used, text_capacity;
	struct label_entry {
		size_t name;    /* offset in text; first, for name_sort */
		uint64_t where; /* it was seen first, as the caller counts */
		uint32_t seen;  /* its number in order of appearance */
	} * entries;
	size_t count, capacity;
	uint32_t *slots; /* hash table of entry numbers + 1; a power of two of them */
	size_t slot_count;
};

#define LABEL_SET_NULL                                                                             \
	{                                                                                          \
		.text = NULL                                                                       \
	}

void label_set_finish(struct label_set *set);

/* Number of the label `text` (terminated, not empty) in order of appearance: 0 .., or -ENOMEM. */
int64_t label_set_add(struct label_set *set, const char *text, size_t length, uint64_t where);

/* The same of a label that may be there, or -1. */
int64_t label_set_find(const struct label_set *set, const char *text, size_t length);

enum {
	LABEL_SET_BAD = 1,         /* a label that is no class */
	LABEL_NUMBER_MAX = 999999, /* highest class that is a number */
};

/* Settle: classes go into the builder, whose samples have label_set_add's numbers for labels and get
 * those of their classes. `list` may be NULL. 0; LABEL_SET_BAD with `where` a bad label was seen first
 * and the reason, "has the label ..."; -ENOMEM. The set is only to be finished after this. */
int label_set_settle(struct label_set *set, const struct label_set *list,
	struct index_builder *builder, uint64_t *where, struct error_text *reason);

/* Add the classes of the list, or, without one, "0" to "`highest`". 0, LABEL_SET_BAD with a reason as
 * above (the list is shorter), -ENOMEM. */
int label_add_classes(struct index_builder *builder, const struct label_set *list, int32_t highest,
	struct error_text *reason);
