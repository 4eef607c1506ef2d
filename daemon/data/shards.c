/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/shards.h"

#include "daemon/data/array.h"
#include "daemon/data/entry.h"
#include "daemon/data/index.h"
#include "daemon/data/name_sort.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void shard_list_finish(struct shard_list *list)
{
	free(list->text);
	free(list->shards);
	*list = (struct shard_list)SHARD_LIST_NULL;
}

int shard_list_add(struct shard_list *list, const char *name)
{
	size_t length = strlen(name);
	int r;

	if (list->count >= INDEX_SOURCES_MAX)
		return -EOVERFLOW;
	r = array_reserve(&list->text, &list->text_capacity, list->text_used, length + 1, 1);
	if (r == 0)
		r = array_reserve(
			&list->shards, &list->capacity, list->count, 1, sizeof(*list->shards));
	if (r < 0)
		return r;
	memcpy(list->text + list->text_used, name, length + 1);
	list->shards[list->count++].name = list->text_used;
	list->text_used += length + 1;
	return 0;
}

bool shard_is_name(const char *name)
{
	static const char *const endings[] = {
		".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4"};
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t end = strlen(endings[i]);

		if (length > end && strcasecmp(name + length - end, endings[i]) == 0)
			return true;
	}
	return false;
}

/* A range: "{LOW..HIGH}". */
struct range {
	unsigned low, high;
	int width; /* of its numbers, padded with zeros */
	size_t length;
};

/* Digits at `text`: their number, at most 9. */
static size_t digits(const char *text)
{
	size_t count = strspn(text, "0123456789");

	return count <= 9 ? count : 0;
}

static bool parse_range(const char *text, struct range *range)
{
	size_t low = text[0] == '{' ? digits(text + 1) : 0, high;

	if (low == 0 || strncmp(text + 1 + low, "..", 2) != 0)
		return false;
	high = digits(text + 3 + low);
	if (high == 0 || text[3 + low + high] != '}')
		return false;
	sscanf(text, "{%9u..%9u}", &range->low, &range->high);
	range->length = low + high + 4;
	range->width = 1;
	if (text[1] == '0' || text[3 + low] == '0')
		range->width = (int)(low > high ? low : high);
	return true;
}

static const char *find_range(const char *text, struct range *range)
{
	for (; *text; text++) {
		if (parse_range(text, range))
			return text;
	}
	return NULL;
}

bool shard_is_pattern(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct range range;

	return strchr(name, '*') || find_range(name, &range);
}

/* Does the name match, "*" standing for any bytes? */
static bool matches(const char *pattern, const char *name)
{
	const char *star = NULL, *retry = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = pattern++;
			retry = name;
		} else if (*pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star + 1;
			name = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

/* Add what is in the directory and matches, or, without a pattern, what is an archive by its name. */
static int add_matching(struct shard_list *list, int dir_fd, const char *pattern)
{
	DIR *stream = entry_stream(dir_fd);
	size_t first = list->count;
	struct dirent *entry;
	int r = 0;

	if (!stream)
		return -errno;
	while (r == 0 && (entry = entry_next(stream))) {
		const char *name = entry->d_name;

		if (entry_hidden(name))
			continue;
		if (pattern ? matches(pattern, name) : shard_is_name(name))
			r = shard_list_add(list, name);
	}
	if (r == 0 && !entry)
		r = -errno;
	closedir(stream);
	if (r == 0)
		r = name_sort(list->shards, first, list->count - first, sizeof(*list->shards),
			list->text);
	return r;
}

int shard_list_directory(struct shard_list *list, int dir_fd)
{
	return add_matching(list, dir_fd, NULL);
}

int shard_list_expand(
	struct shard_list *list, int dir_fd, const char *pattern, struct error_text *reason)
{
	char name[NAME_MAX + 1];
	struct range range = {.low = 0};
	const char *at = find_range(pattern, &range);
	size_t count = list->count;
	int r;

	if (!at && strchr(pattern, '*')) {
		r = add_matching(list, dir_fd, pattern);
		if (r == 0 && list->count == count)
			return error_set(reason, SHARDS_BAD, "matches no file");
		return r;
	}
	if (!at)
		return shard_list_add(list, pattern);
	if (range.low > range.high)
		return error_set(reason, SHARDS_BAD, "has a range that runs backwards");
	for (unsigned i = range.low; i <= range.high; i++) {
		int length = snprintf(name, sizeof(name), "%.*s%0*u%s", (int)(at - pattern),
			pattern, range.width, i, at + range.length);

		if (length < 0 || (size_t)length >= sizeof(name))
			return error_set(reason, SHARDS_BAD, "stands for names that are too long");
		r = shard_list_expand(list, dir_fd, name, reason);
		if (r == -EOVERFLOW)
			return error_set(
				reason, SHARDS_BAD, "stands for more than a million files");
		if (r != 0)
			return r;
	}
	return 0;
}
