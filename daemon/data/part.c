/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/part.h"

#include "daemon/data/memfd.h"
#include "daemon/data/order.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <xxhash.h>

enum {
	PART_SEED = 0,
	WRITE_SAMPLES = 16384, /* written at a time */
};

uint64_t part_position(const struct part *part, uint64_t sample)
{
	uint64_t low = 0, high = part->count - 1;

	if (part->samples == NULL)
		return sample < part->count ? sample : high;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (part->samples[middle] < sample)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A bit for each sample that is in the part. */
static int mark(uint8_t *chosen, uint64_t samples, uint64_t first, uint64_t end)
{
	const struct order_params params = {
		.samples = samples, .shuffle = true, .seed = PART_SEED, .world = 1};
	struct order order = ORDER_NULL;
	int r = order_init(&order, &params);

	for (uint64_t at = first; r == 0 && at < end; at++) {
		uint64_t sample = order_at(&order, at);

		chosen[sample / 8] |= (uint8_t)(1 << sample % 8);
	}
	order_finish(&order);
	return r;
}

static int write_marked(int fd, const uint8_t *chosen, uint64_t samples)
{
	_cleanup_free_ uint32_t *buffer = malloc(WRITE_SAMPLES * sizeof(*buffer));
	size_t used = 0;
	int r = buffer == NULL ? -ENOMEM : 0;

	for (uint64_t i = 0; r == 0 && i < samples; i++) {
		if ((chosen[i / 8] >> i % 8 & 1) == 0)
			continue;
		buffer[used++] = (uint32_t)i;
		if (used == WRITE_SAMPLES) {
			r = memfd_append(fd, buffer, used * sizeof(*buffer));
			used = 0;
		}
	}
	return r == 0 ? memfd_append(fd, buffer, used * sizeof(*buffer)) : r;
}

uint64_t part_draw_memory(uint64_t samples)
{
	return samples * sizeof(uint32_t) + samples / 8 + 1;
}

int part_draw(uint64_t samples, uint64_t first, uint64_t end)
{
	_cleanup_free_ uint8_t *chosen = NULL;
	_cleanup_fd_ int fd = -1;
	int r;

	if (samples > ORDER_SAMPLES_MAX || end > samples || first >= end)
		return -EINVAL;
	chosen = calloc(samples / 8 + 1, 1);
	if (chosen == NULL)
		return -ENOMEM;
	fd = memfd_new("stoker-part");
	if (fd < 0)
		return fd;
	r = mark(chosen, samples, first, end);
	if (r == 0)
		r = write_marked(fd, chosen, samples);
	if (r == 0)
		r = memfd_seal(fd);
	return r < 0 ? r : steal_fd(&fd);
}

static int bad(struct error_text *error, const char *what)
{
	return error_set(error, -EBADMSG, "part of a data set: %s", what);
}

int part_map(struct part *part, int fd, uint64_t count, uint64_t samples, struct error_text *error)
{
	int seals = fcntl(fd, F_GET_SEALS), needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	size_t bytes = count * sizeof(*part->samples);
	struct stat st;
	void *map;

	*part = (struct part){.samples = NULL};
	if (seals < 0 || (seals & needed) != needed)
		return bad(error, "not sealed");
	if (fstat(fd, &st) < 0)
		return error_set(error, -errno, "part of a data set: fstat: %s", strerror(errno));
	if (count == 0 || count > samples || (uint64_t)st.st_size != bytes)
		return bad(error, "its size is not that of its samples");
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return error_set(error, -errno, "part of a data set: mmap: %s", strerror(errno));
	part->samples = map;
	part->count = count;
	for (uint64_t i = 0; i < count; i++) {
		if (part->samples[i] >= samples ||
			(i > 0 && part->samples[i] <= part->samples[i - 1])) {
			part_unmap(part);
			return bad(error, "samples out of range or order");
		}
	}
	return 0;
}

void part_unmap(struct part *part)
{
	if (part->samples != NULL)
		munmap((void *)part->samples, part->count * sizeof(*part->samples));
	*part = (struct part){.samples = NULL};
}

uint64_t part_fingerprint(uint64_t index, uint64_t samples, uint64_t first, uint64_t end)
{
	const uint64_t bounds[] = {first, end};
	uint64_t upper = UINT64_MAX << 32;

	if (first == 0 && end == samples)
		return index;
	return (index & upper) | (XXH3_64bits_withSeed(bounds, sizeof(bounds), index) & ~upper);
}
