/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tar shard: a data set whose index can be mapped, or one line that says why not. */
#include "daemon/data/dataset.h"
#include "daemon/data/memfd.h"
#include "daemon/data/tar.h"
#include "daemon/data/tar_header.h"
#include "daemon/util/ownership.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#ifdef NDEBUG
#error "the target needs assert"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* libFuzzer's own; absent where the corpus is only replayed. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static void check_index(const struct index_builder *builder, size_t size)
{
	struct error_text error;
	struct index index;
	char name[400];
	_cleanup_fd_ int fd = index_builder_seal(builder);

	assert(fd >= 0);
	if (index_map(&index, fd, true, &error) != 0) {
		fprintf(stderr, "%s\n", error.text);
		assert(0);
	}
	for (uint64_t i = 0; i < index.header->samples; i++) {
		assert(index.extents[i].offset + index.extents[i].length <= size);
		index_describe(&index, i, name, sizeof(name));
		assert(strlen(name) > 0);
	}
	index_unmap(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dataset_request request = {.path = "/proc/self/fd", .max_pixels = 1 << 20};
	struct index_builder builder = INDEX_BUILDER_NULL;
	struct error_text error = {""};
	_cleanup_fd_ int dir = open(request.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int fd = memfd_new("fuzz");
	char name[16];
	int r;

	assert(dir >= 0 && fd >= 0 && memfd_append(fd, data, size) == 0);
	snprintf(name, sizeof(name), "%d", fd);
	r = dataset_tar_build(&request, dir, name, &builder, &error);
	assert(r == 0 || r == DATASET_UNUSABLE);
	if (r == 0)
		check_index(&builder, size);
	else
		assert(error.text[0] != '\0' && !strchr(error.text, '\n'));
	index_builder_finish(&builder);
	return 0;
}

/* Most mutations would end at the first checksum; most of them get it put right instead. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	size = LLVMFuzzerMutate(data, size, max_size);
	if (seed % 8 == 0)
		return size;
	for (size_t at = 0; at + TAR_BLOCK <= size;) {
		struct tar_header *header = (struct tar_header *)(data + at);
		const uint8_t *bytes = data + at;
		char text[8];
		unsigned sum = 0;
		int64_t length;

		if (tar_header_is_zero(header))
			break;
		memset(header->checksum, ' ', sizeof(header->checksum));
		for (size_t i = 0; i < TAR_BLOCK; i++)
			sum += bytes[i];
		snprintf(text, sizeof(text), "%06o", sum);
		memcpy(header->checksum, text, 7);
		at += TAR_BLOCK;
		if (!tar_number(header->size, sizeof(header->size), &length) || length < 0 ||
			(uint64_t)length > size)
			break;
		at += ((size_t)length + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	}
	return size;
}
