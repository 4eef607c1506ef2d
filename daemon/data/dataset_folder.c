/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Class folders, in the order of torchvision's ImageFolder: each directory right below the root is
 * a class, in byte order of the names; inside a class the directories come in byte order of their
 * paths ("c" "c/a-b" "c/a/b"), and in each its files by name. Byte order is Python's code point
 * order for valid UTF-8; names that are not UTF-8 sort by their bytes, where Python would put them
 * between U+D7FF and U+E000.
 *
 * A file is a sample by its name alone, as in torchvision, so that no file is touched: one that is
 * no picture, or a FIFO named x.png, is found bad when it is read.
 */
#include "daemon/data/array.h"
#include "daemon/data/dataset.h"
#include "daemon/data/entry.h"
#include "daemon/data/inode_set.h"
#include "daemon/data/name_sort.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	PROGRESS_STEP = 1000,
	EMPTY_CLASSES_NAMED = 3,
};

/* Elements of name_sort: `path` and `name` are offsets in `text`. */
struct folder_dir {
	size_t path; /* from the root */
	size_t first, count;
};

struct folder_file {
	size_t name;
};

/* The directories and files of one class at a time. */
struct folder_walk {
	const struct dataset_request *request;
	struct index_builder *builder;
	struct error_text *error;
	int root_fd; /* borrowed */
	struct inode_set entered;
	char *text;
	size_t text_used, text_capacity;
	struct folder_dir *dirs;
	size_t dirs_count, dirs_capacity;
	struct folder_file *files;
	size_t files_count, files_capacity;
	/* The classes that have a directory, in the order of their names. */
	struct folder_class {
		size_t name; /* in class_names */
		int32_t label;
	} * classes;
	size_t class_count;
	char *class_names;
};

static void walk_finish(struct folder_walk *walk)
{
	inode_set_finish(&walk->entered);
	free(walk->text);
	free(walk->dirs);
	free(walk->files);
	free(walk->classes);
	free(walk->class_names);
}

/* Say what went wrong with a directory or file at `path`. */
static int failed(struct folder_walk *walk, const char *path, int code)
{
	struct escaped name = dataset_full_name(walk->request, path, strlen(path));

	if (code == -ENOMEM || code == -EMFILE || code == -ENFILE || code == -EOVERFLOW)
		return error_set(walk->error, code, "%s: %s", name.text, strerror(-code));
	if (code == -EACCES || code == -EPERM)
		return error_set(walk->error, DATASET_UNUSABLE,
			"%s: permission denied: give the user that runs stokerd access, and let no "
			"link lead out of the data set",
			name.text);
	return error_set(walk->error, DATASET_UNUSABLE, "%s: %s", name.text, strerror(-code));
}

/* Keep "PREFIX/NAME" (or NAME alone, with an empty prefix) and say where. */
static int add_text(struct folder_walk *walk, size_t prefix, const char *name, size_t *offset)
{
	size_t prefix_length = strlen(walk->text + prefix), length = strlen(name);
	char *to;
	int r = array_reserve(
		&walk->text, &walk->text_capacity, walk->text_used, prefix_length + length + 2, 1);

	if (r < 0)
		return r;
	*offset = walk->text_used;
	to = walk->text + walk->text_used;
	if (prefix_length > 0) {
		memcpy(to, walk->text + prefix, prefix_length);
		to += prefix_length;
		*to++ = '/';
	}
	memcpy(to, name, length + 1);
	walk->text_used = (size_t)(to - walk->text) + length + 1;
	return 0;
}

static int add_dir(struct folder_walk *walk, size_t parent, const char *name)
{
	size_t path;
	int r = add_text(walk, parent, name, &path);

	if (r == 0)
		r = array_reserve(&walk->dirs, &walk->dirs_capacity, walk->dirs_count, 1,
			sizeof(*walk->dirs));
	if (r < 0)
		return r;
	if (walk->text_used - path > INDEX_PATH_MAX)
		return error_set(walk->error, DATASET_UNUSABLE,
			"%s: nested too deep, its path has more than %d bytes",
			dataset_full_name(
				walk->request, walk->text + path, walk->text_used - path - 1)
				.text,
			INDEX_PATH_MAX);
	walk->dirs[walk->dirs_count++] = (struct folder_dir){.path = path};
	return 0;
}

static int add_file(struct folder_walk *walk, const char *name)
{
	uint64_t found;
	size_t offset;
	int r = add_text(walk, 0, name, &offset);

	if (r == 0)
		r = array_reserve(&walk->files, &walk->files_capacity, walk->files_count, 1,
			sizeof(*walk->files));
	if (r < 0)
		return r;
	walk->files[walk->files_count++].name = offset;
	found = walk->builder->header.samples + walk->files_count;
	if (found % PROGRESS_STEP == 0 && walk->request->progress)
		walk->request->progress(found, walk->request->progress_data);
	return 0;
}

/* A link that leads nowhere may lead to a directory later, say when something is mounted there. No
 * directory that is listed changes by that, so what is missing is a witness of its own. */
static void note_missing(struct folder_walk *walk, int fd, size_t path, const struct dirent *entry)
{
	char name[2 * INDEX_PATH_MAX + 2];
	const char *folder = walk->text + path;
	struct stat st;

	if (walk->request->witnesses == NULL ||
		(entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) ||
		fstatat(fd, entry->d_name, &st, 0) == 0 || errno != ENOENT)
		return;
	snprintf(name, sizeof(name), "%s%s%s", folder, *folder != '\0' ? "/" : "", entry->d_name);
	witness_add(walk->request->witnesses, walk->request->path, name, NULL);
}

/* Add the entries of the open directory `fd`: its directories, and its images unless it is the root,
 * where torchvision looks at directories only. */
static int read_entries(struct folder_walk *walk, int fd, size_t path, bool is_root)
{
	DIR *stream = entry_stream(fd);
	struct dirent *entry;
	int r = 0;

	if (!stream)
		return -errno;
	while (r == 0 && (entry = entry_next(stream))) {
		if (entry_hidden(entry->d_name) && !walk->request->options.take_hidden) {
			if (walk->builder->header.hidden_skipped < UINT32_MAX)
				walk->builder->header.hidden_skipped++;
		} else if (entry_is_directory(fd, entry)) {
			r = add_dir(walk, path, entry->d_name);
		} else if (!is_root && entry_is_image(entry->d_name)) {
			r = add_file(walk, entry->d_name);
		} else {
			note_missing(walk, fd, path, entry);
		}
	}
	if (r == 0 && !entry)
		r = -errno;
	closedir(stream);
	return r;
}

/* Read directory number `i` of the class and append what it has, sorted. */
static int read_dir(struct folder_walk *walk, size_t i)
{
	size_t path = walk->dirs[i].path, dirs = walk->dirs_count, files = walk->files_count;
	_cleanup_fd_ int fd =
		openat(walk->root_fd, walk->text + path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return failed(walk, walk->text + path, -errno);
	witness_add(walk->request->witnesses, walk->request->path, walk->text + path, &st);
	/* The class directories themselves were entered before all others. */
	r = i == 0 ? 1 : inode_set_add(&walk->entered, &st);
	if (r == 0)
		return 0;
	if (r > 0)
		r = read_entries(walk, fd, path, false);
	if (r == 0)
		r = name_sort(walk->dirs, dirs, walk->dirs_count, sizeof(*walk->dirs), walk->text);
	if (r == 0)
		r = name_sort(
			walk->files, files, walk->files_count, sizeof(*walk->files), walk->text);
	if (r < 0)
		return failed(walk, walk->text + path, r);
	walk->dirs[i].first = files;
	walk->dirs[i].count = walk->files_count - files;
	return r;
}

static int emit_dir(struct folder_walk *walk, const struct folder_dir *dir, int32_t label)
{
	char path[INDEX_PATH_MAX + 1];
	const char *prefix = walk->text + dir->path;
	size_t prefix_length = strlen(prefix);

	memcpy(path, prefix, prefix_length);
	path[prefix_length++] = '/';
	for (size_t i = dir->first; i < dir->first + dir->count; i++) {
		const char *name = walk->text + walk->files[i].name;
		size_t length = strlen(name);
		int r;

		if (prefix_length + length > INDEX_PATH_MAX)
			return failed(walk, prefix, -ENAMETOOLONG);
		memcpy(path + prefix_length, name, length);
		r = index_add_path(walk->builder, path, prefix_length + length, label);
		if (r < 0)
			return failed(walk, prefix, r);
	}
	return 0;
}

/* All samples of one class. Breadth first, without recursion: `dirs` is the queue. */
static int walk_class(struct folder_walk *walk, const char *name, int32_t label)
{
	int r;

	walk->text_used = 1; /* behind the empty string */
	walk->dirs_count = 0;
	walk->files_count = 0;
	r = add_dir(walk, 0, name);
	for (size_t i = 0; r == 0 && i < walk->dirs_count; i++)
		r = read_dir(walk, i);
	if (r == 0)
		r = name_sort(walk->dirs, 0, walk->dirs_count, sizeof(*walk->dirs), walk->text);
	for (size_t i = 0; r == 0 && i < walk->dirs_count; i++)
		r = emit_dir(walk, &walk->dirs[i], label);
	return r < 0 ? failed(walk, name, r) : r;
}

/* Enter the directory of a class, so that no link makes one's files another's, and note its label. */
static int add_class(struct folder_walk *walk, size_t i)
{
	const struct label_set *list = walk->request->class_list;
	const char *name = walk->class_names + walk->classes[i].name;
	int64_t label = list ? label_set_find(list, name, strlen(name)) : (int64_t)i;
	struct stat st;
	int r;

	if (label < 0)
		return error_set(walk->error, DATASET_UNUSABLE,
			"%s: this directory is not in the list of classes: add its name there, or "
			"move it away",
			dataset_full_name(walk->request, name, strlen(name)).text);
	walk->classes[i].label = (int32_t)label;
	if (fstatat(walk->root_fd, name, &st, 0) < 0)
		return failed(walk, name, -errno);
	r = inode_set_add(&walk->entered, &st);
	if (r == 0)
		return error_set(walk->error, DATASET_UNUSABLE,
			"%s: is the same directory as another class, or as the data set: remove the link",
			dataset_full_name(walk->request, name, strlen(name)).text);
	if (r > 0)
		r = list ? 0 : index_add_class(walk->builder, name, strlen(name));
	return r < 0 ? failed(walk, name, r) : 0;
}

/* The directories at hand become the classes. */
static int take_classes(struct folder_walk *walk)
{
	const struct label_set *list = walk->request->class_list;
	struct error_text reason;
	int r = 0;

	walk->classes = calloc(walk->dirs_count + 1, sizeof(*walk->classes));
	walk->class_names = malloc(walk->text_used);
	if (!walk->classes || !walk->class_names)
		return failed(walk, "", -ENOMEM);
	memcpy(walk->class_names, walk->text, walk->text_used);
	walk->class_count = walk->dirs_count;
	for (size_t i = 0; r == 0 && i < walk->class_count; i++) {
		walk->classes[i].name = walk->dirs[i].path;
		r = add_class(walk, i);
	}
	if (r == 0 && list && label_add_classes(walk->builder, list, 0, &reason) < 0)
		r = failed(walk, "", -ENOMEM);
	return r;
}

/* List the classes in order. */
static int find_classes(struct folder_walk *walk)
{
	struct stat st;
	int r = array_reserve(&walk->text, &walk->text_capacity, 0, 1, 1);

	if (r < 0)
		return failed(walk, "", r);
	walk->text[0] = '\0';
	walk->text_used = 1;
	if (fstat(walk->root_fd, &st) < 0)
		return failed(walk, "", -errno);
	r = inode_set_add(&walk->entered, &st);
	if (r > 0)
		r = read_entries(walk, walk->root_fd, 0, true);
	if (r == 0)
		r = name_sort(walk->dirs, 0, walk->dirs_count, sizeof(*walk->dirs), walk->text);
	if (r != 0)
		return r < 0 ? failed(walk, "", r) : r;
	return take_classes(walk);
}

static int refuse_empty(struct folder_walk *walk, const size_t *empty, size_t count)
{
	char names[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < count && i < EMPTY_CLASSES_NAMED; i++) {
		struct escaped name = escape(walk->class_names + walk->classes[empty[i]].name);

		used += (size_t)snprintf(
			names + used, sizeof(names) - used, "%s'%.60s'", i ? ", " : "", name.text);
	}
	if (count > EMPTY_CLASSES_NAMED)
		snprintf(names + used, sizeof(names) - used, " and %zu more",
			count - EMPTY_CLASSES_NAMED);
	return error_set(walk->error, DATASET_UNUSABLE,
		"%s: no images in class %s: add some, remove the directory, or set the data set's "
		"allow_empty",
		escape(walk->request->path).text, names);
}

static int walk_classes(struct folder_walk *walk)
{
	const struct index_header *header = &walk->builder->header;
	size_t empty[EMPTY_CLASSES_NAMED], empties = 0;

	for (size_t i = 0; i < walk->class_count; i++) {
		const struct folder_class *class = &walk->classes[i];
		uint64_t before = header->samples;
		int r = walk_class(walk, walk->class_names + class->name, class->label);

		if (r != 0)
			return r;
		if (header->samples == before && empties++ < EMPTY_CLASSES_NAMED)
			empty[empties - 1] = i;
	}
	if (empties > 0 && !walk->request->options.allow_empty)
		return refuse_empty(walk, empty, empties);
	if (header->samples == 0)
		return error_set(walk->error, DATASET_UNUSABLE, "%s: no images in any class",
			escape(walk->request->path).text);
	return 0;
}

int dataset_folder_build(const struct dataset_request *request, int dir_fd,
	struct index_builder *builder, struct error_text *error)
{
	struct folder_walk walk = {
		.request = request,
		.builder = builder,
		.error = error,
		.root_fd = dir_fd,
		.entered = INODE_SET_NULL,
	};
	int r = find_classes(&walk);

	builder->header.kind = INDEX_FOLDER;
	builder->header.channels = 3; /* as ImageFolder's loader, which converts to RGB */
	if (r == 0 && walk.class_count == 0)
		r = error_set(error, DATASET_UNUSABLE,
			"%s: no class directories: put the images of each class in a directory of its own",
			escape(request->path).text);
	if (r == 0)
		r = walk_classes(&walk);
	if (r == 0)
		r = dataset_probe_size(request, dir_fd, builder, error);
	if (r == 0 && index_set_root(builder, request->path, strlen(request->path)) < 0)
		r = failed(&walk, "", -ENOMEM);
	walk_finish(&walk);
	return r;
}
