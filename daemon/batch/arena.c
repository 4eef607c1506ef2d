/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/batch/arena.h"

#include "daemon/util/checked.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

int arena_geometry_init(
	struct arena_geometry *geometry, uint32_t slots, uint32_t batch_size, uint64_t row_bytes)
{
	uint64_t table, pixels, all;

	if (slots == 0 || batch_size == 0 || row_bytes == 0)
		return -EINVAL;
	memset(geometry, 0, sizeof(*geometry));
	geometry->slots = slots;
	geometry->batch_size = batch_size;
	geometry->row_bytes = row_bytes;
	geometry->slots_offset = BATCH_ARENA_PAGE;
	table = (uint64_t)batch_size * sizeof(struct batch_row);
	if (!checked_align(table, BATCH_ARENA_PAGE, &geometry->tensor_offset) ||
		!checked_mul(batch_size, row_bytes, &pixels) ||
		!checked_add(geometry->tensor_offset, pixels, &geometry->slot_stride) ||
		!checked_align(geometry->slot_stride, BATCH_ARENA_PAGE, &geometry->slot_stride) ||
		!checked_mul(slots, geometry->slot_stride, &all) ||
		!checked_add(all, geometry->slots_offset, &geometry->bytes) ||
		geometry->bytes > INT64_MAX)
		return -EOVERFLOW;
	return 0;
}

bool arena_geometry_valid(const struct arena_geometry *geometry)
{
	struct arena_geometry same;

	return arena_geometry_init(
		       &same, geometry->slots, geometry->batch_size, geometry->row_bytes) == 0 &&
	       memcmp(&same, geometry, sizeof(same)) == 0;
}

static int arena_map(struct arena *arena, int fd)
{
	void *base = mmap(NULL, arena->geometry.bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	arena->base = base;
	return 0;
}

int arena_create(struct arena *arena, const struct arena_geometry *geometry)
{
	int r;

	arena->geometry = *geometry;
	arena->base = NULL;
	arena->fd = memfd_create("stoker-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (arena->fd < 0)
		return -errno;
	if (ftruncate(arena->fd, (off_t)geometry->bytes) < 0 || fchmod(arena->fd, 0400) < 0) {
		r = -errno;
		arena_finish(arena);
		return r;
	}
	r = arena_map(arena, arena->fd);
	if (r < 0)
		arena_finish(arena);
	return r;
}

int arena_populate(int fd, uint64_t bytes, const atomic_bool *cancelled)
{
	enum { PIECE = 64 << 20 };

	if (bytes > INT64_MAX)
		return -EINVAL;
	for (uint64_t done = 0; done < bytes;) {
		uint64_t piece = bytes - done < PIECE ? bytes - done : PIECE;

		if (cancelled != NULL && atomic_load(cancelled))
			return -ECANCELED;
		if (fallocate(fd, 0, (off_t)done, (off_t)piece) == 0)
			done += piece;
		else if (errno != EINTR)
			return -errno;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return 0;
}

void arena_write_header(struct arena *arena)
{
	const struct arena_geometry *g = &arena->geometry;
	struct batch_arena_header header = {
		.magic = BATCH_ARENA_MAGIC,
		.version = BATCH_ARENA_VERSION,
		.slots = g->slots,
		.slots_offset = g->slots_offset,
		.slot_stride = g->slot_stride,
		.tensor_offset = g->tensor_offset,
		.row_bytes = g->row_bytes,
		.batch_size = g->batch_size,
	};

	memcpy(arena->base, &header, sizeof(header));
}

int arena_open_readonly(const struct arena *arena)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", arena->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void arena_finish(struct arena *arena)
{
	if (arena->base != NULL)
		munmap(arena->base, arena->geometry.bytes);
	arena->base = NULL;
	arena->fd = close_fd(arena->fd);
}

int arena_attach_consume_fd(struct arena *arena, const struct arena_geometry *geometry, int fd)
{
	_cleanup_fd_ int owned = fd;
	struct stat st;

	arena->fd = -1;
	arena->base = NULL;
	if (!arena_geometry_valid(geometry))
		return -EBADMSG;
	if (fstat(owned, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != geometry->bytes)
		return -EBADMSG;
	arena->geometry = *geometry;
	return arena_map(arena, owned);
}
