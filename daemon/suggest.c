/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { WORD_MAX = 40 };

/* Edit distance where exchanging two neighbours counts once (optimal string alignment). */
static unsigned distance(const char *a, size_t m, const char *b, size_t n)
{
	unsigned row[3][WORD_MAX + 1];
	unsigned *before = row[0], *last = row[1], *now = row[2];

	for (size_t j = 0; j <= n; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= m; i++) {
		unsigned *oldest = before;

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		before = last;
		last = now;
		now = oldest;
	}
	return last[n];
}

static size_t normalise(const char *word, char out[WORD_MAX])
{
	size_t length = 0;

	while (*word == '-')
		word++;
	for (; *word != '\0' && *word != '=' && length < WORD_MAX; word++)
		out[length++] = *word == '_' ? '-' : (char)tolower((unsigned char)*word);
	return length;
}

/* A hit of one part of a composed word counts one more than a hit of the whole. */
static unsigned score(const char *word, size_t length, const char *choice, size_t choice_length)
{
	unsigned best = distance(word, length, choice, choice_length);

	for (size_t start = 0; start < length;) {
		const char *dash = memchr(word + start, '-', length - start);
		size_t part = dash != NULL ? (size_t)(dash - word) - start : length - start;

		if (part >= 2 && part < length) {
			unsigned d = 1 + distance(word + start, part, choice, choice_length);

			if (d < best)
				best = d;
		}
		start += part + 1;
	}
	return best;
}

const char *suggest(const char *word, const char *const *choices, size_t count)
{
	char wanted[WORD_MAX], choice[WORD_MAX];
	size_t length = normalise(word, wanted);
	const char *nearest = NULL;
	unsigned best = UINT_MAX;

	for (size_t i = 0; i < count; i++) {
		size_t choice_length = normalise(choices[i], choice);
		unsigned d = score(wanted, length, choice, choice_length);

		if (d < best && d <= 1 + choice_length / 4) {
			best = d;
			nearest = choices[i];
		}
	}
	return nearest;
}
