/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/suggest.h"

#include <string.h>

enum { NAME_MAX_LENGTH = 40 };

static char plain(char c)
{
	return c == '_' ? '-' : c;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
 * alignment distance). Both are shorter than NAME_MAX_LENGTH. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[3][NAME_MAX_LENGTH + 1], *before = row[0], *above = row[1], *here = row[2];
	size_t length_b = strlen(b);

	for (size_t j = 0; j <= length_b; j++)
		above[j] = (unsigned)j;
	for (size_t i = 1; a[i - 1]; i++) {
		unsigned *recycled = before;

		here[0] = (unsigned)i;
		for (size_t j = 1; j <= length_b; j++) {
			unsigned replace = plain(a[i - 1]) != plain(b[j - 1]);

			here[j] = least(above[j - 1] + replace, least(above[j], here[j - 1]) + 1);
			if (i > 1 && j > 1 && plain(a[i - 1]) == plain(b[j - 2]) &&
				plain(a[i - 2]) == plain(b[j - 1]))
				here[j] = least(here[j], before[j - 2] + 1);
		}
		before = above;
		above = here;
		here = recycled;
	}
	return above[length_b];
}

const char *suggest(const char *typed, const char *const *names, size_t count)
{
	const char *best = NULL;
	size_t length = strlen(typed);
	unsigned nearest;

	if (length < 2 || length >= NAME_MAX_LENGTH)
		return NULL;
	nearest = 1 + (unsigned)length / 3;
	for (size_t i = 0; i < count; i++) {
		unsigned d = distance(typed, names[i]);

		if (d <= nearest && (!best || d < nearest)) {
			best = names[i];
			nearest = d;
		}
	}
	return best;
}
