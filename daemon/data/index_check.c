/* SPDX-License-Identifier: Apache-2.0 */
/* The reading half of the index: nothing in it is believed before it is checked. */
#include "daemon/data/index.h"

#include "daemon/image/decode/exif.h"
#include "daemon/util/checked.h"
#include "daemon/util/escape.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <xxhash.h>

static int bad(struct error_text *error, const char *what)
{
	return error_set(error, -EBADMSG, "index: %s", what);
}

/* The next of the index's parts, of `count` elements: its start, and *at moves behind it. */
static bool lay_out_part(uint64_t *at, uint64_t count, size_t element, uint64_t *start)
{
	uint64_t bytes;

	*start = *at;
	return checked_mul(count, element, &bytes) && checked_add(*at, bytes, at);
}

/* Set the pointers when the table's parts fill `bytes` exactly. */
static int lay_out(struct index *index, struct error_text *error)
{
	const struct index_header *header = index->header;
	const uint8_t *start = (const uint8_t *)header;
	uint64_t at = sizeof(*header), samples, classes, extents, sources, blob;

	if (index->bytes < sizeof(*header) || header->magic != INDEX_MAGIC)
		return bad(error, "not an index");
	if (!lay_out_part(&at, header->samples, sizeof(struct index_sample), &samples) ||
		!lay_out_part(&at, header->classes, sizeof(struct index_class), &classes) ||
		!lay_out_part(&at, header->kind == INDEX_TAR ? header->samples : 0,
			sizeof(struct index_extent), &extents) ||
		!lay_out_part(&at, header->sources, sizeof(struct index_source), &sources) ||
		!lay_out_part(&at, header->blob_bytes, 1, &blob) || at != index->bytes)
		return bad(error, "its size is not that of its tables");
	index->samples = (const struct index_sample *)(start + samples);
	index->classes = (const struct index_class *)(start + classes);
	index->extents = (const struct index_extent *)(start + extents);
	index->sources = (const struct index_source *)(start + sources);
	index->blob = start + blob;
	return 0;
}

static int check_header(const struct index *index, struct error_text *error)
{
	const struct index_header *header = index->header;
	bool idx = header->kind == INDEX_IDX;

	if (header->kind < INDEX_FOLDER || header->kind > INDEX_TAR)
		return bad(error, "unknown kind");
	if (header->kind == INDEX_TAR ? header->sources == 0 || header->sources > INDEX_SOURCES_MAX
				      : header->sources != 0)
		return bad(error, "number of archives out of range");
	if (header->samples == 0 || header->samples > UINT32_MAX)
		return bad(error, "number of samples out of range");
	if (header->classes == 0 || header->classes > INT32_MAX)
		return bad(error, "number of classes out of range");
	if ((header->width == 0) != (header->height == 0) || (idx && header->width == 0))
		return bad(error, "image size out of range");
	if (header->orientation > EXIF_ORIENTATION_MAX)
		return bad(error, "orientation out of range");
	if ((header->width == 0) != (header->problem_length != 0) ||
		header->problem_length >= ERROR_TEXT_MAX)
		return bad(error, "a size without need to explain it, or none unexplained");
	if (header->channels != 1 && header->channels != 3)
		return bad(error, "number of channels out of range");
	if ((header->pixels & ~(uint32_t)(INDEX_PIXELS_16BIT | INDEX_PIXELS_PLANAR)) != 0 ||
		(header->pixels != 0 && !idx) ||
		((header->pixels & INDEX_PIXELS_PLANAR) && header->channels != 3))
		return bad(error, "pixel format out of range");
	if (header->empty_classes >= header->classes)
		return bad(error, "number of empty classes out of range");
	if (header->data_in_memfd > idx || (header->data_bytes != 0 && !idx))
		return bad(error, "data where none belongs");
	if (header->root_length == 0 || header->root_length > INDEX_PATH_MAX ||
		!checked_range(header->root_offset,
			(uint64_t)header->root_length + header->problem_length,
			header->blob_bytes) ||
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

static int check_sources(const struct index *index, struct error_text *error)
{
	const struct index_header *header = index->header;

	for (uint32_t i = 0; i < header->sources; i++) {
		const struct index_source *source = &index->sources[i];

		if (source->length > INDEX_SOURCE_NAME_MAX ||
			!checked_range(source->offset, source->length, header->blob_bytes) ||
			!path_is_below(index->blob + source->offset, source->length) ||
			memchr(index->blob + source->offset, '/', source->length))
			return bad(error, "name of an archive out of range");
	}
	return 0;
}

/* A path of `length` bytes in the blob, or a member of an archive. */
static int check_path(const struct index *index, uint64_t i, struct error_text *error)
{
	const struct index_sample *sample = &index->samples[i];
	const struct index_extent *extent;

	if (sample->length == 0 || sample->length > INDEX_PATH_MAX)
		return bad(error, "sample's path leads out of the root: it is empty or too long");
	switch (index->header->kind) {
	case INDEX_FOLDER:
		if (!path_is_below(index->blob + sample->offset, sample->length))
			return bad(error, "sample's path leads out of the root");
		break;
	case INDEX_TAR:
		extent = &index->extents[i];
		if (extent->source >= index->header->sources ||
			!checked_range(extent->offset, extent->length,
				index->sources[extent->source].bytes))
			return bad(error, "sample does not lie in its archive");
		break;
	}
	return 0;
}

static int check_samples(const struct index *index, struct error_text *error)
{
	const struct index_header *header = index->header;
	bool idx = header->kind == INDEX_IDX;
	uint64_t pixels = (uint64_t)header->width * header->height, image_bytes;
	uint64_t room = idx ? header->data_bytes : header->blob_bytes;

	if (!checked_mul(pixels, INDEX_PIXEL_BYTES_MAX, &image_bytes))
		return bad(error, "image size out of range");
	image_bytes = index_pixel_bytes(header);
	for (uint64_t i = 0; i < header->samples; i++) {
		const struct index_sample *sample = &index->samples[i];
		int r;

		if (sample->label < 0 || (uint32_t)sample->label >= header->classes)
			return bad(error, "label out of range");
		if (!checked_range(sample->offset, sample->length, room))
			return bad(error, "sample out of range");
		if (idx && sample->length != image_bytes)
			return bad(error, "sample is not one image");
		r = idx ? 0 : check_path(index, i, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static uint64_t fingerprint_of(const struct index *index)
{
	const struct index_header *header = index->header;
	uint64_t root_end = header->root_offset + header->root_length + header->problem_length;
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
		r = check_sources(index, error);
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

/* Append what `length` bytes at `bytes` are to a name under construction. */
static size_t append(uint8_t *name, size_t used, const void *bytes, size_t length)
{
	memcpy(name + used, bytes, length);
	return used + length;
}

size_t index_name(const struct index *index, uint64_t i, uint8_t name[INDEX_NAME_MAX])
{
	const struct index_header *header = index->header;
	const uint8_t *root = index->blob + header->root_offset;
	size_t used = append(name, 0, root, header->root_length);
	const uint8_t *path;
	uint32_t length;

	if (header->kind == INDEX_IDX)
		return used +
		       (size_t)snprintf((char *)name + used, INDEX_NAME_MAX - used, "#%" PRIu64, i);
	path = index_path(index, i, &length);
	if (header->kind == INDEX_MANIFEST && path[0] == '/')
		used = 0;
	else if (name[used - 1] != '/')
		name[used++] = '/';
	if (header->kind == INDEX_TAR) {
		const struct index_source *source = &index->sources[index->extents[i].source];

		used = append(name, used, index->blob + source->offset, source->length);
		name[used++] = ':';
	}
	return append(name, used, path, length);
}

void index_describe(const struct index *index, uint64_t i, char *text, size_t size)
{
	uint8_t name[INDEX_NAME_MAX];

	snprintf(text, size, "%s", escape_bytes(name, index_name(index, i, name)).text);
}

void index_problem(const struct index *index, char *text, size_t size)
{
	const struct index_header *header = index->header;

	snprintf(text, size, "%.*s", (int)header->problem_length,
		(const char *)index->blob + header->root_offset + header->root_length);
	/* It comes from a process that has seen hostile bytes. */
	escape_sanitize(text);
}

const char *index_kind_name(uint32_t kind)
{
	switch (kind) {
	case INDEX_FOLDER: return "folder";
	case INDEX_IDX: return "idx";
	case INDEX_MANIFEST: return "manifest";
	case INDEX_TAR: return "tar";
	}
	return "unknown";
}
