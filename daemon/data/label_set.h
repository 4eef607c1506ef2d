/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/index.h"
#include "daemon/util/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Labels as a manifest spells them, numbered as they come and settled at the end: if all of them are
 * whole numbers they are taken as they are, and must be 0, 1, ... without a gap; otherwise they are
 * names, numbered in byte order (code point order, in UTF-8).
 */
struct label_set {
	char *text; /* the labels, each terminated */
	size_t text_used, text_capacity;
	struct label_entry {
		size_t name;   /* offset in text; first, for name_sort */
		uint32_t seen; /* its number in order of appearance */
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
int64_t label_set_add(struct label_set *set, const char *text, size_t length);

enum {
	LABEL_SET_BAD = 1, /* numbers that cannot be classes; the reason names them */
};

/* Settle: classes go into the builder, and (*numbers)[label_set_add's result] is the class of each
 * label; the caller frees. 0, LABEL_SET_BAD, -ENOMEM. The set is only to be finished after this. */
int label_set_settle(struct label_set *set, struct index_builder *builder, int32_t **numbers,
	struct error_text *reason);

/* A whole number in decimal, below INT32_MAX: its value, or -1. */
int32_t label_number(const char *text, size_t length);
