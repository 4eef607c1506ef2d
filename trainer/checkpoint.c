/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/checkpoint.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	VERSION = 1,
	HEADER_BYTES = 96,
	CHECKSUM_BYTES = 8,
	FLAG_SHUFFLE = 1,
	FLAG_SHARD_DROP = 2,
	FLAG_DROP_LAST = 4,
};

static const char magic[8] = "stokerCP";

struct header {
	char magic[8];
	uint32_t version, bytes;
	uint32_t inputs, hidden, classes, flags;
	uint64_t epoch, position, seed;
	uint32_t rank, world;
	uint64_t fingerprint, count, zero[2];
};

_Static_assert(sizeof(struct header) == HEADER_BYTES, "the header has no gaps");

static uint64_t fnv1a(uint64_t hash, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * 0x100000001b3u;
	return hash;
}

static uint64_t checksum(const struct header *header, const uint32_t *weights, size_t count)
{
	uint64_t hash = fnv1a(0xcbf29ce484222325u, header, sizeof(*header));

	return htole64(fnv1a(hash, weights, count * sizeof(*weights)));
}

/* Floats are stored as their bits; on a big-endian machine they are turned in place. */
static void swap_weights(uint32_t *bits, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bits[i] = htole32(bits[i]);
}

static int read_all(int fd, void *to, size_t bytes)
{
	char *at = to;

	while (bytes > 0) {
		ssize_t n = read(fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const void *from, size_t bytes)
{
	const char *at = from;

	while (bytes > 0) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static void encode(struct header *header, const struct checkpoint *checkpoint)
{
	const struct stoker_cursor *cursor = &checkpoint->cursor;

	*header = (struct header){
		.version = htole32(VERSION),
		.bytes = htole32(HEADER_BYTES),
		.inputs = htole32(checkpoint->inputs),
		.hidden = htole32(checkpoint->hidden),
		.classes = htole32(checkpoint->classes),
		.flags = htole32((cursor->shuffle ? FLAG_SHUFFLE : 0) |
				 (cursor->shard_drop ? FLAG_SHARD_DROP : 0) |
				 (cursor->drop_last ? FLAG_DROP_LAST : 0)),
		.epoch = htole64(cursor->epoch),
		.position = htole64(cursor->position),
		.seed = htole64(cursor->seed),
		.rank = htole32(cursor->rank),
		.world = htole32(cursor->world),
		.fingerprint = htole64(cursor->fingerprint),
		.count = htole64(checkpoint->count),
	};
	memcpy(header->magic, magic, sizeof(magic));
}

static void decode(struct checkpoint *checkpoint, const struct header *header)
{
	uint32_t flags = le32toh(header->flags);

	checkpoint->inputs = le32toh(header->inputs);
	checkpoint->hidden = le32toh(header->hidden);
	checkpoint->classes = le32toh(header->classes);
	checkpoint->count = le64toh(header->count);
	checkpoint->cursor = (struct stoker_cursor){
		.epoch = le64toh(header->epoch),
		.position = le64toh(header->position),
		.seed = le64toh(header->seed),
		.shuffle = flags & FLAG_SHUFFLE,
		.rank = le32toh(header->rank),
		.world = le32toh(header->world),
		.shard_drop = flags & FLAG_SHARD_DROP,
		.drop_last = flags & FLAG_DROP_LAST,
		.fingerprint = le64toh(header->fingerprint),
	};
}

/* Does the header describe exactly a file of `size` bytes? */
static int header_check(
	const char *path, const struct header *header, uint64_t size, struct problem *problem)
{
	uint64_t weights = le64toh(header->count);

	if (memcmp(header->magic, magic, sizeof(magic)) != 0)
		return problem_set(problem, -EBADMSG, "%s: not a checkpoint of stoker-train", path);
	if (le32toh(header->version) != VERSION || le32toh(header->bytes) != HEADER_BYTES)
		return problem_set(problem, -EBADMSG,
			"%s: a checkpoint of version %u; this stoker-train reads version %d", path,
			le32toh(header->version), VERSION);
	if (weights > (size - HEADER_BYTES) / sizeof(float) ||
		HEADER_BYTES + weights * sizeof(float) + CHECKSUM_BYTES != size)
		return problem_set(problem, -EBADMSG,
			"%s: damaged: %llu bytes long, but its header speaks of %llu weights", path,
			(unsigned long long)size, (unsigned long long)weights);
	return 0;
}

static int load_from(
	int fd, const char *path, struct checkpoint *checkpoint, struct problem *problem)
{
	struct header header;
	struct stat status;
	uint64_t sum = 0;
	int r;

	if (fstat(fd, &status) < 0)
		return problem_set(problem, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode) || status.st_size < HEADER_BYTES)
		return problem_set(problem, -EBADMSG, "%s: not a checkpoint of stoker-train", path);
	r = read_all(fd, &header, sizeof(header));
	if (r < 0)
		return problem_set(problem, r, "%s: cannot be read: %s", path, strerror(-r));
	r = header_check(path, &header, (uint64_t)status.st_size, problem);
	if (r < 0)
		return r;
	decode(checkpoint, &header);
	checkpoint->weights = calloc(checkpoint->count + 1, sizeof(float));
	if (!checkpoint->weights)
		return problem_set(problem, -ENOMEM, "%s: out of memory", path);
	r = read_all(fd, checkpoint->weights, checkpoint->count * sizeof(float));
	if (r == 0)
		r = read_all(fd, &sum, sizeof(sum));
	if (r < 0)
		return problem_set(problem, r, "%s: cannot be read: %s", path, strerror(-r));
	if (sum != checksum(&header, (uint32_t *)checkpoint->weights, checkpoint->count))
		return problem_set(problem, -EBADMSG, "%s: damaged: its checksum is wrong", path);
	swap_weights((uint32_t *)checkpoint->weights, checkpoint->count);
	return 0;
}

int checkpoint_load(const char *path, struct checkpoint *checkpoint, struct problem *problem)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), r;

	*checkpoint = (struct checkpoint)CHECKPOINT_NULL;
	if (fd < 0 && errno == ENOENT)
		return CHECKPOINT_NONE;
	if (fd < 0)
		return problem_set(problem, -errno, "%s: %s", path, strerror(errno));
	r = load_from(fd, path, checkpoint, problem);
	close(fd);
	if (r < 0)
		checkpoint_finish(checkpoint);
	return r;
}

static int save_to(int fd, const struct checkpoint *checkpoint)
{
	size_t bytes = checkpoint->count * sizeof(float);
	uint32_t *bits = malloc(bytes + sizeof(uint64_t));
	struct header header;
	uint64_t sum;
	int r;

	if (!bits)
		return -ENOMEM;
	memcpy(bits, checkpoint->weights, bytes);
	swap_weights(bits, checkpoint->count);
	encode(&header, checkpoint);
	sum = checksum(&header, bits, checkpoint->count);
	memcpy((char *)bits + bytes, &sum, sizeof(sum));
	r = write_all(fd, &header, sizeof(header));
	if (r == 0)
		r = write_all(fd, bits, bytes + sizeof(sum));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	free(bits);
	return r;
}

/* The new name itself must reach the disk too. */
static int sync_folder(const char *path)
{
	char copy[PATH_MAX];
	int fd, r = 0;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0 && errno != EINVAL)
		r = -errno;
	close(fd);
	return r;
}

static int open_temporary(const char *path, char *name, struct problem *problem)
{
	int fd, length = snprintf(name, PATH_MAX, "%s.tmp", path);

	if (length >= PATH_MAX)
		return problem_set(problem, -ENAMETOOLONG, "%s: the path is too long", path);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return problem_set(
			problem, -errno, "%s: cannot be written: %s", name, strerror(errno));
	return fd;
}

int checkpoint_probe(const char *path, struct problem *problem)
{
	char name[PATH_MAX];
	int fd = open_temporary(path, name, problem);

	if (fd < 0)
		return fd;
	close(fd);
	unlink(name);
	return 0;
}

int checkpoint_save(const char *path, const struct checkpoint *checkpoint, struct problem *problem)
{
	char name[PATH_MAX];
	int fd = open_temporary(path, name, problem), r;

	if (fd < 0)
		return fd;
	r = save_to(fd, checkpoint);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(name, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(name);
		return problem_set(problem, r, "%s: cannot be written: %s", path, strerror(-r));
	}
	r = sync_folder(path);
	if (r < 0)
		return problem_set(
			problem, r, "%s: its folder cannot be synced: %s", path, strerror(-r));
	return 0;
}

void checkpoint_finish(struct checkpoint *checkpoint)
{
	free(checkpoint->weights);
	checkpoint->weights = NULL;
}
