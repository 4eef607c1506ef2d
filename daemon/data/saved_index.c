/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/saved_index.h"

#include "daemon/data/memfd.h"
#include "daemon/util/checked.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

enum { COPY_BYTES = 256 * 1024 };

#define WITNESS_BYTES_MAX (UINT64_C(1) << 30)

/* ---- what an index depends on ---- */

static uint64_t hash_text(const char *text, uint64_t seed)
{
	return XXH3_64bits_withSeed(text, strlen(text) + 1, seed);
}

uint64_t saved_index_key(
	const struct dataset_request *request, const char *const *roots, size_t root_count)
{
	const struct dataset_options *options = &request->options;
	const uint64_t numbers[] = {INDEX_MAGIC, request->max_pixels, root_count,
		options->take_hidden, options->allow_empty, options->classes != NULL};
	uint64_t key = XXH3_64bits(numbers, sizeof(numbers));

	key = hash_text(request->path, key);
	if (options->classes != NULL)
		key = hash_text(options->classes, key);
	for (size_t i = 0; i < root_count; i++)
		key = hash_text(roots[i], key);
	return key;
}

static uint64_t hash_header(const struct saved_header *header)
{
	return XXH3_64bits(header, offsetof(struct saved_header, header_hash));
}

/* ---- writing ---- */

static int write_header(int fd, const struct saved_header *header)
{
	ssize_t n;

	do {
		n = pwrite(fd, header, sizeof(*header), 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == sizeof(*header) ? 0 : -EIO;
}

int saved_index_write(int fd, uint64_t key, const struct witness_list *witnesses, int index_fd)
{
	static const struct saved_header unfinished;
	struct saved_header header = {
		.magic = SAVED_INDEX_MAGIC,
		.rules = SAVED_INDEX_RULES,
		.witnesses = witnesses->count,
		.key = key,
		.witness_bytes = witnesses->used,
		.witness_hash = XXH3_64bits(witnesses->bytes, witnesses->used),
	};
	struct stat st;
	void *index;
	int r;

	if (fstat(index_fd, &st) < 0)
		return -errno;
	header.index_bytes = (uint64_t)st.st_size;
	index = mmap(NULL, header.index_bytes, PROT_READ, MAP_SHARED, index_fd, 0);
	if (index == MAP_FAILED)
		return -errno;
	header.index_hash = XXH3_64bits(index, header.index_bytes);
	header.header_hash = hash_header(&header);
	r = memfd_append(fd, &unfinished, sizeof(unfinished));
	if (r == 0)
		r = memfd_append(fd, witnesses->bytes, witnesses->used);
	if (r == 0)
		r = memfd_append(fd, index, header.index_bytes);
	if (r == 0)
		r = write_header(fd, &header);
	munmap(index, header.index_bytes);
	return r;
}

/* ---- reading ---- */

static int unusable(struct error_text *why, const char *reason)
{
	return error_set(why, SAVED_UNUSABLE, "%s", reason);
}

/* Exactly `length` bytes, or SAVED_UNUSABLE. */
static int read_all(int fd, void *bytes, size_t length, uint64_t offset, struct error_text *why)
{
	for (size_t done = 0; done < length;) {
		ssize_t n =
			pread(fd, (uint8_t *)bytes + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return unusable(why, strerror(errno));
		if (n == 0)
			return unusable(why, "it is cut");
		done += (size_t)n;
	}
	return 0;
}

static int read_header(int fd, uint64_t key, struct saved_header *header, struct error_text *why)
{
	uint64_t bytes = sizeof(*header);
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return unusable(why, strerror(errno));
	r = read_all(fd, header, sizeof(*header), 0, why);
	if (r != 0)
		return r;
	if (header->magic != SAVED_INDEX_MAGIC)
		return unusable(why, "it is not finished, or no saved index of this version");
	if (header->header_hash != hash_header(header) ||
		header->witness_bytes > WITNESS_BYTES_MAX ||
		!checked_add(bytes, header->witness_bytes, &bytes) ||
		!checked_add(bytes, header->index_bytes, &bytes) || bytes != (uint64_t)st.st_size)
		return unusable(why, "it is damaged");
	if (header->rules != SAVED_INDEX_RULES)
		return unusable(why, "it was made by another version");
	if (header->key != key)
		return unusable(why, "it was made from another path or with other options");
	return 0;
}

static int check_witnesses(int fd, const struct saved_header *header, struct error_text *why)
{
	_cleanup_free_ uint8_t *bytes = malloc(header->witness_bytes + 1);
	int r;

	if (bytes == NULL)
		return -ENOMEM;
	r = read_all(fd, bytes, header->witness_bytes, sizeof(*header), why);
	if (r != 0)
		return r;
	if (XXH3_64bits(bytes, header->witness_bytes) != header->witness_hash)
		return unusable(why, "it is damaged");
	switch (witness_check(bytes, header->witness_bytes, header->witnesses, why)) {
	case 0: return 0;
	case WITNESS_CHANGED: return SAVED_UNUSABLE;
	default: return unusable(why, "it is damaged");
	}
}

static int copy_index(
	int fd, const struct saved_header *header, int index_fd, struct error_text *why)
{
	uint64_t from = sizeof(*header) + header->witness_bytes, done = 0;
	_cleanup_free_ uint8_t *buffer = malloc(COPY_BYTES);
	XXH3_state_t *hash = XXH3_createState();
	int r = 0;

	if (buffer == NULL || hash == NULL) {
		XXH3_freeState(hash);
		return -ENOMEM;
	}
	XXH3_64bits_reset(hash);
	while (r == 0 && done < header->index_bytes) {
		uint64_t left = header->index_bytes - done;
		size_t length = left < COPY_BYTES ? (size_t)left : COPY_BYTES;

		r = read_all(fd, buffer, length, from + done, why);
		if (r == 0)
			r = memfd_append(index_fd, buffer, length);
		if (r == 0)
			XXH3_64bits_update(hash, buffer, length);
		done += length;
	}
	if (r == 0 && XXH3_64bits_digest(hash) != header->index_hash)
		r = unusable(why, "it is damaged");
	XXH3_freeState(hash);
	return r;
}

int saved_index_read(int fd, uint64_t key, int *index_fd, struct error_text *why)
{
	struct saved_header header;
	_cleanup_fd_ int copy = -1;
	int r = read_header(fd, key, &header, why);

	if (r == 0)
		r = check_witnesses(fd, &header, why);
	if (r != 0)
		return r;
	copy = memfd_new("stoker-index");
	if (copy < 0)
		return copy;
	r = copy_index(fd, &header, copy, why);
	if (r == 0)
		r = memfd_seal(copy);
	if (r == 0)
		*index_fd = steal_fd(&copy);
	return r;
}
