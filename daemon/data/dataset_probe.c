/* SPDX-License-Identifier: Apache-2.0 */
/* The size that a stream promises: that of the first sample whose header can be read. */
#include "daemon/data/dataset.h"
#include "daemon/image/decode.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum {
	PROBE_SAMPLES = 100,
	PROBE_BYTES = 1 << 20, /* pictures with large profiles have their size behind them */
};

/* The front of a regular file, or of an extent in it, into `bytes` (PROBE_BYTES): 0, or
 * DATASET_UNUSABLE with the reason alone. */
static int read_front(int root_fd, const char *path, const struct index_extent *extent,
	uint8_t *bytes, size_t *length, struct error_text *reason)
{
	uint64_t from = extent ? extent->offset : 0;
	size_t most = extent && extent->length < PROBE_BYTES ? extent->length : PROBE_BYTES;
	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	_cleanup_fd_ int fd = openat(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	*length = 0;
	if (fd < 0 && errno == EACCES)
		return error_set(reason, DATASET_UNUSABLE,
			"%s (a file outside the data set needs also_read)", strerror(errno));
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(reason, DATASET_UNUSABLE, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(reason, DATASET_UNUSABLE, "not a regular file");
	while (*length < most) {
		ssize_t n = pread(fd, bytes + *length, most - *length, (off_t)(from + *length));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(reason, DATASET_UNUSABLE, "%s", strerror(errno));
		if (n == 0)
			break;
		*length += (size_t)n;
	}
	return 0;
}

/* The file that holds sample `i`, from the root; and where in it, for an archive. */
static void file_of(const struct index_builder *builder, uint64_t i, char *path,
	const struct index_extent **extent)
{
	uint64_t offset = builder->samples[i].offset;
	uint32_t length = builder->samples[i].length;

	if (builder->header.kind == INDEX_TAR) {
		const struct index_source *source;

		*extent = &builder->extents[i];
		source = &builder->sources[(*extent)->source];
		offset = source->offset;
		length = source->length;
	}
	memcpy(path, builder->blob + offset, length);
	path[length] = '\0';
}

/* Sample `i` for people. */
static struct escaped name_of(
	const struct dataset_request *request, const struct index_builder *builder, uint64_t i)
{
	const struct index_sample *sample = &builder->samples[i];
	const char *path = (const char *)builder->blob + sample->offset;
	char member[INDEX_SOURCE_NAME_MAX + 1 + INDEX_PATH_MAX + 1];
	const struct index_extent *extent = NULL;
	size_t used;

	if (builder->header.kind == INDEX_MANIFEST && path[0] == '/')
		return escape_bytes(path, sample->length);
	if (builder->header.kind != INDEX_TAR)
		return dataset_full_name(request, path, sample->length);
	file_of(builder, i, member, &extent);
	used = strlen(member);
	member[used++] = ':';
	memcpy(member + used, path, sample->length);
	return dataset_full_name(request, member, used + sample->length);
}

/* The size of the first sample is in the index, so its file is a witness. */
static void note_file(const struct dataset_request *request, int root_fd, const char *path)
{
	struct stat st;

	if (request->witnesses != NULL)
		witness_add(request->witnesses, request->path, path,
			fstatat(root_fd, path, &st, 0) == 0 ? &st : NULL);
}

int dataset_probe_size(const struct dataset_request *request, int root_fd,
	struct index_builder *builder, struct error_text *error)
{
	const struct decode_limits limits = {.max_pixels = request->max_pixels};
	struct index_header *header = &builder->header;
	uint64_t tries = header->samples < PROBE_SAMPLES ? header->samples : PROBE_SAMPLES;
	_cleanup_free_ uint8_t *bytes = malloc(PROBE_BYTES);
	struct error_text first = {""}, reason = {""};

	if (!bytes)
		return error_set(error, -ENOMEM, "%s: %s", dataset_full_name(request, "", 0).text,
			strerror(ENOMEM));
	for (uint64_t i = 0; i < tries; i++) {
		const struct index_extent *extent = NULL;
		char path[INDEX_PATH_MAX + 1];
		size_t length;

		file_of(builder, i, path, &extent);
		if (extent == NULL) /* archives have their witnesses already */
			note_file(request, root_fd, path);
		if (read_front(root_fd, path, extent, bytes, &length, &reason) == 0 &&
			image_probe(bytes, length, &limits, &header->width, &header->height,
				&reason) == 0)
			return 0;
		if (i == 0)
			first = reason;
	}
	/* A few bad samples at the front are for the stream to report; only bad ones are no data set. */
	return error_set(error, DATASET_UNUSABLE,
		"%s: %.100s (and no other of the first %" PRIu64 " images can be read)",
		name_of(request, builder, 0).text, first.text, tries);
}
