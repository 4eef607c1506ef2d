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

/* The front of a regular file into `bytes` (PROBE_BYTES): 0, or DATASET_UNUSABLE with the reason
 * alone. */
static int read_front(
	int root_fd, const char *path, uint8_t *bytes, size_t *length, struct error_text *reason)
{
	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	_cleanup_fd_ int fd = openat(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	*length = 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(reason, DATASET_UNUSABLE, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(reason, DATASET_UNUSABLE, "not a regular file");
	while (*length < PROBE_BYTES) {
		ssize_t n = read(fd, bytes + *length, PROBE_BYTES - *length);

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

int dataset_probe_size(const struct dataset_request *request, int root_fd,
	struct index_builder *builder, struct error_text *error)
{
	const struct decode_limits limits = {.max_pixels = request->max_pixels};
	struct index_header *header = &builder->header;
	uint64_t tries = header->samples < PROBE_SAMPLES ? header->samples : PROBE_SAMPLES;
	_cleanup_free_ uint8_t *bytes = malloc(PROBE_BYTES);
	struct error_text first = {""}, reason = {""};
	char path[INDEX_PATH_MAX + 1];

	if (!bytes)
		return error_set(error, -ENOMEM, "%s: %s", dataset_full_name(request, "", 0).text,
			strerror(ENOMEM));
	for (uint64_t i = 0; i < tries; i++) {
		const struct index_sample *sample = &builder->samples[i];
		size_t length;

		memcpy(path, builder->blob + sample->offset, sample->length);
		path[sample->length] = '\0';
		if (read_front(root_fd, path, bytes, &length, &reason) == 0 &&
			image_probe(bytes, length, &limits, &header->width, &header->height,
				&reason) == 0)
			return 0;
		if (i == 0)
			first = reason;
	}
	/* A few bad samples at the front are for the stream to report; only bad ones are no data set. */
	return error_set(error, DATASET_UNUSABLE,
		"%s: %.100s (and no other of the first %" PRIu64 " images can be read)",
		dataset_full_name(request, (const char *)builder->blob + builder->samples[0].offset,
			builder->samples[0].length)
			.text,
		first.text, tries);
}
