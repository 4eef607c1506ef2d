/* SPDX-License-Identifier: Apache-2.0 */
/* Tar shards with WebDataset's keys: the members of one key are a sample, its image and its class. */
#include "daemon/data/array.h"
#include "daemon/data/dataset.h"
#include "daemon/data/label_set.h"
#include "daemon/data/shards.h"
#include "daemon/data/tar.h"
#include "daemon/data/tar_key.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
	PROGRESS_STEP = 1000,
	/* A .cls is a number or a name, with blanks around it. */
	CLASS_BYTES_MAX = INDEX_CLASS_NAME_MAX + 16,
	GROUP_MAX = 1000, /* members of one key */
};

/* The image of a key that has several: the first of these. */
static const char *const image_extensions[] = {
	"jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", NULL};

/* The members of the key at hand. */
struct group {
	bool any;
	unsigned members;
	char key[INDEX_PATH_MAX + 1];
	size_t key_length;
	char *extensions; /* seen so far, each terminated */
	size_t extensions_used, extensions_capacity;
	unsigned image_rank; /* in image_extensions; of the image below, or the end's */
	char image[INDEX_PATH_MAX + 1];
	uint64_t offset, size;
	int32_t label; /* number in labels; -1 = none yet */
};

struct tar_build {
	const struct dataset_request *request; /* path: the folder that the shards lie in */
	struct index_builder *builder;
	struct error_text *error;
	int dir_fd, fd; /* the folder; the shard */
	const char *shard;
	struct tar_reader reader;
	struct label_set keys; /* of this shard */
	struct label_set labels;
	struct group group;
};

static int bad_shard(struct tar_build *build, const char *what)
{
	return error_set(build->error, DATASET_UNUSABLE, "%s: %s",
		dataset_full_name(build->request, build->shard, strlen(build->shard)).text, what);
}

/* Refuse the shard for one of its members. */
static int bad_member(struct tar_build *build, const char *member, const char *what)
{
	char name[INDEX_SOURCE_NAME_MAX + 1 + INDEX_PATH_MAX + 1];
	int length = snprintf(name, sizeof(name), "%s:%s", build->shard, member);

	return error_set(build->error, DATASET_UNUSABLE, "%s: %s",
		dataset_full_name(build->request, name, (size_t)length).text, what);
}

static int failed(struct tar_build *build, int code)
{
	bool fatal = code == -ENOMEM || code == -EMFILE || code == -ENFILE || code == -EOVERFLOW;

	error_set(build->error, code, "%s: %s",
		dataset_full_name(build->request, build->shard, strlen(build->shard)).text,
		strerror(-code));
	return fatal ? code : DATASET_UNUSABLE;
}

/* ---- one key ---- */

static unsigned image_rank(const char *extension)
{
	unsigned rank = 0;

	while (image_extensions[rank] && strcasecmp(extension, image_extensions[rank]) != 0)
		rank++;
	return rank;
}

static int end_group(struct tar_build *build)
{
	struct group *group = &build->group;
	struct index_builder *builder = build->builder;
	bool image = image_extensions[group->image_rank] != NULL;
	int r;

	/* A key with neither is no sample but something that lies beside them. */
	if (!group->any || (!image && group->label < 0))
		return 0;
	if (!image)
		return bad_member(build, group->key, "this key has a .cls but no image");
	if (group->label < 0)
		return bad_member(
			build, group->image, "has no .cls member beside it with its class");
	r = index_add_member(builder, group->image, strlen(group->image), group->label,
		group->offset, group->size < UINT32_MAX ? (uint32_t)group->size : UINT32_MAX);
	if (r < 0)
		return failed(build, r);
	if (builder->header.samples % PROGRESS_STEP == 0 && build->request->progress)
		build->request->progress(builder->header.samples, build->request->progress_data);
	return 0;
}

/* Go on to the key of the member at hand. */
static int begin_group(struct tar_build *build, const struct tar_key *key)
{
	struct group *group = &build->group;
	const char *name = build->reader.name;
	size_t known = build->keys.count;
	int64_t number;
	int r = end_group(build);

	if (r != 0)
		return r;
	memcpy(group->key, name, key->length);
	group->key[key->length] = '\0';
	group->key_length = key->length;
	group->any = true;
	group->members = 0;
	group->extensions_used = 0;
	group->image_rank = sizeof(image_extensions) / sizeof(image_extensions[0]) - 1;
	group->label = -1;
	number = label_set_add(&build->keys, group->key, key->length, 0);
	if (number < 0)
		return failed(build, (int)number);
	if ((size_t)number < known)
		return bad_member(build, name,
			"is apart from the other members of its key: they must follow each other");
	return 0;
}

/* Each extension once. */
static int note_extension(struct tar_build *build, const char *extension)
{
	struct group *group = &build->group;
	size_t length = strlen(extension) + 1;
	int r;

	for (size_t at = 0; at < group->extensions_used; at += strlen(group->extensions + at) + 1) {
		if (strcasecmp(group->extensions + at, extension) == 0)
			return bad_member(build, build->reader.name,
				"this key has two members with this extension");
	}
	if (++group->members > GROUP_MAX)
		return bad_member(build, build->reader.name, "this key has more than 1000 members");
	r = array_reserve(
		&group->extensions, &group->extensions_capacity, group->extensions_used, length, 1);
	if (r < 0)
		return failed(build, r);
	memcpy(group->extensions + group->extensions_used, extension, length);
	group->extensions_used += length;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int read_label(struct tar_build *build)
{
	const struct tar_reader *reader = &build->reader;
	char text[CLASS_BYTES_MAX + 1], *start = text;
	size_t length = reader->size < CLASS_BYTES_MAX ? (size_t)reader->size : CLASS_BYTES_MAX,
	       got;
	int r = tar_read_at(build->fd, reader->offset, text, length, &got);
	int64_t number;

	if (r < 0)
		return failed(build, r);
	if (got < length)
		return bad_shard(build, "is cut");
	for (; length > 0 && is_blank(*start); length--)
		start++;
	while (length > 0 && is_blank(start[length - 1]))
		length--;
	start[length] = '\0';
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)start[i] < ' ')
			length = 0;
	}
	if (reader->size > CLASS_BYTES_MAX || length == 0 || length > INDEX_CLASS_NAME_MAX)
		return bad_member(build, reader->name,
			"is no class: a number or a name, as text of one line");
	/* The label of the sample that this key will be. */
	number = label_set_add(&build->labels, start, length, build->builder->header.samples);
	if (number < 0)
		return failed(build, (int)number);
	build->group.label = (int32_t)number;
	return 0;
}

static int take_member(struct tar_build *build, const struct tar_key *key)
{
	const struct tar_reader *reader = &build->reader;
	struct group *group = &build->group;
	unsigned rank = image_rank(key->extension);
	bool label = strcasecmp(key->extension, "cls") == 0;
	int r = 0;

	if (!group->any || group->key_length != key->length ||
		memcmp(group->key, reader->name, key->length) != 0)
		r = begin_group(build, key);
	if (r == 0)
		r = note_extension(build, key->extension);
	if (r != 0)
		return r;
	if (reader->sparse && (label || image_extensions[rank]))
		return bad_member(
			build, reader->name, "is a sparse file: pack the archive without --sparse");
	if (label)
		return read_label(build);
	if (rank < group->image_rank) {
		group->image_rank = rank;
		memcpy(group->image, reader->name, reader->name_length + 1);
		group->offset = reader->offset;
		group->size = reader->size;
	}
	return 0;
}

/* ---- one shard ---- */

static int read_members(struct tar_build *build)
{
	struct error_text reason;
	int r = 0, next;

	while (r == 0 && (next = tar_next(&build->reader, &reason)) == 0) {
		struct tar_key key;

		if (build->reader.type != TAR_REGULAR || !tar_key_split(build->reader.name, &key))
			continue;
		if (build->reader.name_length > INDEX_PATH_MAX)
			return bad_shard(build, "has a member with a name of more than 4095 bytes");
		r = take_member(build, &key);
	}
	if (r != 0)
		return r;
	if (next == TAR_BAD)
		return bad_shard(build, reason.text);
	return next < 0 ? failed(build, next) : end_group(build);
}

/* Open the shard at hand: 0 with its size, when it can be an archive. */
static int open_shard(struct tar_build *build, struct stat *st)
{
	uint8_t start[TAR_BLOCK];
	const char *compression;
	char text[120];
	size_t got;
	int r;

	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	build->fd =
		openat(build->dir_fd, build->shard, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (build->fd < 0 && errno == ENOENT)
		return bad_shard(build, "does not exist: no shard may be missing");
	if (build->fd < 0 || fstat(build->fd, st) < 0)
		return failed(build, -errno);
	if (!S_ISREG(st->st_mode))
		return bad_shard(build, "is not a regular file");
	r = tar_read_at(build->fd, 0, start, sizeof(start), &got);
	if (r < 0)
		return failed(build, r);
	compression = tar_compression(start, got);
	if (!compression || tar_has_magic(start, got))
		return 0;
	snprintf(text, sizeof(text),
		"is compressed (%s): samples are read in random order, so unpack it to a plain .tar",
		compression);
	return bad_shard(build, text);
}

static int read_shard(struct tar_build *build, const char *name)
{
	struct stat st;
	int r;

	build->shard = name;
	build->group.any = false;
	r = open_shard(build, &st);
	if (r == 0) {
		witness_add(build->request->witnesses, build->request->path, name, &st);
		r = index_add_source(build->builder, name, strlen(name), (uint64_t)st.st_size,
			index_mtime_ns(&st));
		if (r < 0)
			r = failed(build, r);
	}
	if (r == 0) {
		build->reader =
			(struct tar_reader){.fd = build->fd, .file_bytes = (uint64_t)st.st_size};
		r = read_members(build);
	}
	tar_finish(&build->reader);
	label_set_finish(&build->keys);
	build->fd = close_fd(build->fd);
	return r;
}

/* ---- the data set ---- */

/* Turn the labels' numbers of appearance into classes. */
static int settle_labels(struct tar_build *build)
{
	struct index_builder *builder = build->builder;
	struct error_text reason;
	uint64_t i;
	int r = label_set_settle(&build->labels, build->request->class_list, builder, &i, &reason);
	const struct index_source *source;
	char shard[INDEX_SOURCE_NAME_MAX + 1], member[INDEX_PATH_MAX + 1];

	if (r != LABEL_SET_BAD)
		return r < 0 ? failed(build, r) : 0;
	source = &builder->sources[builder->extents[i].source];
	snprintf(shard, sizeof(shard), "%.*s", (int)source->length,
		(const char *)builder->blob + source->offset);
	snprintf(member, sizeof(member), "%.*s", (int)builder->samples[i].length,
		(const char *)builder->blob + builder->samples[i].offset);
	build->shard = shard;
	bad_member(build, member, reason.text);
	build->shard = "";
	return DATASET_UNUSABLE;
}

static int finish_index(struct tar_build *build)
{
	struct index_builder *builder = build->builder;
	int r;

	build->shard = "";
	if (builder->header.samples == 0)
		return bad_shard(build,
			"no samples in the archives: each is an image and a .cls with the same key");
	r = settle_labels(build);
	if (r != 0)
		return r;
	r = index_set_root(builder, build->request->path, strlen(build->request->path));
	if (r < 0)
		return failed(build, r);
	return dataset_probe_size(build->request, build->dir_fd, builder, build->error);
}

static int read_shards(struct tar_build *build, const struct shard_list *list)
{
	int r = 0;

	build->builder->header.kind = INDEX_TAR;
	build->builder->header.channels = 3; /* as for class folders */
	for (size_t i = 0; r == 0 && i < list->count; i++)
		r = read_shard(build, shard_name(list, i));
	free(build->group.extensions);
	if (r == 0)
		r = finish_index(build);
	label_set_finish(&build->labels);
	return r;
}

int dataset_tar_build(const struct dataset_request *request, int dir_fd, const char *name,
	struct index_builder *builder, struct error_text *error)
{
	struct tar_build *build = calloc(1, sizeof(*build));
	struct shard_list list = SHARD_LIST_NULL;
	struct error_text reason;
	struct stat st;
	int r;

	if (!build)
		return error_set(
			error, -ENOMEM, "%s: %s", escape(request->path).text, strerror(ENOMEM));
	build->request = request;
	build->builder = builder;
	build->error = error;
	build->dir_fd = dir_fd;
	build->fd = -1;
	build->shard = name ? name : "";
	if (!name)
		r = shard_list_directory(&list, dir_fd);
	else if (fstatat(dir_fd, name, &st, 0) == 0)
		r = shard_list_add(&list, name);
	else
		r = shard_list_expand(&list, dir_fd, name, &reason);
	if (r == SHARDS_BAD)
		r = bad_shard(build, reason.text);
	else if (r < 0)
		r = failed(build, r);
	else
		r = read_shards(build, &list);
	shard_list_finish(&list);
	free(build);
	return r;
}
