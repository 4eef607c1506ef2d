/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/part_name.h"

#include "daemon/util/escape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_MAX = 10 }; /* there are never 2^32 samples */

struct scanner {
	const char *text, *at, *end;
	struct error_text *error;
};

/* Refuse the name at the place that has been reached, which both halves of it show. */
static int bad(struct scanner *scanner, const char *wanted)
{
	size_t before = (size_t)(scanner->at - scanner->text);
	size_t after = (size_t)(scanner->end - scanner->at);
	struct escaped left = escape_bytes(scanner->text, before);
	struct escaped right = escape_bytes(scanner->at, after);

	if (after == 0)
		return error_set(scanner->error, PART_BAD,
			"\"%.150s\" ends too early: %s is missing", left.text, wanted);
	return error_set(scanner->error, PART_BAD,
		"after \"%.150s\" comes \"%.100s\" where %s should: "
		"parts are written as in train[:90%%] or train[1000:2000]",
		left.text, right.text, wanted);
}

static bool skip(struct scanner *scanner, char byte)
{
	if (scanner->at == scanner->end || *scanner->at != byte)
		return false;
	scanner->at++;
	return true;
}

static bool at_digit(const struct scanner *scanner)
{
	return scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9';
}

/* A bound, or nothing in front of `closing`. */
static int scan_bound(struct scanner *scanner, struct part_bound *bound, char closing)
{
	const char *start = scanner->at, *digits;

	*bound = (struct part_bound){.given = false};
	if (scanner->at < scanner->end && *scanner->at == closing)
		return 0;
	bound->given = true;
	bound->from_end = skip(scanner, '-');
	digits = scanner->at;
	if (!at_digit(scanner))
		return bad(scanner, closing == ':' ? "a number, a percentage or ':'"
						   : "a number, a percentage or ']'");
	for (; at_digit(scanner); scanner->at++) {
		if (scanner->at - digits == DIGITS_MAX) {
			scanner->at = start;
			return bad(scanner, "a number of at most 10 digits");
		}
		bound->value = bound->value * 10 + (uint64_t)(*scanner->at - '0');
	}
	bound->percent = skip(scanner, '%');
	if (bound->percent && bound->value > 100) {
		scanner->at = start;
		return bad(scanner, "a percentage of at most 100%");
	}
	return 0;
}

int part_name_parse(
	struct part_name *name, const void *text, size_t length, struct error_text *error)
{
	const char *bracket = length > 0 ? memchr(text, '[', length) : NULL;
	struct scanner scanner = {.text = text, .error = error};
	int r;

	*name = (struct part_name){.dataset_length = length};
	if (bracket == NULL)
		return 0;
	name->dataset_length = (size_t)(bracket - scanner.text);
	scanner.at = bracket;
	scanner.end = scanner.text + length;
	if (name->dataset_length == 0)
		return bad(&scanner, "the name of a data set");
	scanner.at++;
	r = scan_bound(&scanner, &name->from, ':');
	if (r == 0 && !skip(&scanner, ':'))
		r = bad(&scanner, name->from.percent ? "':'" : "'%' or ':'");
	if (r == 0)
		r = scan_bound(&scanner, &name->to, ']');
	if (r == 0 && !skip(&scanner, ']'))
		r = bad(&scanner, !name->to.given || name->to.percent ? "']'" : "'%' or ']'");
	if (r == 0 && scanner.at < scanner.end)
		r = bad(&scanner, "the end of the name");
	return r;
}

/* percent / 100 of n, to the nearest, a half to the even one. */
static uint64_t share(uint64_t n, uint64_t percent)
{
	uint64_t whole = n / 100 * percent + n % 100 * percent / 100,
		 rest = n % 100 * percent % 100;

	return whole + (rest > 50 || (rest == 50 && whole % 2 == 1));
}

/* The place that a bound means. */
static int place(const struct part_bound *bound, uint64_t samples, uint64_t absent, uint64_t *at,
	struct error_text *error)
{
	if (!bound->given)
		*at = absent;
	else if (bound->percent)
		*at = share(samples, bound->from_end ? 100 - bound->value : bound->value);
	else if (bound->value > samples)
		return error_set(error, PART_BAD,
			"%s%" PRIu64 " is out of range: the data set has %" PRIu64 " samples",
			bound->from_end ? "-" : "", bound->value, samples);
	else
		*at = bound->from_end ? samples - bound->value : bound->value;
	return 0;
}

int part_name_resolve(const struct part_name *name, uint64_t samples, uint64_t *first,
	uint64_t *end, struct error_text *error)
{
	int r = place(&name->from, samples, 0, first, error);

	if (r == 0)
		r = place(&name->to, samples, samples, end, error);
	if (r == 0 && *first >= *end)
		return error_set(error, PART_BAD,
			"holds no samples: of %" PRIu64 " it begins at %" PRIu64
			" and ends before %" PRIu64,
			samples, *first, *end);
	return r;
}

static int format_bound(const struct part_bound *bound, char *text, size_t size)
{
	if (!bound->given)
		return 0;
	return snprintf(text, size, "%s%" PRIu64 "%s", bound->from_end ? "-" : "", bound->value,
		bound->percent ? "%" : "");
}

void part_name_format(const struct part_name *name, char text[PART_BOUNDS_MAX])
{
	int used;

	text[0] = '\0';
	if (!name->from.given && !name->to.given)
		return;
	used = snprintf(text, PART_BOUNDS_MAX, "[");
	used += format_bound(&name->from, text + used, PART_BOUNDS_MAX - (size_t)used);
	used += snprintf(text + used, PART_BOUNDS_MAX - (size_t)used, ":");
	used += format_bound(&name->to, text + used, PART_BOUNDS_MAX - (size_t)used);
	snprintf(text + used, PART_BOUNDS_MAX - (size_t)used, "]");
}
