/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/dataset.h"

#include "daemon/data/class_list.h"
#include "daemon/data/entry.h"
#include "daemon/data/shards.h"
#include "daemon/data/tar.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct escaped dataset_full_name(
	const struct dataset_request *request, const char *path, size_t length)
{
	char name[2 * INDEX_PATH_MAX + 2];
	const char *slash = length && strcmp(request->path, "/") != 0 ? "/" : "";

	snprintf(name, sizeof(name), "%s%s%.*s", request->path, slash, (int)length, path);
	return escape(name);
}

/* ---- what a directory holds ---- */

enum {
	CHOICES = 6, /* IDX files kept for the list in the error */
};

struct survey {
	uint64_t entries, images; /* entries of any kind; loose image files */
	uint64_t idx;             /* files of IDX images, x and x.gz counted once */
	char shard[NAME_MAX + 1]; /* one of the archives, or "" */
	char class[NAME_MAX + 1]; /* one of the directories, or "" */
	char choices[CHOICES][NAME_MAX + 1];
};

/* Length of a file name without ".gz". */
static size_t stem_length(const char *name)
{
	size_t length = strlen(name);

	return length > 3 && strcmp(name + length - 3, ".gz") == 0 ? length - 3 : length;
}

/* Keep the choices in byte order, and of a file and its compressed twin the file. */
static void add_choice(struct survey *survey, const char *name)
{
	size_t stem = stem_length(name), kept = survey->idx < CHOICES ? survey->idx : CHOICES, at;

	for (at = 0; at < kept; at++) {
		char *choice = survey->choices[at];

		if (stem == stem_length(choice) && memcmp(name, choice, stem) == 0) {
			choice[stem] = '\0';
			return;
		}
	}
	survey->idx++;
	for (at = 0; at < kept && strcmp(survey->choices[at], name) < 0;)
		at++;
	if (at == CHOICES)
		return;
	if (kept == CHOICES)
		kept--;
	memmove(survey->choices[at + 1], survey->choices[at], (kept - at) * (NAME_MAX + 1));
	snprintf(survey->choices[at], NAME_MAX + 1, "%s", name);
}

static int survey_directory(struct survey *survey, int dir_fd, bool take_hidden)
{
	DIR *stream = entry_stream(dir_fd);
	struct dirent *entry;
	int r;

	if (!stream)
		return -errno;
	while ((entry = entry_next(stream))) {
		survey->entries++;
		if (entry_hidden(entry->d_name) &&
			!(take_hidden && entry_is_directory(dir_fd, entry)))
			continue;
		if (entry_is_directory(dir_fd, entry))
			snprintf(survey->class, sizeof(survey->class), "%s", entry->d_name);
		else if (dataset_idx_is_images(entry->d_name))
			add_choice(survey, entry->d_name);
		else if (shard_is_name(entry->d_name))
			snprintf(survey->shard, sizeof(survey->shard), "%s", entry->d_name);
		else if (entry_is_image(entry->d_name))
			survey->images++;
	}
	r = -errno;
	closedir(stream);
	return r;
}

static int refuse_several(const struct dataset_request *request, const struct survey *survey,
	struct error_text *error)
{
	char names[256] = "";
	size_t used = 0;
	uint64_t i;

	for (i = 0; i < survey->idx && i < CHOICES; i++) {
		size_t room = sizeof(names) - used;
		int n = snprintf(
			names + used, room, "%s%s", i ? ", " : "", escape(survey->choices[i]).text);

		if (n < 0 || (size_t)n + sizeof(", ...") > room)
			break;
		used += (size_t)n;
	}
	if (i < survey->idx)
		snprintf(names + used, sizeof(names) - used, ", ...");
	return error_set(error, DATASET_UNUSABLE,
		"%.200s: holds several IDX data sets: name one of its files %s",
		escape(request->path).text, names);
}

/* The way out of a directory that holds nothing for us. */
static int refuse_neither(const struct dataset_request *request, const struct survey *survey,
	struct error_text *error)
{
	const char *path = request->path;

	if (survey->entries == 0)
		return error_set(error, DATASET_UNUSABLE,
			"%s: the directory is empty: is something to be mounted or unpacked there?",
			escape(path).text);
	if (survey->images > 0)
		return error_set(error, DATASET_UNUSABLE,
			"%s: images lie directly in it: put those of each class in a directory of their own",
			escape(path).text);
	return error_set(error, DATASET_UNUSABLE,
		"%s: holds neither class directories nor IDX files (...-images-idx3-ubyte, .gz or not) "
		"nor tar archives; a manifest (.csv, .tsv) is named itself",
		escape(path).text);
}

static int build_directory(const struct dataset_request *request, int dir_fd,
	struct index_builder *builder, int *data_fd, struct error_text *error)
{
	struct survey survey = {.entries = 0};
	char images[INDEX_PATH_MAX + 1];
	struct stat st;
	int r;

	if (fstat(dir_fd, &st) == 0)
		witness_add(request->witnesses, request->path, "", &st);
	r = survey_directory(&survey, dir_fd, request->options.take_hidden);
	if (r < 0)
		return error_set(error, DATASET_UNUSABLE, "%s: %s", escape(request->path).text,
			strerror(-r));
	if (survey.idx > 0 && survey.class[0])
		return error_set(error, DATASET_UNUSABLE,
			"%.200s: holds directories (%.60s) and IDX files (%.60s): name an IDX file, or keep them apart",
			escape(request->path).text, escape(survey.class).text,
			escape(survey.choices[0]).text);
	if (survey.shard[0] && (survey.class[0] || survey.idx > 0))
		return error_set(error, DATASET_UNUSABLE,
			"%.200s: holds tar archives (%.60s) and other data (%.60s): name the archives "
			"(*.tar), or keep them apart",
			escape(request->path).text, escape(survey.shard).text,
			escape(survey.class[0] ? survey.class : survey.choices[0]).text);
	if (survey.class[0])
		return dataset_folder_build(request, dir_fd, builder, error);
	if (survey.shard[0])
		return dataset_tar_build(request, dir_fd, NULL, builder, error);
	if (survey.idx > 1)
		return refuse_several(request, &survey, error);
	if (survey.idx == 0)
		return refuse_neither(request, &survey, error);

	if ((size_t)snprintf(images, sizeof(images), "%s/%s",
		    strcmp(request->path, "/") == 0 ? "" : request->path,
		    survey.choices[0]) >= sizeof(images))
		return error_set(
			error, DATASET_UNUSABLE, "%s: path too long", escape(request->path).text);
	return dataset_idx_build(request, images, builder, data_fd, error);
}

/* ---- what a path is ---- */

bool dataset_reads_folder(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return shard_is_pattern(path);
	return dataset_is_manifest(path) && S_ISREG(st.st_mode);
}

/* An archive, or a pattern of archives: its folder is the root. */
static int build_tar(const struct dataset_request *request, struct index_builder *builder,
	struct error_text *error)
{
	const char *slash = strrchr(request->path, '/');
	size_t length = slash == request->path ? 1 : (size_t)(slash - request->path);
	struct dataset_request in_folder = *request;
	char folder[INDEX_PATH_MAX + 1];

	memcpy(folder, request->path, length);
	folder[length] = '\0';
	in_folder.path = folder;

	_cleanup_fd_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(
			error, DATASET_UNUSABLE, "%s: %s", escape(folder).text, strerror(errno));
	if (shard_is_pattern(slash + 1))
		witness_add(request->witnesses, folder, "", &st);
	return dataset_tar_build(&in_folder, fd, slash + 1, builder, error);
}

/* What a regular file is, by its name or its first bytes. */
static int build_file(const struct dataset_request *request, int fd, struct index_builder *builder,
	int *data_fd, struct error_text *error)
{
	uint8_t start[TAR_BLOCK];
	size_t got;

	if (dataset_is_manifest(request->path))
		return dataset_manifest_build(request, fd, builder, error);
	if (shard_is_name(request->path) ||
		(tar_read_at(fd, 0, start, sizeof(start), &got) == 0 && tar_has_magic(start, got)))
		return build_tar(request, builder, error);
	return dataset_idx_build(request, request->path, builder, data_fd, error);
}

static int build(const struct dataset_request *request, struct index_builder *builder, int *data_fd,
	struct error_text *error)
{
	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	_cleanup_fd_ int fd = open(request->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT && shard_is_pattern(request->path))
		return build_tar(request, builder, error);
	if (fd < 0 && errno == ENOENT)
		return error_set(error, DATASET_UNUSABLE,
			"%s: does not exist: check the path, and that it is mounted",
			escape(request->path).text);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return error_set(error, DATASET_UNUSABLE,
			"%s: permission denied: give the user that runs stokerd access to it and to the directories above",
			escape(request->path).text);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(error, DATASET_UNUSABLE, "%s: %s", escape(request->path).text,
			strerror(errno));
	if (S_ISDIR(st.st_mode))
		return build_directory(request, fd, builder, data_fd, error);
	if (S_ISREG(st.st_mode))
		return build_file(request, fd, builder, data_fd, error);
	return error_set(error, DATASET_UNUSABLE,
		"%s: neither a directory nor a regular file: name a data set's directory, IDX file, manifest or tar archive",
		escape(request->path).text);
}

/* Classes that no sample has: 0 or -ENOMEM. */
static int count_empty_classes(struct index_builder *builder)
{
	struct index_header *header = &builder->header;
	_cleanup_free_ uint8_t *seen = calloc(header->classes, 1);

	if (!seen)
		return -ENOMEM;
	header->empty_classes = header->classes;
	for (uint64_t i = 0; i < header->samples; i++) {
		uint8_t *class = &seen[builder->samples[i].label];

		header->empty_classes -= !*class;
		*class = 1;
	}
	return 0;
}

/* Build and seal the index of a path without slashes at its end. */
static int build_index(const struct dataset_request *request, struct index_builder *builder,
	struct dataset_result *result, struct error_text *error)
{
	int r = build(request, builder, &result->data_fd, error);

	if (r != 0)
		return r;
	r = count_empty_classes(builder);
	if (r == 0)
		r = index_builder_seal(builder);
	if (r < 0)
		return error_set(error, r, "%s: no room for its index: %s",
			escape(request->path).text, strerror(-r));
	result->index_fd = r;
	return 0;
}

int dataset_open(const struct dataset_request *request, struct dataset_result *result,
	struct error_text *error)
{
	struct index_builder builder = INDEX_BUILDER_NULL;
	struct dataset_request trimmed = *request;
	struct label_set classes = LABEL_SET_NULL;
	size_t length = strlen(request->path);
	char path[INDEX_PATH_MAX + 1];
	struct stat st;
	int r = 0;

	*result = (struct dataset_result){.index_fd = -1, .data_fd = -1};
	if (request->path[0] != '/' || length > INDEX_PATH_MAX)
		return error_set(error, DATASET_UNUSABLE,
			"%s: not an absolute path of at most %d bytes", escape(request->path).text,
			INDEX_PATH_MAX);
	while (length > 1 && request->path[length - 1] == '/')
		length--;
	memcpy(path, request->path, length);
	path[length] = '\0';
	trimmed.path = path;
	trimmed.class_list = request->options.classes ? &classes : NULL;

	if (trimmed.class_list)
		witness_add(request->witnesses, request->options.classes, "",
			stat(request->options.classes, &st) == 0 ? &st : NULL);
	if (trimmed.class_list)
		r = class_list_read(&classes, request->options.classes, error);
	if (r == 0)
		r = build_index(&trimmed, &builder, result, error);
	if (r != 0)
		result->data_fd = close_fd(result->data_fd);
	index_builder_finish(&builder);
	label_set_finish(&classes);
	return r;
}
