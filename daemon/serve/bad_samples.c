/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/bad_samples.h"

#include "daemon/util/escape.h"

#include <stdlib.h>

void bad_samples_finish(struct bad_samples *bad)
{
	free(bad->seen);
	free(bad->list);
	*bad = (struct bad_samples){.seen = NULL};
}

static bool allocate(struct bad_samples *bad, uint64_t total)
{
	if (bad->seen == NULL)
		bad->seen = calloc(total / 8 + 1, 1);
	if (bad->list == NULL)
		bad->list = calloc(BAD_SAMPLES_LISTED, sizeof(*bad->list));
	return bad->seen != NULL && bad->list != NULL;
}

bool bad_samples_note(struct bad_samples *bad, uint64_t sample, uint64_t total,
	enum bad_reason reason, const struct error_text *text)
{
	uint8_t bit = (uint8_t)(1 << sample % 8);
	struct bad_sample *entry;

	bad->rows++;
	if (!allocate(bad, total) || bad->seen[sample / 8] & bit)
		return false;
	bad->seen[sample / 8] |= bit;
	bad->samples[reason]++;
	if (bad->listed == BAD_SAMPLES_LISTED)
		return true;
	entry = &bad->list[bad->listed++];
	entry->sample = sample;
	entry->reason = reason;
	entry->text = *text;
	/* It comes from a worker, which has seen hostile bytes. */
	escape_sanitize(entry->text.text);
	return true;
}
