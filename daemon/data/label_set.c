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

int64_t label_set_add(struct label_set *set, const char *text, size_t length)
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
	set->entries[set->count] =
		(struct label_entry){.name = set->text_used, .seen = (uint32_t)set->count};
	set->text_used += length + 1;
	*slot = (uint32_t)++set->count;
	return *slot - 1;
}

int32_t label_number(const char *text, size_t length)
{
	int64_t value = 0;

	if (length == 0)
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		value = value * 10 + (text[i] - '0');
		if (value >= INT32_MAX)
			return -1;
	}
	return (int32_t)value;
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

/* The classes are 0 .. highest; each must occur, which there are only enough labels for if highest is
 * below their number. */
static int settle_numbers(struct label_set *set, struct index_builder *builder, int32_t *numbers,
	struct error_text *reason)
{
	_cleanup_free_ uint8_t *seen = calloc(set->count, 1);
	int32_t highest = 0;
	size_t missing = 0;
	int r = 0;

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < set->count; i++) {
		const char *text = set->text + set->entries[i].name;

		numbers[i] = label_number(text, strlen(text));
		if (numbers[i] > highest)
			highest = numbers[i];
		if ((size_t)numbers[i] < set->count)
			seen[numbers[i]] = 1;
	}
	while (missing < set->count && seen[missing])
		missing++;
	if (missing <= (size_t)highest)
		return error_set(reason, LABEL_SET_BAD,
			"its labels are numbers up to %" PRId32
			", but %zu does not occur: they must be 0, 1, ... without a gap",
			highest, missing);
	for (int32_t i = 0; r == 0 && i <= highest; i++) {
		char name[16];

		r = index_add_class(
			builder, name, (size_t)snprintf(name, sizeof(name), "%" PRId32, i));
	}
	return r;
}

static int settle_names(struct label_set *set, struct index_builder *builder, int32_t *numbers)
{
	int r = name_sort(set->entries, 0, set->count, sizeof(*set->entries), set->text);

	for (size_t i = 0; r == 0 && i < set->count; i++) {
		const char *text = set->text + set->entries[i].name;

		numbers[set->entries[i].seen] = (int32_t)i;
		r = index_add_class(builder, text, strlen(text));
	}
	return r;
}

int label_set_settle(struct label_set *set, struct index_builder *builder, int32_t **numbers,
	struct error_text *reason)
{
	const char *odd = NULL;
	bool all_numbers = true;

	for (size_t i = 0; i < set->count; i++) {
		const char *text = set->text + set->entries[i].name;

		if (label_number(text, strlen(text)) < 0 && !odd)
			odd = text;
		all_numbers = all_numbers && looks_like_number(text);
	}
	if (all_numbers && odd)
		return error_set(reason, LABEL_SET_BAD,
			"its labels are numbers, but '%.40s' is no class: write 0, 1, ... or names",
			odd);
	*numbers = calloc(set->count + 1, sizeof(**numbers));
	if (!*numbers)
		return -ENOMEM;
	if (all_numbers && set->count > 0)
		return settle_numbers(set, builder, *numbers, reason);
	return settle_names(set, builder, *numbers);
}
