/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/name_sort.h"

#include "daemon/util/ownership.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static const char *name_of(const uint8_t *element, const char *text)
{
	size_t offset;

	memcpy(&offset, element, sizeof(offset));
	return text + offset;
}

/* Merge the sorted runs [from, middle) and [middle, end) into `to`. */
static void merge(const uint8_t *from, const uint8_t *middle, const uint8_t *end, uint8_t *to,
	size_t size, const char *text)
{
	const uint8_t *left = from, *right = middle;

	while (left < middle && right < end) {
		const uint8_t **lower =
			strcmp(name_of(left, text), name_of(right, text)) <= 0 ? &left : &right;

		memcpy(to, *lower, size);
		*lower += size;
		to += size;
	}
	memcpy(to, left, (size_t)(middle - left));
	memcpy(to + (middle - left), right, (size_t)(end - right));
}

int name_sort(void *array, size_t first, size_t count, size_t size, const char *text)
{
	_cleanup_free_ uint8_t *scratch = NULL;
	uint8_t *elements, *from, *to;
	size_t bytes = (count - first) * size;

	if (count - first < 2)
		return 0;
	from = elements = (uint8_t *)array + first * size;
	to = scratch = malloc(bytes);
	if (!scratch)
		return -ENOMEM;
	for (size_t run = size; run < bytes; run *= 2) {
		uint8_t *sorted = to;

		for (size_t at = 0; at < bytes; at += 2 * run) {
			size_t middle = at + run < bytes ? at + run : bytes;
			size_t end = at + 2 * run < bytes ? at + 2 * run : bytes;

			merge(from + at, from + middle, from + end, to + at, size, text);
		}
		to = from;
		from = sorted;
	}
	if (from != elements)
		memcpy(elements, from, bytes);
	return 0;
}
