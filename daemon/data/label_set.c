/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/label_set.h"

#include "daemon/data/array.h"
#include "daemon/data/name_sort.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

void label_set_finish(struct label_set *set)
{
	free(set->text);
	free(set->entries);
	free(set->slots);
	*set = (struct label_set)LABEL_SET_NULL;
}

/* The slot that holds the label, or the empty one where it belongs. */
static uint32_t *find_slot(
	const struct label_set *set, uint32_t *slots, size_t count, const char *text, size_t length)
{
	size_t at = XXH3_64bits(text, length) & (count - 1);

	while (slots[at] != 0 && strcmp(set->text + set->entries[slots[at] - 1].name, text) != 0)
		at = (at + 1) & (count - 1);
	return &slots[at];
}

static int grow_slots(struct label_set *set)
{
	size_t count = set->slot_count ? set->slot_count * 2 : 256;
	uint32_t *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < set->count; i++) {
		const char *text = set->text + set->entries[i].name;

		*find_slot(set, slots, count, text, strlen(text)) = (uint32_t)i + 1;
	}
	free(set->slots);
	set->slots = slots;
	set->slot_count = count;
	return 0;
}

int64_t label_set_find(const struct label_set *set, const char *text, size_t length)
{
	if (set->slot_count == 0)
		return -1;
	return (int64_t)*find_slot(set, set->slots, set->slot_count, text, length) - 1;
}

int64_t label_set_add(struct label_set *set, const char *text, size_t length, uint64_t where)
{
	uint32_t *slot;
	int r = set->count >= set->slot_count / 2 ? grow_slots(set) : 0;

	if (r < 0)
		return r;
	slot = find_slot(set, set->slots, set->slot_count, text, length);
	if (*slot != 0)
		return *slot - 1;
	if (set->count >= INT32_MAX)
		return -ENOMEM;
	r = array_reserve(&set->entries, &set->capacity, set->count, 1, sizeof(*set->entries));
	if (r == 0)
		r = array_reserve(&set->text, &set->text_capacity, set->text_used, length + 1, 1);
	if (r < 0)
		return r;
	memcpy(set->text + set->text_used, text, length + 1);
	set->entries[set->count] = (struct label_entry){
		.name = set->text_used,
		.where = where,
		.seen = (uint32_t)set->count,
	};
	set->text_used += length + 1;
	*slot = (uint32_t)++set->count;
	return *slot - 1;
}

/* A whole number in decimal, up to LABEL_NUMBER_MAX, or -1. */
static int32_t whole_number(const char *text)
{
	int32_t value = 0;

	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		value = value * 10 + (*text - '0');
		if (value > LABEL_NUMBER_MAX)
			return -1;
	}
	return value;
}

/* "-1", "2.0": what was meant as a number, and sorts wrongly as a name. */
static bool looks_like_number(const char *text)
{
	size_t sign = text[0] == '-' || text[0] == '+';
	size_t whole = strspn(text + sign, "0123456789");
	const char *rest = text + sign + whole;

	if (*rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	return whole > 0 && *rest == '\0';
}

int label_add_classes(struct index_builder *builder, const struct label_set *list, int32_t highest,
	struct error_text *reason)
{
	int r = 0;

	if (list && (size_t)highest >= list->count)
		return error_set(reason, LABEL_SET_BAD,
			"has the label %" PRId32 ", but the list has %zu class%s, from 0", highest,
			list->count, list->count == 1 ? "" : "es");
	for (size_t i = 0; list && r == 0 && i < list->count; i++) {
		const char *name = list->text + list->entries[i].name;

		r = index_add_class(builder, name, strlen(name));
	}
	for (int32_t i = 0; !list && r == 0 && i <= highest; i++) {
		char name[16];

		r = index_add_class(
			builder, name, (size_t)snprintf(name, sizeof(name), "%" PRId32, i));
	}
	return r;
}

/* What the settling functions below share. */
struct settling {
	struct label_set *set;
	const struct label_set *list;
	struct index_builder *builder;
	int32_t *numbers; /* class of each label in order of appearance */
	uint64_t *where;
	struct error_text *reason;
};

static int refuse(struct settling *settling, const struct label_entry *entry, const char *why)
{
	const char *text = settling->set->text + entry->name;

	*settling->where = entry->where;
	return error_set(settling->reason, LABEL_SET_BAD, "has the label '%.60s', %s",
		escape(text).text, why);
}

static int settle_numbers(struct settling *settling)
{
	const struct label_set *set = settling->set;
	size_t highest = 0;

	for (size_t i = 0; i < set->count; i++) {
		settling->numbers[i] = whole_number(set->text + set->entries[i].name);
		if (settling->numbers[i] < 0)
			return refuse(settling, &set->entries[i],
				"which is no class: write whole numbers from 0 to 999999, or names");
		if (settling->numbers[i] > settling->numbers[highest])
			highest = i;
	}
	*settling->where = set->entries[highest].where;
	return label_add_classes(
		settling->builder, settling->list, settling->numbers[highest], settling->reason);
}

static int settle_names(struct settling *settling)
{
	struct label_set *set = settling->set;
	int r = name_sort(set->entries, 0, set->count, sizeof(*set->entries), set->text);

	for (size_t i = 0; r == 0 && i < set->count; i++) {
		const char *text = set->text + set->entries[i].name;

		settling->numbers[set->entries[i].seen] = (int32_t)i;
		r = index_add_class(settling->builder, text, strlen(text));
	}
	return r;
}

/* By name in the list: *missing is the first that is not there, or NULL. */
static int settle_listed(struct settling *settling, const struct label_entry **missing)
{
	const struct label_set *set = settling->set;

	for (size_t i = 0; i < set->count; i++) {
		const char *text = set->text + set->entries[i].name;
		int64_t number = label_set_find(settling->list, text, strlen(text));

		*missing = &set->entries[i];
		if (number < 0)
			return 0;
		settling->numbers[i] = (int32_t)number;
	}
	*missing = NULL;
	return label_add_classes(settling->builder, settling->list, 0, settling->reason);
}

static int settle(struct settling *settling)
{
	const struct label_set *set = settling->set;
	const struct label_entry *missing = NULL;
	bool all_numbers = set->count > 0;
	int r = settling->list ? settle_listed(settling, &missing) : 0;

	if (r != 0 || (settling->list && !missing))
		return r;
	for (size_t i = 0; i < set->count; i++)
		all_numbers = all_numbers && looks_like_number(set->text + set->entries[i].name);
	if (all_numbers)
		return settle_numbers(settling);
	return missing ? refuse(settling, missing, "which is not in the list of classes")
		       : settle_names(settling);
}

int label_set_settle(struct label_set *set, const struct label_set *list,
	struct index_builder *builder, uint64_t *where, struct error_text *reason)
{
	_cleanup_free_ int32_t *numbers = calloc(set->count + 1, sizeof(*numbers));
	struct settling settling = {set, list, builder, numbers, where, reason};
	int r = numbers ? settle(&settling) : -ENOMEM;

	for (uint64_t i = 0; r == 0 && i < builder->header.samples; i++)
		builder->samples[i].label = numbers[builder->samples[i].label];
	return r;
}
