/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/class_list.h"

#include "daemon/data/array.h"
#include "daemon/data/dataset.h"
#include "daemon/data/unpack.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* All of the file, terminated; the caller frees. */
static int read_text(struct unpack *file, char **text, size_t *length, struct error_text *error)
{
	size_t capacity = 0, got = 1;
	int r = 0;

	for (*length = 0; r == 0 && got > 0; *length += got) {
		if (*length > CLASS_LIST_BYTES_MAX)
			return error_set(error, DATASET_UNUSABLE,
				"%s: is larger than 64 MiB: a list of classes has a name in each line",
				escape(file->path).text);
		if (array_reserve(text, &capacity, *length, (64 << 10) + 1, 1) < 0)
			return error_set(error, -ENOMEM, "%s: %s", escape(file->path).text,
				strerror(ENOMEM));
		r = unpack_read(file, *text + *length, 64 << 10, &got, error);
	}
	if (r == 0)
		(*text)[*length] = '\0';
	return r;
}

static int bad_line(const char *path, uint64_t line, const char *what, struct error_text *error)
{
	return error_set(
		error, DATASET_UNUSABLE, "%s: line %" PRIu64 " %s", escape(path).text, line, what);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* One line, [at, end), as people typed it; its end is written over. */
static int add_line(struct label_set *list, const char *path, uint64_t line, char *at, char *end,
	struct error_text *error)
{
	int64_t number;

	while (at < end && is_blank(*at))
		at++;
	while (at < end && is_blank(end[-1]))
		end--;
	if (at == end)
		return bad_line(path, line, "is empty: each line names a class", error);
	if (memchr(at, '\0', (size_t)(end - at)))
		return bad_line(path, line, "has a NUL byte: is it UTF-8 text?", error);
	if (end - at > INDEX_CLASS_NAME_MAX)
		return bad_line(path, line, "has a name of more than 1024 bytes", error);
	if (line > LABEL_NUMBER_MAX + UINT64_C(1))
		return bad_line(path, line, "is too many: there may be 1000000 classes", error);
	*end = '\0';
	number = label_set_add(list, at, (size_t)(end - at), line);
	if (number < 0)
		return error_set(error, (int)number, "%s: %s", escape(path).text, strerror(ENOMEM));
	if ((uint64_t)number + 1 < line)
		return bad_line(path, line, "names a class that stands above it too", error);
	return 0;
}

static int add_lines(struct label_set *list, const char *path, char *text, size_t length,
	struct error_text *error)
{
	char *at = text, *end = text + length;
	int r = 0;

	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		at += 3;
	while (end > at && is_blank(end[-1]))
		end--;
	for (uint64_t line = 1; r == 0 && at < end; line++) {
		char *stop = memchr(at, '\n', (size_t)(end - at));

		stop = stop ? stop : end;
		r = add_line(list, path, line, at, stop, error);
		at = stop + 1;
	}
	if (r == 0 && list->count == 0)
		return error_set(error, DATASET_UNUSABLE,
			"%s: names no classes: each line is the name of one", escape(path).text);
	return r;
}

int class_list_read(struct label_set *list, const char *path, struct error_text *error)
{
	struct unpack file = UNPACK_NULL;
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	int r = unpack_open(&file, path, error);

	if (r == -ENOENT)
		r = error_set(error, DATASET_UNUSABLE,
			"%s: does not exist: the list of classes should be there",
			escape(path).text);
	if (r == 0)
		r = read_text(&file, &text, &length, error);
	if (r == 0)
		r = add_lines(list, path, text, length, error);
	unpack_close(&file);
	return r;
}
