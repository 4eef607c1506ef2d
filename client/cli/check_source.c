/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static bool has_ending(const char *name, const char *const *endings)
{
	size_t length = strlen(name);

	for (; *endings != NULL; endings++) {
		size_t end = strlen(*endings);

		if (length > end && strcasecmp(name + length - end, *endings) == 0)
			return true;
	}
	return false;
}

/* By the first bytes: tar, an IDX file of bytes with three or four dimensions, or gzip, which no
 * picture is. */
static bool begins_dataset(const char *path)
{
	unsigned char start[512];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? pread(fd, start, sizeof(start), 0) : -1;

	if (fd >= 0)
		close(fd);
	return (got >= 262 && memcmp(start + 257, "ustar", 5) == 0) ||
	       (got >= 4 && start[0] == 0 && start[1] == 0 && start[2] >= 8 && start[2] <= 14 &&
		       start[3] >= 1 && start[3] <= 4) ||
	       (got >= 2 && start[0] == 0x1f && start[1] == 0x8b);
}

static bool file_is_dataset(const char *path)
{
	static const char *const endings[] = {".csv", ".tsv", ".tar", ".tar.gz", ".tgz", ".tar.bz2",
		".tar.xz", ".tar.zst", ".tar.lz4", "-ubyte", "-ubyte.gz", NULL};

	if (check_is_image_name(path))
		return false;
	return has_ending(path, endings) || begins_dataset(path);
}

/* "train-{000..099}.tar", "*.tar": where there is nothing of that name. */
static bool is_pattern(const char *path)
{
	const char *name = base_name(path), *open = strchr(name, '{');

	return strchr(name, '*') != NULL || (open != NULL && strstr(open, "..") != NULL);
}

/* An absolute path without links, but for the last component of a pattern. NULL without memory. */
static char *absolute(const char *path, bool pattern)
{
	const char *name = base_name(path);
	char *folder, *real, *whole = NULL;

	if (!pattern) {
		real = realpath(path, NULL);
		return real != NULL ? real : strdup(path);
	}
	folder = name == path ? strdup(".") : strndup(path, (size_t)(name - path));
	real = folder != NULL ? realpath(folder, NULL) : NULL;
	if (real == NULL && folder != NULL && errno != ENOMEM)
		real = strdup(folder);
	if (real != NULL && asprintf(&whole, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) < 0)
		whole = NULL;
	free(folder);
	free(real);
	return whole;
}

static struct check_source *add(struct check_sources *sources, enum check_kind kind, char *path)
{
	struct check_source *source;

	if (sources->count == sources->capacity) {
		size_t capacity = sources->capacity == 0 ? 16 : sources->capacity * 2;
		struct check_source *list = reallocarray(sources->list, capacity, sizeof(*list));

		if (list == NULL) {
			free(path);
			return NULL;
		}
		sources->list = list;
		sources->capacity = capacity;
	}
	source = &sources->list[sources->count++];
	*source = (struct check_source){.kind = kind, .path = path, .files = CHECK_FILES_NULL};
	return source;
}

static int add_named(struct check_sources *sources, enum check_kind kind, char *path)
{
	return path != NULL && add(sources, kind, path) != NULL ? 0 : -ENOMEM;
}

/* The source that further files go to. */
static struct check_files *files_of(struct check_sources *sources)
{
	struct check_source *last = sources->count > 0 ? &sources->list[sources->count - 1] : NULL;

	if (last == NULL || last->kind != CHECK_FILES)
		last = add(sources, CHECK_FILES, NULL);
	return last != NULL ? &last->files : NULL;
}

/* The images below it; one without any is IDX, or archives, or an error that the daemon explains. */
static int add_directory(struct check_sources *sources, const char *path)
{
	struct check_files *files = files_of(sources);
	size_t before;
	int r;

	if (files == NULL)
		return -ENOMEM;
	before = files->count;
	r = check_files_walk(files, path);
	if (r < 0 || files->count > before)
		return r;
	if (files->count == 0)
		check_files_finish(&sources->list[--sources->count].files);
	return add_named(sources, CHECK_DATASET, absolute(path, false));
}

int check_sources_add(struct check_sources *sources, const char *argument)
{
	bool is_path = strchr(argument, '/') != NULL;
	struct check_files *files;
	struct stat st;

	if (stat(argument, &st) < 0) {
		/* A link that leads nowhere is there too. */
		if (!is_path && lstat(argument, &st) < 0 && !is_pattern(argument))
			return add_named(sources, CHECK_NAME, strdup(argument));
		if (is_pattern(argument))
			return add_named(sources, CHECK_DATASET, absolute(argument, true));
	} else if (S_ISDIR(st.st_mode)) {
		return add_directory(sources, argument);
	} else if (S_ISREG(st.st_mode) && file_is_dataset(argument)) {
		return add_named(sources, CHECK_DATASET, absolute(argument, false));
	}
	files = files_of(sources);
	return files != NULL ? check_files_add(files, argument) : -ENOMEM;
}

void check_sources_finish(struct check_sources *sources)
{
	for (size_t i = 0; i < sources->count; i++) {
		free(sources->list[i].path);
		check_files_finish(&sources->list[i].files);
	}
	free(sources->list);
	*sources = (struct check_sources){.list = NULL};
}
