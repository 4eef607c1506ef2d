/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/index.h"

#include "daemon/data/array.h"
#include "daemon/data/memfd.h"
#include "daemon/util/checked.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <xxhash.h>

/* ---- building ---- */

void index_builder_finish(struct index_builder *builder)
{
	free(builder->samples);
	free(builder->classes);
	free(builder->blob);
	free(builder->root);
	*builder = (struct index_builder)INDEX_BUILDER_NULL;
}

static int add_bytes(struct index_builder *builder, const void *bytes, size_t length)
{
	size_t used = builder->header.blob_bytes;
	int r = array_reserve(&builder->blob, &builder->blob_capacity, used, length, 1);

	if (r < 0)
		return r;
	memcpy(builder->blob + used, bytes, length);
	builder->header.blob_bytes += length;
	return 0;
}

int index_add_class(struct index_builder *builder, const void *name, size_t length)
{
	uint64_t offset = builder->header.blob_bytes;
	int r;

	if (builder->header.classes >= INT32_MAX)
		return -EOVERFLOW;
	r = array_reserve(&builder->classes, &builder->classes_capacity, builder->header.classes, 1,
		sizeof(*builder->classes));
	if (r == 0)
		r = add_bytes(builder, name, length);
	if (r < 0)
		return r;
	builder->classes[builder->header.classes++] =
		(struct index_class){.offset = offset, .length = (uint32_t)length};
	return 0;
}

int index_add_range(struct index_builder *builder, uint64_t offset, uint32_t length, int32_t label)
{
	int r;

	if (builder->header.samples >= UINT32_MAX)
		return -EOVERFLOW;
	r = array_reserve(&builder->samples, &builder->samples_capacity, builder->header.samples, 1,
		sizeof(*builder->samples));
	if (r < 0)
		return r;
	builder->samples[builder->header.samples++] =
		(struct index_sample){.offset = offset, .length = length, .label = label};
	return 0;
}

int index_add_path(struct index_builder *builder, const void *path, size_t length, int32_t label)
{
	uint64_t offset = builder->header.blob_bytes;
	int r = add_bytes(builder, path, length);

	if (r < 0)
		return r;
	return index_add_range(builder, offset, (uint32_t)length, label);
}

int index_set_root(struct index_builder *builder, const void *path, size_t length)
{
	char *root = strndup(path, length);

	if (!root)
		return -ENOMEM;
	free(builder->root);
	builder->root = root;
	return 0;
}

int index_builder_seal(const struct index_builder *builder)
{
	struct index_header header = builder->header;
	const char *root = builder->root ? builder->root : "";
	_cleanup_fd_ int fd = memfd_new("stoker-index");
	int r;

	if (fd < 0)
		return fd;
	header.magic = INDEX_MAGIC;
	header.root_offset = builder->header.blob_bytes;
	header.root_length = (uint32_t)strlen(root);
	header.blob_bytes += header.root_length;

	r = memfd_append(fd, &header, sizeof(header));
	if (r == 0)
		r = memfd_append(fd, builder->samples, header.samples * sizeof(*builder->samples));
	if (r == 0)
		r = memfd_append(fd, builder->classes, header.classes * sizeof(*builder->classes));
	if (r == 0)
		r = memfd_append(fd, builder->blob, builder->header.blob_bytes);
	if (r == 0)
		r = memfd_append(fd, root, header.root_length);
	if (r == 0)
		r = memfd_seal(fd);
	return r < 0 ? r : steal_fd(&fd);
}

/* ---- reading ---- */

static int bad(struct error_text *error, const char *what)
{
	return error_set(error, -EBADMSG, "index: %s", what);
}

/* Set the four pointers when the table's parts fill `bytes` exactly. */
static int lay_out(struct index *index, struct error_text *error)
{
	const struct index_header *header = index->header;
	uint64_t classes_at, blob_at, end;

	if (index->bytes < sizeof(*header) || header->magic != INDEX_MAGIC)
		return bad(error, "not an index");
	if (!checked_mul(header->samples, sizeof(struct index_sample), &classes_at) ||
		!checked_add(classes_at, sizeof(*header), &classes_at) ||
		!checked_add(classes_at, header->classes * sizeof(struct index_class), &blob_at) ||
		!checked_add(blob_at, header->blob_bytes, &end) || end != index->bytes)
		return bad(error, "its size is not that of its tables");
	index->samples = (const struct index_sample *)(header + 1);
	index->classes = (const struct index_class *)((const uint8_t *)header + classes_at);
	index->blob = (const uint8_t *)header + blob_at;
	return 0;
}

static int check_header(const struct index *index, struct error_text *error)
{
	const struct index_header *header = index->header;
	bool idx = header->kind == INDEX_IDX;

	if (header->kind != INDEX_FOLDER && !idx)
		return bad(error, "unknown kind");
	if (header->samples == 0 || header->samples > UINT32_MAX)
		return bad(error, "number of samples out of range");
	if (header->classes == 0 || header->classes > INT32_MAX)
		return bad(error, "number of classes out of range");
	if (header->width == 0 || header->height == 0)
		return bad(error, "image size out of range");
	if (header->channels != 1 && header->channels != 3)
		return bad(error, "number of channels out of range");
	if (header->data_in_memfd > idx || (header->data_bytes != 0 && !idx))
		return bad(error, "data where none belongs");
	if (header->root_length == 0 || header->root_length > INDEX_PATH_MAX ||
		!checked_range(header->root_offset, header->root_length, header->blob_bytes) ||
		index->blob[header->root_offset] != '/')
		return bad(error, "root is not an absolute path");
	/* Paths and names are all that the blob holds, so one look finds a NUL in any of them. */
	if (memchr(index->blob, '\0', header->blob_bytes))
		return bad(error, "NUL byte in a name");
	return 0;
}

static int check_classes(const struct index *index, struct error_text *error)
{
	for (uint32_t i = 0; i < index->header->classes; i++) {
		const struct index_class *class = &index->classes[i];

		if (class->length == 0 || class->length > INDEX_CLASS_NAME_MAX ||
			!checked_range(class->offset, class->length, index->header->blob_bytes))
			return bad(error, "class name out of range");
	}
	return 0;
}

/* Does this path stay below the directory that it starts from (links aside)? */
static bool path_is_below(const uint8_t *path, size_t length)
{
	const uint8_t *end = path + length;

	for (;;) {
		const uint8_t *slash = memchr(path, '/', (size_t)(end - path));
		size_t component = (size_t)((slash ? slash : end) - path);

		if (component == 0 ||
			(component <= 2 && path[0] == '.' && (component == 1 || path[1] == '.')))
			return false;
		if (!slash)
			return true;
		path = slash + 1;
	}
}

static int check_samples(const struct index *index, struct error_text *error)
{
	const struct index_header *header = index->header;
	bool folder = header->kind == INDEX_FOLDER;
	uint64_t pixels = (uint64_t)header->width * header->height, image_bytes;
	uint64_t room = folder ? header->blob_bytes : header->data_bytes;

	if (!checked_mul(pixels, header->channels, &image_bytes))
		return bad(error, "image size out of range");
	for (uint64_t i = 0; i < header->samples; i++) {
		const struct index_sample *sample = &index->samples[i];

		if (sample->label < 0 || (uint32_t)sample->label >= header->classes)
			return bad(error, "label out of range");
		if (!checked_range(sample->offset, sample->length, room))
			return bad(error, "sample out of range");
		if (!folder && sample->length != image_bytes)
			return bad(error, "sample is not one image");
		if (folder && (sample->length > INDEX_PATH_MAX ||
				      !path_is_below(index->blob + sample->offset, sample->length)))
			return bad(error, "sample's path leads out of the root");
	}
	return 0;
}

static uint64_t fingerprint_of(const struct index *index)
{
	const struct index_header *header = index->header;
	uint64_t root_end = header->root_offset + header->root_length;
	const uint64_t counts[] = {header->kind, header->samples, header->classes};
	XXH64_hash_t hash = XXH3_64bits(counts, sizeof(counts));

	hash = XXH3_64bits_withSeed(
		index->samples, header->samples * sizeof(*index->samples), hash);
	hash = XXH3_64bits_withSeed(
		index->classes, header->classes * sizeof(*index->classes), hash);
	hash = XXH3_64bits_withSeed(index->blob, header->root_offset, hash);
	return XXH3_64bits_withSeed(index->blob + root_end, header->blob_bytes - root_end, hash);
}

int index_map(struct index *index, int fd, bool fingerprint, struct error_text *error)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS), needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	void *map;
	int r;

	*index = (struct index){.header = NULL};
	if (seals < 0 || (seals & needed) != needed)
		return bad(error, "not sealed");
	if (fstat(fd, &st) < 0)
		return error_set(error, -errno, "index: fstat: %s", strerror(errno));
	if ((uint64_t)st.st_size < sizeof(struct index_header))
		return bad(error, "not an index");
	/* Reading a hole would take its memory here, in the reader, however large it is. */
	if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
		return bad(error, "has holes");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (map == MAP_FAILED)
		return error_set(error, -errno, "index: mmap: %s", strerror(errno));
	index->header = map;
	index->bytes = (size_t)st.st_size;

	r = lay_out(index, error);
	if (r == 0)
		r = check_header(index, error);
	if (r == 0)
		r = check_classes(index, error);
	if (r == 0)
		r = check_samples(index, error);
	if (r < 0) {
		index_unmap(index);
		return r;
	}
	if (fingerprint)
		index->fingerprint = fingerprint_of(index);
	return 0;
}

void index_unmap(struct index *index)
{
	if (index->header)
		munmap((void *)index->header, index->bytes);
	*index = (struct index){.header = NULL};
}

void index_describe(const struct index *index, uint64_t i, char *text, size_t size)
{
	const struct index_header *header = index->header;
	const uint8_t *root = index->blob + header->root_offset;
	uint8_t name[2 * INDEX_PATH_MAX + 1];
	size_t length = header->root_length;

	if (header->kind != INDEX_FOLDER) {
		snprintf(text, size, "%s#%" PRIu64, escape_bytes(root, length).text, i);
		return;
	}
	memcpy(name, root, length);
	if (name[length - 1] != '/')
		name[length++] = '/';
	memcpy(name + length, index->blob + index->samples[i].offset, index->samples[i].length);
	snprintf(text, size, "%s", escape_bytes(name, length + index->samples[i].length).text);
}

const char *index_kind_name(uint32_t kind)
{
	switch (kind) {
	case INDEX_FOLDER: return "folder";
	case INDEX_IDX: return "idx";
	}
	return "unknown";
}
