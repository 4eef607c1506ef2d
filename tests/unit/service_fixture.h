/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A service as stokerd runs it, without workers (rows are rendered in this process) and with data
 * sets that are made in memory, and a client's end of a connection to it. For test_session and
 * fuzz_session.
 *
 *   "d"  SAMPLES pictures of 4x3, L, in CLASSES classes; sample i has label i % CLASSES and each
 *        pixel is its number
 *   "b"  the same, but samples from GOOD_SAMPLES on cannot be read
 *   "f"  a folder that is not there
 *   "l"  one picture that is larger than a connection's queue as RGB and f32
 *   "i"  indexing, until the service ends
 */
#include "daemon/data/memfd.h"
#include "daemon/serve/served_stream.h"
#include "daemon/serve/session.h"
#include "daemon/util/log.h"
#include "daemon/util/ownership.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum {
	SAMPLES = 10,
	GOOD_SAMPLES = 6,
	CLASSES = 3,
	WIDTH = 4,
	HEIGHT = 3,
	PIXELS = WIDTH * HEIGHT,
	LARGE_SIDE = 512,
	MEMORY = 8 << 20,
	TURNS_MAX = 20000, /* a loop that is not quiet by then spins */
};

struct service_fixture {
	uv_loop_t loop;
	struct service service;
	bool pool_stopped;
};

static inline int memfd_of(const void *bytes, size_t length)
{
	int fd = memfd_new("test");

	assert(fd >= 0 && memfd_append(fd, bytes, length) == 0 && memfd_seal(fd) == 0);
	return fd;
}

static inline void add_classes(struct index_builder *builder)
{
	for (int i = 0; i < CLASSES; i++)
		assert(index_add_class(builder, &"abc"[i], 1) == 0);
}

/* `count` pictures of width x height, L, one after the other. */
static inline int build_idx_index(int count, uint32_t width, uint32_t height)
{
	struct index_builder builder = INDEX_BUILDER_NULL;
	int fd;

	builder.header.kind = INDEX_IDX;
	builder.header.width = width;
	builder.header.height = height;
	builder.header.channels = 1;
	builder.header.data_in_memfd = 1;
	builder.header.data_bytes = (uint64_t)count * width * height;
	assert(index_set_root(&builder, "/in/memory", 10) == 0);
	add_classes(&builder);
	for (int i = 0; i < count; i++)
		assert(index_add_range(&builder, (uint64_t)i * width * height, width * height,
			       i % CLASSES) == 0);
	fd = index_builder_seal(&builder);
	assert(fd >= 0);
	index_builder_finish(&builder);
	return fd;
}

static inline int build_folder_index(void)
{
	struct index_builder builder = INDEX_BUILDER_NULL;
	int fd;

	builder.header.kind = INDEX_FOLDER;
	builder.header.width = WIDTH;
	builder.header.height = HEIGHT;
	builder.header.channels = 3;
	assert(index_set_root(&builder, "/not/there", 10) == 0);
	add_classes(&builder);
	for (int i = 0; i < SAMPLES; i++)
		assert(index_add_path(&builder, "a/\xff\n.png", 8, i % CLASSES) == 0);
	fd = index_builder_seal(&builder);
	assert(fd >= 0);
	index_builder_finish(&builder);
	return fd;
}

static inline int build_data(int samples)
{
	uint8_t pixels[SAMPLES * PIXELS];

	for (int i = 0; i < SAMPLES * PIXELS; i++)
		pixels[i] = (uint8_t)(i / PIXELS);
	return memfd_of(pixels, (size_t)samples * PIXELS);
}

static inline int build_large_data(void)
{
	int fd = memfd_new("test");

	assert(fd >= 0 && ftruncate(fd, LARGE_SIDE * LARGE_SIDE) == 0 && memfd_seal(fd) == 0);
	return fd;
}

static inline struct dataset *add_dataset(struct catalog *catalog, const char *name)
{
	struct dataset *dataset = calloc(1, sizeof(*dataset));

	assert(dataset && catalog->datasets);
	dataset->references = 1;
	dataset->catalog = catalog;
	dataset->index_fd = dataset->data_fd = -1;
	dataset->store = (struct index_store)INDEX_STORE_NULL;
	dataset->name = strdup(name);
	dataset->path = strdup("/in/memory");
	assert(dataset->name && dataset->path);
	catalog->datasets[catalog->count++] = dataset;
	return dataset;
}

static inline void make_ready(struct dataset *dataset, int index_fd, int data_fd)
{
	dataset->index_fd = index_fd;
	dataset->data_fd = data_fd;
	dataset->state = DATASET_STATE_READY;
	assert(index_map(&dataset->index, index_fd, true, NULL) == 0);
	dataset->found = dataset->index.header->samples;
}

static inline void on_service_idle(struct service *service)
{
	(void)service; /* the fixture runs the loop until it is empty */
}

static inline void on_service_broken(struct service *service, const char *why)
{
	(void)service;
	(void)why;
	assert(!"no worker is ever started");
}

static inline void on_fixture_pool_stopped(void *data)
{
	struct service_fixture *fixture = ((struct service *)data)->loop->data;

	fixture->pool_stopped = true;
}

static inline void fixture_start(struct service_fixture *fixture)
{
	struct catalog *catalog = &fixture->service.catalog;

	fixture->pool_stopped = false;
	assert(uv_loop_init(&fixture->loop) == 0);
	fixture->loop.data = fixture;
	assert(service_init(&fixture->service, &fixture->loop, "test") == 0);
	fixture->service.on_idle = on_service_idle;
	fixture->service.on_broken = on_service_broken;
	fixture->service.budget.limit = MEMORY;
	catalog->datasets = calloc(5, sizeof(struct dataset *));
	make_ready(add_dataset(catalog, "d"), build_idx_index(SAMPLES, WIDTH, HEIGHT),
		build_data(SAMPLES));
	make_ready(add_dataset(catalog, "b"), build_idx_index(SAMPLES, WIDTH, HEIGHT),
		build_data(GOOD_SAMPLES));
	make_ready(add_dataset(catalog, "f"), build_folder_index(), -1);
	make_ready(add_dataset(catalog, "l"), build_idx_index(1, LARGE_SIDE, LARGE_SIDE),
		build_large_data());
	add_dataset(catalog, "i")->state = DATASET_STATE_INDEXING;
}

/* A client's end of a new connection, non-blocking. */
static inline int fixture_connect(struct service_fixture *fixture)
{
	int pair[2];

	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	session_start_consume_fd(&fixture->service, pair[0]);
	return pair[1];
}

/* One turn of the loop; waits only for a thread of libuv's. */
static inline void fixture_turn(struct service_fixture *fixture)
{
	uv_run(&fixture->loop, fixture->loop.active_reqs.count > 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

/* Has the loop nothing to do until something comes from outside? To be asked after a turn. */
static inline bool fixture_is_quiet(const struct service_fixture *fixture)
{
	struct pollfd pending = {.fd = uv_backend_fd(&fixture->loop), .events = POLLIN};

	if (!uv_loop_alive(&fixture->loop))
		return true;
	return fixture->loop.active_reqs.count == 0 && uv_backend_timeout(&fixture->loop) != 0 &&
	       poll(&pending, 1, 0) == 0;
}

/* Run the loop until it is quiet and `more` (which may be NULL) has nothing to add. */
static inline void fixture_settle(
	struct service_fixture *fixture, bool (*more)(void *data), void *data)
{
	int turns = 0;
	bool any;

	do {
		fixture_turn(fixture);
		any = more != NULL && more(data);
		assert(++turns < TURNS_MAX);
	} while (any || !fixture_is_quiet(fixture));
}

/* The daemon's end, as SIGTERM makes it. Nothing may be left. `more` is as in fixture_settle. */
static inline void fixture_finish(
	struct service_fixture *fixture, bool (*more)(void *data), void *data)
{
	struct service *service = &fixture->service;

	service->stopping = true;
	while (service->sessions != NULL)
		session_dismiss(service->sessions);
	pool_stop(&service->pool, on_fixture_pool_stopped);
	assert(fixture->pool_stopped);
	while (service->stream_count > 0) {
		fixture_turn(fixture);
		if (more != NULL)
			more(data);
	}
	service_finish(service);
	uv_run(&fixture->loop, UV_RUN_DEFAULT);
	assert(service->budget.used == 0 && service->session_count == 0);
	assert(uv_loop_close(&fixture->loop) == 0);
}
