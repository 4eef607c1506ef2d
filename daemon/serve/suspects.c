/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/suspects.h"

#include <errno.h>
#include <stdlib.h>

void suspects_finish(struct suspects *suspects)
{
	free(suspects->list);
	*suspects = (struct suspects){.list = NULL};
}

static struct suspect *find(const struct suspects *suspects, uint64_t sample)
{
	for (size_t i = 0; i < suspects->count; i++) {
		if (suspects->list[i].sample == sample)
			return &suspects->list[i];
	}
	return NULL;
}

int suspects_blame(struct suspects *suspects, uint64_t sample)
{
	struct suspect *suspect = find(suspects, sample);

	if (suspect == NULL) {
		if (suspects->count == suspects->capacity) {
			size_t capacity = 8 + 2 * suspects->capacity;
			struct suspect *list =
				realloc(suspects->list, capacity * sizeof(struct suspect));

			if (list == NULL)
				return -ENOMEM;
			suspects->list = list;
			suspects->capacity = capacity;
		}
		suspect = &suspects->list[suspects->count++];
		*suspect = (struct suspect){.sample = sample};
	}
	return (int)++suspect->deaths;
}

uint32_t suspects_deaths(const struct suspects *suspects, uint64_t sample)
{
	const struct suspect *suspect = find(suspects, sample);

	return suspect == NULL ? 0 : suspect->deaths;
}

void suspects_absolve(struct suspects *suspects, uint64_t sample)
{
	struct suspect *suspect = find(suspects, sample);

	if (suspect != NULL && suspect->deaths < SUSPECT_DEATHS)
		*suspect = suspects->list[--suspects->count];
}

void suspects_absolve_all(struct suspects *suspects)
{
	for (size_t i = suspects->count; i > 0; i--) {
		if (suspects->list[i - 1].deaths < SUSPECT_DEATHS)
			suspects->list[i - 1] = suspects->list[--suspects->count];
	}
}
