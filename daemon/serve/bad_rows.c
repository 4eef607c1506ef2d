/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/bad_rows.h"

#include "daemon/util/escape.h"
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

/* It comes from a worker, which has seen hostile bytes. Cut before it is cleaned, which may shorten no
 * character. */
static char *dup_text(const struct error_text *text)
{
	char copy[PROTOCOL_BAD_TEXT_MAX + 1];
	size_t length = strnlen(text->text, sizeof(copy) - 1);

	memcpy(copy, text->text, length);
	copy[length] = '\0';
	escape_sanitize(copy);
	return strdup(copy);
}

static bool reserve(struct bad_rows *bad)
{
	uint32_t capacity = bad->capacity == 0 ? 8 : 2 * bad->capacity;
	struct bad_row *list;

	if (bad->count < bad->capacity)
		return true;
	list = realloc(bad->list, capacity * sizeof(*list));
	if (list == NULL)
		return false;
	bad->list = list;
	bad->capacity = capacity;
	return true;
}

void bad_rows_note(struct bad_rows *bad, uint32_t row, uint64_t sample, enum bad_reason reason,
	const struct error_text *text)
{
	struct bad_row entry = {.row = row, .reason = reason, .sample = sample};
	uint32_t at = bad->count;
	bool again;

	while (at > 0 && bad->list[at - 1].row > row)
		at--;
	again = at > 0 && bad->list[at - 1].row == row;
	if (!again && (at == PROTOCOL_BAD_ROWS_MAX || !reserve(bad)))
		return;
	entry.text = dup_text(text);
	if (entry.text == NULL)
		return;
	if (again) {
		free(bad->list[at - 1].text);
		bad->list[at - 1] = entry;
		return;
	}
	if (bad->count == PROTOCOL_BAD_ROWS_MAX)
		free(bad->list[--bad->count].text);
	memmove(&bad->list[at + 1], &bad->list[at], (bad->count - at) * sizeof(entry));
	bad->list[at] = entry;
	bad->count++;
}

void bad_rows_clear(struct bad_rows *bad)
{
	for (uint32_t i = 0; i < bad->count; i++)
		free(bad->list[i].text);
	free(bad->list);
	*bad = (struct bad_rows){.list = NULL};
}
