/* SPDX-License-Identifier: Apache-2.0 */
/* The building half of the index. */
#include "daemon/data/index.h"

#include "daemon/data/array.h"
#include "daemon/data/memfd.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <string.h>

void index_builder_finish(struct index_builder *builder)
{
	free(builder->samples);
	free(builder->classes);
	free(builder->extents);
	free(builder->sources);
	free(builder->blob);
	free(builder->root);
	free(builder->problem);
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

int index_add_source(struct index_builder *builder, const void *name, size_t length, uint64_t bytes,
	uint64_t mtime_ns)
{
	uint64_t offset = builder->header.blob_bytes;
	int r;

	if (builder->header.sources >= INDEX_SOURCES_MAX)
		return -EOVERFLOW;
	r = array_reserve(&builder->sources, &builder->sources_capacity, builder->header.sources, 1,
		sizeof(*builder->sources));
	if (r == 0)
		r = add_bytes(builder, name, length);
	if (r < 0)
		return r;
	builder->sources[builder->header.sources++] = (struct index_source){
		.offset = offset,
		.length = (uint32_t)length,
		.bytes = bytes,
		.mtime_ns = mtime_ns,
	};
	return 0;
}

int index_add_member(struct index_builder *builder, const void *path, size_t length, int32_t label,
	uint64_t offset, uint32_t bytes)
{
	size_t at = builder->header.samples;
	int r = array_reserve(
		&builder->extents, &builder->extents_capacity, at, 1, sizeof(*builder->extents));

	if (r == 0)
		r = index_add_path(builder, path, length, label);
	if (r == 0)
		builder->extents[at] = (struct index_extent){
			.offset = offset,
			.length = bytes,
			.source = builder->header.sources - 1,
		};
	return r;
}

static int set_text(char **text, const void *bytes, size_t length)
{
	char *copy = strndup(bytes, length);

	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

int index_set_root(struct index_builder *builder, const void *path, size_t length)
{
	return set_text(&builder->root, path, length);
}

int index_set_problem(struct index_builder *builder, const char *text)
{
	return set_text(&builder->problem, text, strlen(text));
}

int index_builder_seal(const struct index_builder *builder)
{
	struct index_header header = builder->header;
	const char *root = builder->root ? builder->root : "";
	const char *problem = builder->problem ? builder->problem : "";
	_cleanup_fd_ int fd = memfd_new("stoker-index");
	int r;

	if (fd < 0)
		return fd;
	header.magic = INDEX_MAGIC;
	header.root_offset = builder->header.blob_bytes;
	header.root_length = (uint32_t)strlen(root);
	header.problem_length = (uint32_t)strlen(problem);
	header.blob_bytes += header.root_length + header.problem_length;

	r = memfd_append(fd, &header, sizeof(header));
	if (r == 0)
		r = memfd_append(fd, builder->samples, header.samples * sizeof(*builder->samples));
	if (r == 0)
		r = memfd_append(fd, builder->classes, header.classes * sizeof(*builder->classes));
	if (r == 0 && header.kind == INDEX_TAR)
		r = memfd_append(fd, builder->extents, header.samples * sizeof(*builder->extents));
	if (r == 0)
		r = memfd_append(fd, builder->sources, header.sources * sizeof(*builder->sources));
	if (r == 0)
		r = memfd_append(fd, builder->blob, builder->header.blob_bytes);
	if (r == 0)
		r = memfd_append(fd, root, header.root_length);
	if (r == 0)
		r = memfd_append(fd, problem, header.problem_length);
	if (r == 0)
		r = memfd_seal(fd);
	return r < 0 ? r : steal_fd(&fd);
}
