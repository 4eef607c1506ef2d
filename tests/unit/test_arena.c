/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's shared memory: its layout, its seals, and who may write it. */
#include "daemon/batch/arena.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct arena make(uint32_t slots, uint32_t batch_size, uint64_t row_bytes)
{
	struct arena_geometry geometry;
	struct arena arena = ARENA_NULL;

	assert_int_equal(arena_geometry_init(&geometry, slots, batch_size, row_bytes), 0);
	assert_int_equal(arena_create(&arena, &geometry), 0);
	return arena;
}

static void layout(void **state)
{
	static const struct {
		uint32_t slots, batch_size;
		uint64_t row_bytes, tensor_offset, slot_stride;
	} cases[] = {
		{1, 1, 1, 4096, 8192},
		{3, 64, 3136, 4096, 4096 + 49 * 4096},
		{8, 256, 784, 4096, 4096 + 49 * 4096}, /* the table fills its page exactly */
		{8, 257, 1, 8192, 8192 + 4096},        /* and one row more takes another */
		{2, 1, 4096, 4096, 8192},              /* so do the pixels */
		{2, 1, 4097, 4096, 4096 + 2 * 4096},
		{256, 65536, 12, 1 << 20, (1 << 20) + (768 << 10)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arena_geometry g;

		assert_int_equal(arena_geometry_init(&g, cases[i].slots, cases[i].batch_size,
					 cases[i].row_bytes),
			0);
		assert_int_equal(g.slots_offset, 4096);
		assert_int_equal(g.tensor_offset, cases[i].tensor_offset);
		assert_int_equal(g.slot_stride, cases[i].slot_stride);
		assert_int_equal(g.bytes, 4096 + cases[i].slots * cases[i].slot_stride);
		assert_true(arena_geometry_valid(&g));
	}
}

static void sizes_that_do_not_fit(void **state)
{
	struct arena_geometry g;

	(void)state;
	assert_int_equal(arena_geometry_init(&g, 0, 1, 1), -EINVAL);
	assert_int_equal(arena_geometry_init(&g, 1, 0, 1), -EINVAL);
	assert_int_equal(arena_geometry_init(&g, 1, 1, 0), -EINVAL);
	assert_int_equal(arena_geometry_init(&g, 1, 1, UINT64_MAX), -EOVERFLOW);
	assert_int_equal(arena_geometry_init(&g, 1, 2, UINT64_MAX / 2), -EOVERFLOW);
	assert_int_equal(arena_geometry_init(&g, 1, 2, UINT64_MAX / 2 - 4096), -EOVERFLOW);
	assert_int_equal(arena_geometry_init(&g, 1, 1, INT64_MAX), -EOVERFLOW); /* no off_t */
	assert_int_equal(arena_geometry_init(&g, UINT32_MAX, UINT32_MAX, 1 << 20), -EOVERFLOW);
	assert_int_equal(arena_geometry_init(&g, UINT32_MAX, 1, UINT64_C(1) << 32), -EOVERFLOW);
	assert_int_equal(arena_geometry_init(&g, 1, 1, INT64_MAX - 3 * 4096), 0);
}

static void a_bent_geometry_is_not_valid(void **state)
{
	struct arena_geometry good, bent;

	(void)state;
	assert_int_equal(arena_geometry_init(&good, 4, 64, 784), 0);
	bent = good;
	bent.slots = 5;
	assert_false(arena_geometry_valid(&bent));
	bent = good;
	bent.row_bytes = 785;
	bent.batch_size = 1 << 20;
	assert_false(arena_geometry_valid(&bent));
	bent = good;
	bent.tensor_offset += 4096;
	assert_false(arena_geometry_valid(&bent));
	bent = good;
	bent.slot_stride -= 4096;
	assert_false(arena_geometry_valid(&bent));
	bent = good;
	bent.slots_offset = 0;
	assert_false(arena_geometry_valid(&bent));
	bent = good;
	bent.bytes++;
	assert_false(arena_geometry_valid(&bent));
	memset(&bent, 0, sizeof(bent));
	assert_false(arena_geometry_valid(&bent));
	memset(&bent, 0xff, sizeof(bent));
	assert_false(arena_geometry_valid(&bent));
}

static void slots_and_rows_do_not_overlap(void **state)
{
	struct arena arena = make(3, 300, 100);
	const struct arena_geometry *g = &arena.geometry;

	(void)state;
	assert_ptr_equal(arena_rows(&arena, 0), arena.base + 4096);
	for (uint32_t slot = 0; slot < 3; slot++) {
		uint8_t *table = (uint8_t *)arena_rows(&arena, slot);

		assert_true(
			table + 300 * sizeof(struct batch_row) <= arena_pixels(&arena, slot, 0));
		assert_int_equal((arena_pixels(&arena, slot, 0) - arena.base) % 4096, 0);
		assert_ptr_equal(
			arena_pixels(&arena, slot, 299), arena_pixels(&arena, slot, 0) + 29900);
		if (slot < 2)
			assert_true(arena_pixels(&arena, slot, 299) + 100 <=
				    (uint8_t *)arena_rows(&arena, slot + 1));
		else
			assert_true(arena_pixels(&arena, slot, 299) + 100 <= arena.base + g->bytes);
	}
	arena_finish(&arena);
}

static void populated_and_sealed(void **state)
{
	struct arena arena = make(4, 64, 784);
	struct stat st;

	(void)state;
	assert_int_equal(fstat(arena.fd, &st), 0);
	assert_int_equal(st.st_size, arena.geometry.bytes);
	assert_int_equal(st.st_blocks, 0); /* nothing is taken yet */
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_int_equal(arena_populate(arena.fd, arena.geometry.bytes, NULL), 0);
	assert_int_equal(fstat(arena.fd, &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 >= arena.geometry.bytes);
	assert_int_equal(fcntl(arena.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_true(ftruncate(arena.fd, 0) < 0 && errno == EPERM);
	assert_true(ftruncate(arena.fd, (off_t)arena.geometry.bytes * 2) < 0 && errno == EPERM);
	assert_true(fcntl(arena.fd, F_ADD_SEALS, F_SEAL_WRITE) < 0 && errno == EPERM);
	memset(arena_pixels(&arena, 3, 63), 1, 784); /* the daemon and its workers write */
	arena_finish(&arena);
	arena_finish(&arena); /* again is harmless */
	assert_int_equal(arena.fd, -1);
	assert_null(arena.base);
}

static void memory_that_cannot_be_had(void **state)
{
	_cleanup_fd_ int fd = memfd_create("test", MFD_CLOEXEC);
	atomic_bool cancelled = true;

	(void)state;
	assert_int_equal(arena_populate(-1, 4096, NULL), -EBADF);
	/* Cancelled, so that a mistake in this check does not take all the memory there is. */
	assert_int_equal(arena_populate(fd, (uint64_t)INT64_MAX + 4096, &cancelled), -EINVAL);
	assert_int_equal(arena_populate(fd, 4096, NULL), -EPERM); /* it was made without sealing */
}

static void populating_stops_when_nobody_waits(void **state)
{
	struct arena arena = make(4, 64, 784);
	atomic_bool cancelled = true;
	struct stat st;

	(void)state;
	assert_int_equal(arena_populate(arena.fd, arena.geometry.bytes, &cancelled), -ECANCELED);
	assert_int_equal(fstat(arena.fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
	cancelled = false;
	assert_int_equal(arena_populate(arena.fd, arena.geometry.bytes, &cancelled), 0);
	arena_finish(&arena);
}

static void header_repeats_the_geometry(void **state)
{
	struct arena arena = make(4, 64, 784);
	struct batch_arena_header header;

	(void)state;
	assert_int_equal(arena_populate(arena.fd, arena.geometry.bytes, NULL), 0);
	arena_write_header(&arena);
	memcpy(&header, arena.base, sizeof(header));
	assert_memory_equal(arena.base, "STKARENA", 8);
	assert_int_equal(header.version, BATCH_ARENA_VERSION);
	assert_int_equal(header.slots, 4);
	assert_int_equal(header.slots_offset, arena.geometry.slots_offset);
	assert_int_equal(header.slot_stride, arena.geometry.slot_stride);
	assert_int_equal(header.tensor_offset, arena.geometry.tensor_offset);
	assert_int_equal(header.row_bytes, 784);
	assert_int_equal(header.batch_size, 64);
	assert_int_equal(header.reserved, 0);
	arena_finish(&arena);
}

static void the_clients_descriptor_is_read_only(void **state)
{
	struct arena arena = make(2, 4, 16);
	size_t bytes = arena.geometry.bytes;
	uint8_t *map;
	int fd;

	(void)state;
	assert_int_equal(arena_populate(arena.fd, bytes, NULL), 0);
	fd = arena_open_readonly(&arena);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	errno = 0;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map == MAP_FAILED && errno == EACCES);
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	assert_true(mprotect(map, bytes, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
	assert_true(write(fd, "x", 1) < 0 && errno == EBADF);
	*arena_pixels(&arena, 1, 3) = 123; /* it is the same memory */
	assert_int_equal(map[arena_pixels(&arena, 1, 3) - arena.base], 123);
	/* and it outlives the daemon's end of it */
	arena_finish(&arena);
	assert_int_equal(map[arena.geometry.slots_offset + arena.geometry.slot_stride +
				 arena.geometry.tensor_offset + 3 * 16],
		123);
	munmap(map, bytes);
	close(fd);
}

static void a_worker_attaches(void **state)
{
	struct arena arena = make(2, 4, 16), worker = ARENA_NULL;

	(void)state;
	assert_int_equal(arena_populate(arena.fd, arena.geometry.bytes, NULL), 0);
	assert_int_equal(arena_attach_consume_fd(&worker, &arena.geometry, dup(arena.fd)), 0);
	assert_int_equal(worker.fd, -1); /* a mapping is all that it needs */
	*arena_pixels(&worker, 1, 2) = 77;
	assert_int_equal(*arena_pixels(&arena, 1, 2), 77);
	arena_finish(&worker);
	arena_finish(&arena);
}

static void a_wrong_arena_is_refused_and_closed(void **state)
{
	struct arena arena = make(2, 4, 16), worker = ARENA_NULL;
	struct arena_geometry other;
	int fd = dup(arena.fd);

	(void)state;
	assert_int_equal(arena_geometry_init(&other, 3, 4, 16), 0);
	assert_int_equal(arena_attach_consume_fd(&worker, &other, fd), -EBADMSG);
	assert_true(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	assert_null(worker.base);

	other = arena.geometry;
	other.slot_stride = 0;
	fd = dup(arena.fd);
	assert_int_equal(arena_attach_consume_fd(&worker, &other, fd), -EBADMSG);
	assert_true(fcntl(fd, F_GETFD) < 0 && errno == EBADF);

	fd = arena_open_readonly(&arena); /* of no use to a worker */
	assert_int_equal(arena_attach_consume_fd(&worker, &arena.geometry, fd), -EACCES);
	assert_true(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	assert_int_equal(arena_attach_consume_fd(&worker, &arena.geometry, -1), -EBADF);
	arena_finish(&worker);
	arena_finish(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(sizes_that_do_not_fit),
		cmocka_unit_test(a_bent_geometry_is_not_valid),
		cmocka_unit_test(slots_and_rows_do_not_overlap),
		cmocka_unit_test(populated_and_sealed),
		cmocka_unit_test(memory_that_cannot_be_had),
		cmocka_unit_test(populating_stops_when_nobody_waits),
		cmocka_unit_test(header_repeats_the_geometry),
		cmocka_unit_test(the_clients_descriptor_is_read_only),
		cmocka_unit_test(a_worker_attaches),
		cmocka_unit_test(a_wrong_arena_is_refused_and_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
