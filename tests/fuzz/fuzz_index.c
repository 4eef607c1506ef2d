/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a saved index, and as the index of a worker. Byte 0 says how: 0 the bytes are the file;
 * else byte 1 is the number of witnesses and bytes 2 and 3 how long they are, the rest is the index, and
 * the file gets the header and the checksums that belong to them.
 */
#include "daemon/data/memfd.h"
#include "daemon/data/saved_index.h"
#include "daemon/util/ownership.h"

#include <assert.h>
#include <string.h>

#include <xxhash.h>

#ifdef NDEBUG
#error "the target needs assert"
#endif

enum { KEY = 7, DESCRIBED = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing in an index that has been accepted leads out of it. */
static void check_index(int fd)
{
	struct error_text error = {""};
	struct index index, again;
	char text[ERROR_TEXT_MAX];
	uint64_t sum = 0;

	if (index_map(&index, fd, true, &error) < 0) {
		assert(error.text[0] != '\0' && index.header == NULL);
		return;
	}
	for (uint64_t i = 0; i < index.header->samples; i++) {
		const struct index_sample *sample = &index.samples[i];

		assert(sample->label >= 0 && (uint32_t)sample->label < index.header->classes);
		if (index.header->kind == INDEX_IDX)
			continue;
		for (uint32_t k = 0; k < sample->length; k++)
			sum += index.blob[sample->offset + k];
		if (i < DESCRIBED)
			index_describe(&index, i, text, sizeof(text));
	}
	assert(index_map(&again, fd, true, NULL) == 0 && again.fingerprint == index.fingerprint);
	assert(sum > 0 || index.header->kind == INDEX_IDX);
	index_unmap(&again);
	index_unmap(&index);
}

static void check_file(int fd)
{
	struct error_text why = {""};
	int index_fd = -1;
	int r = saved_index_read(fd, KEY, &index_fd, &why);

	assert(r == 0 || r == SAVED_UNUSABLE);
	assert((r == 0) == (index_fd >= 0) && (r == 0 || why.text[0] != '\0'));
	if (r == 0)
		check_index(index_fd);
	close_fd(index_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_fd_ int fd = memfd_new("fuzz");
	size_t witness_bytes;

	if (size < 4)
		return 0;
	assert(fd >= 0);
	if (data[0] == 0) {
		assert(memfd_append(fd, data + 1, size - 1) == 0);
		check_file(fd);
		return 0;
	}
	witness_bytes = (size_t)data[2] | (size_t)data[3] << 8;
	if (witness_bytes > size - 4)
		witness_bytes = size - 4;

	struct saved_header header = {
		.magic = SAVED_INDEX_MAGIC,
		.rules = SAVED_INDEX_RULES,
		.witnesses = data[1],
		.key = KEY,
		.witness_bytes = witness_bytes,
		.index_bytes = size - 4 - witness_bytes,
		.witness_hash = XXH3_64bits(data + 4, witness_bytes),
		.index_hash = XXH3_64bits(data + 4 + witness_bytes, size - 4 - witness_bytes),
	};
	header.header_hash = XXH3_64bits(&header, offsetof(struct saved_header, header_hash));
	assert(memfd_append(fd, &header, sizeof(header)) == 0);
	assert(memfd_append(fd, data + 4, size - 4) == 0);
	check_file(fd);
	return 0;
}
