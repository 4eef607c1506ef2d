/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { WORD_MAX = 40 };

struct word {
	char text[WORD_MAX];
	size_t length;
};

static struct word normalise(const char *text)
{
	struct word word = {.length = 0};

	text += strspn(text, "-");
	for (; *text != '\0' && *text != '=' && word.length < WORD_MAX; text++)
		word.text[word.length++] = *text == '_' ? '-' : (char)tolower((unsigned char)*text);
	return word;
}

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Levenshtein's distance of a[0..m) and the choice. */
static unsigned distance(const char *a, size_t m, const struct word *b)
{
	unsigned row[WORD_MAX + 1];

	for (size_t j = 0; j <= b->length; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; i < m; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < b->length; j++) {
			unsigned replaced = diagonal + (a[i] != b->text[j]);

			diagonal = row[j + 1];
			row[j + 1] = smaller(replaced, smaller(row[j], row[j + 1]) + 1);
		}
	}
	return row[b->length];
}

struct suggestion suggestion_for(const char *word)
{
	return (struct suggestion){.word = word, .distance = UINT_MAX};
}

void suggestion_try(struct suggestion *suggestion, const char *choice)
{
	const struct word wanted = normalise(suggestion->word), offered = normalise(choice);
	unsigned best = distance(wanted.text, wanted.length, &offered);

	for (size_t start = 0; start < wanted.length;) {
		const char *part = wanted.text + start;
		const char *dash = memchr(part, '-', wanted.length - start);
		size_t length = dash != NULL ? (size_t)(dash - part) : wanted.length - start;

		if (length >= 2 && length < wanted.length)
			best = smaller(best, 1 + distance(part, length, &offered));
		start += length + 1;
	}
	if (best < suggestion->distance && best <= 1 + offered.length / 4) {
		suggestion->distance = best;
		suggestion->nearest = choice;
	}
}
