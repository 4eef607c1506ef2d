/* SPDX-License-Identifier: Apache-2.0 */
/* The size that a stream promises: that of the first sample whose header can be read; and how that one
 * lies, for streams that turn pictures as their EXIF data say. */
#include "daemon/data/dataset.h"
#include "daemon/image/decode/decode.h"
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

/* A sample's bytes. */
struct front {
	uint8_t *bytes;
	size_t capacity, length; /* read so far */
	uint64_t total;          /* that there are */
};

static int read_more(
	int fd, uint64_t from, size_t most, struct front *front, struct error_text *reason)
{
	if (most > front->capacity) {
		uint8_t *bytes = realloc(front->bytes, most);

		if (!bytes)
			return error_set(reason, -ENOMEM, "%s", strerror(ENOMEM));
		front->bytes = bytes;
		front->capacity = most;
	}
	while (front->length < most) {
		ssize_t n = pread(fd, front->bytes + front->length, most - front->length,
			(off_t)(from + front->length));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(reason, DATASET_UNUSABLE, "%s", strerror(errno));
		if (n == 0)
			break;
		front->length += (size_t)n;
	}
	return 0;
}

static int check_file(int fd, struct stat *st, struct error_text *reason)
{
	if (fd < 0 && errno == EACCES)
		return error_set(reason, DATASET_UNUSABLE,
			"%s (a file outside the data set needs also_read)", strerror(errno));
	if (fd < 0 || fstat(fd, st) < 0)
		return error_set(reason, DATASET_UNUSABLE, "%s", strerror(errno));
	if (!S_ISREG(st->st_mode))
		return error_set(reason, DATASET_UNUSABLE, "not a regular file");
	return 0;
}

/* Look at the front of a regular file, or of an extent in it; and at all of it where EXIF data may follow
 * the pixels. 0, DATASET_UNUSABLE with the reason alone, or -ENOMEM. */
static int probe_file(const struct dataset_request *request, int root_fd, const char *path,
	const struct index_extent *extent, struct front *front, struct picture_info *info,
	struct error_text *reason)
{
	const struct decode_options options = {.max_pixels = request->max_pixels};
	uint64_t from = extent ? extent->offset : 0;
	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	_cleanup_fd_ int fd = openat(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int r = check_file(fd, &st, reason);

	if (r != 0)
		return r;
	front->length = 0;
	front->total = extent ? extent->length : (uint64_t)st.st_size;
	r = read_more(
		fd, from, front->total < PROBE_BYTES ? front->total : PROBE_BYTES, front, reason);
	if (r == 0 && image_probe(front->bytes, front->length, &options, info, reason) != 0)
		r = DATASET_UNUSABLE;
	/* A file that is too long for its picture is a bad sample, and nobody turns it. */
	if (r != 0 || !info->more || front->total <= PROBE_BYTES ||
		front->total > DECODE_FILE_MAX ||
		image_check_length(info, front->total, reason) != 0)
		return r;
	r = read_more(fd, from, front->total, front, reason);
	if (r == 0 && image_probe(front->bytes, front->length, &options, info, reason) != 0)
		r = DATASET_UNUSABLE;
	return r;
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

/* The first sample that can be probed: 0 and what it is, or DATASET_UNUSABLE with what is wrong with
 * the very first one, or -ENOMEM. */
static int probe_samples(const struct dataset_request *request, int root_fd,
	const struct index_builder *builder, uint64_t tries, struct picture_info *info,
	struct error_text *first)
{
	struct front front = {.bytes = NULL};
	struct error_text reason = {""};
	int r = DATASET_UNUSABLE;

	for (uint64_t i = 0; i < tries && r == DATASET_UNUSABLE; i++) {
		const struct index_extent *extent = NULL;
		char path[INDEX_PATH_MAX + 1];

		file_of(builder, i, path, &extent);
		if (extent == NULL) /* archives have their witnesses already */
			note_file(request, root_fd, path);
		r = probe_file(request, root_fd, path, extent, &front, info, &reason);
		if (i == 0 || r < 0)
			*first = reason;
	}
	free(front.bytes);
	return r;
}

int dataset_probe_size(const struct dataset_request *request, int root_fd,
	struct index_builder *builder, struct error_text *error)
{
	struct index_header *header = &builder->header;
	uint64_t tries = header->samples < PROBE_SAMPLES ? header->samples : PROBE_SAMPLES;
	struct error_text first = {""}, problem;
	struct picture_info info;
	int r = probe_samples(request, root_fd, builder, tries, &info, &first);

	if (r == 0) {
		header->width = info.width;
		header->height = info.height;
		header->orientation = info.orientation;
		return 0;
	}
	if (r < 0)
		return error_set(
			error, r, "%s: %s", dataset_full_name(request, "", 0).text, first.text);
	/* A few bad samples at the front are for the stream to report; with only bad ones there is
	 * nothing to train on, but they can be looked at one by one. */
	error_set(&problem, 0,
		"%s: %.100s (and no other of the first %" PRIu64 " images can be read)",
		name_of(request, builder, 0).text, first.text, tries);
	if (index_set_problem(builder, problem.text) < 0)
		return error_set(error, -ENOMEM, "%s", strerror(ENOMEM));
	return 0;
}
