/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/check_walk.h"

#include <dirent.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

struct directory {
	dev_t device;
	ino_t inode;
};

static int compare_directories(const void *left, const void *right)
{
	const struct directory *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->inode == b->inode ? 0 : a->inode < b->inode ? -1 : 1;
}

static int compare_paths(const void *left, const void *right)
{
	return strcmp(left, right);
}

bool check_is_image_name(const char *name)
{
	static const char *const extensions[] = {
		".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot != NULL && i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		if (strcasecmp(dot, extensions[i]) == 0)
			return true;
	}
	return false;
}

/* Takes `path` in each case. */
static int add(struct check_files *files, char *path, int error)
{
	if (path != NULL && files->count == files->capacity) {
		size_t capacity = files->capacity == 0 ? 64 : files->capacity * 2;
		struct check_file *list = reallocarray(files->list, capacity, sizeof(*list));

		if (list == NULL) {
			free(path);
			return -ENOMEM;
		}
		files->list = list;
		files->capacity = capacity;
	}
	if (path == NULL)
		return -ENOMEM;
	files->list[files->count++] = (struct check_file){.path = path, .error = error};
	return 0;
}

/* The directory that really holds `path`, or with `whole` `path` itself, is a root. */
static int add_root(struct check_files *files, const char *path, bool whole)
{
	char *real = realpath(path, NULL), *slash, **found;

	if (real == NULL)
		return errno == ENOMEM ? -ENOMEM : 0; /* nothing can be read there anyway */
	slash = strrchr(real, '/');
	if (!whole)
		slash[slash == real] = '\0';
	found = tsearch(real, &files->roots, compare_paths);
	if (found == NULL || *found != real)
		free(real);
	return found == NULL ? -ENOMEM : 0;
}

int check_files_add(struct check_files *files, const char *path)
{
	int r = add_root(files, path, false);

	return r == 0 ? add(files, strdup(path), 0) : r;
}

/* Is this the first time that we come to this directory? 1, 0, or -ENOMEM. */
static int enter(struct check_files *files, const struct stat *st)
{
	struct directory *directory = malloc(sizeof(*directory)), **found;

	if (directory == NULL)
		return -ENOMEM;
	*directory = (struct directory){st->st_dev, st->st_ino};
	found = tsearch(directory, &files->directories, compare_directories);
	if (found != NULL && *found == directory)
		return 1;
	free(directory);
	return found == NULL ? -ENOMEM : 0;
}

static char *join(const char *directory, const char *name)
{
	size_t length = strlen(directory);
	char *path;

	return asprintf(&path, "%s%s%s", directory,
		       length > 0 && directory[length - 1] == '/' ? "" : "/", name) < 0
		       ? NULL
		       : path;
}

static int walk(struct check_files *files, const char *path);

/* One entry of a directory; takes `path`. */
static int visit(struct check_files *files, char *path, const struct dirent *entry)
{
	bool link = entry->d_type == DT_LNK, directory = entry->d_type == DT_DIR;
	struct stat st;
	int r = 0;

	if (link || entry->d_type == DT_UNKNOWN)
		directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	if (directory) {
		if (link)
			r = add_root(files, path, true);
		if (r == 0)
			r = walk(files, path);
	} else if (check_is_image_name(entry->d_name)) {
		if (link)
			r = add_root(files, path, false);
		return r == 0 ? add(files, path, 0) : (free(path), r);
	}
	free(path);
	return r;
}

static int is_wanted(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "__MACOSX") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int walk(struct check_files *files, const char *path)
{
	struct dirent **entries = NULL;
	struct stat st;
	int count, r = 0;

	if (stat(path, &st) < 0)
		return add(files, strdup(path), errno);
	r = enter(files, &st);
	if (r <= 0)
		return r;
	count = scandir(path, &entries, is_wanted, by_name);
	if (count < 0)
		return errno == ENOMEM ? -ENOMEM : add(files, strdup(path), errno);
	r = 0;
	for (int i = 0; i < count; i++) {
		if (r == 0) {
			char *below = join(path, entries[i]->d_name);

			r = below != NULL ? visit(files, below, entries[i]) : -ENOMEM;
		}
		free(entries[i]);
	}
	free(entries);
	return r;
}

int check_files_walk(struct check_files *files, const char *path)
{
	int r = add_root(files, path, true);

	if (r == 0)
		r = walk(files, path);
	tdestroy(files->directories, free);
	files->directories = NULL;
	return r;
}

/* ---- roots ---- */

struct each {
	int (*call)(const char *root, void *data);
	void *data;
	int result;
};

static void on_root(const void *node, VISIT visit_kind, void *closure)
{
	struct each *each = closure;

	if (each->result == 0 && (visit_kind == postorder || visit_kind == leaf))
		each->result = each->call(*(const char *const *)node, each->data);
}

int check_files_each_root(
	const struct check_files *files, int (*each)(const char *root, void *data), void *data)
{
	struct each closure = {.call = each, .data = data};

	twalk_r(files->roots, on_root, &closure);
	return closure.result;
}

void check_files_finish(struct check_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->list[i].path);
	free(files->list);
	tdestroy(files->roots, free);
	*files = (struct check_files)CHECK_FILES_NULL;
}
