/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"
#include "proto/batch_layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where things lie in a stream's shared memory; the layout is drawn in proto/batch_layout.h. */
struct arena_geometry {
	uint32_t slots;
	uint32_t batch_size;
	uint64_t row_bytes;     /* pixels of one sample */
	uint64_t slots_offset;  /* of slot 0 */
	uint64_t tensor_offset; /* of the pixels in a slot */
	uint64_t slot_stride;
	uint64_t bytes; /* of the whole arena */
};

/* Compute the layout: 0, -EINVAL (a zero), -EOVERFLOW. */
int arena_geometry_init(
	struct arena_geometry *geometry, uint32_t slots, uint32_t batch_size, uint64_t row_bytes);

/* Is this what arena_geometry_init gives? For a geometry that crossed a socket. */
bool arena_geometry_valid(const struct arena_geometry *geometry);

/*
 * The memory itself: a memfd of mode 0400, mapped here for reading and writing.
 *
 *   arena_create(&arena, &geometry)   reserves nothing yet
 *   arena_populate(arena.fd, ...)     takes the memory (0.2 s per GiB: call it off the loop), seals
 *   arena_open_readonly(&arena)       a descriptor for the client, which cannot map it writable
 *
 * Populating before anybody writes means that memory never runs out later, as a SIGBUS.
 */
struct arena {
	int fd;
	uint8_t *base;
	struct arena_geometry geometry;
};

#define ARENA_NULL                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}

int arena_create(struct arena *arena, const struct arena_geometry *geometry);
/* -ENOMEM, -ENOSPC: not that much memory is free; -ECANCELED soon after *cancelled (which
 * may be NULL) has become true. */
int arena_populate(int fd, uint64_t bytes, const atomic_bool *cancelled);
void arena_write_header(struct arena *arena);
int arena_open_readonly(const struct arena *arena); /* fd or negative errno */
void arena_finish(struct arena *arena);

/* Map an arena that another process made (a worker's side); takes `fd` also on failure. */
int arena_attach_consume_fd(struct arena *arena, const struct arena_geometry *geometry, int fd);

static inline struct batch_row *arena_rows(const struct arena *arena, uint32_t slot)
{
	const struct arena_geometry *g = &arena->geometry;

	return (struct batch_row *)(arena->base + g->slots_offset + slot * g->slot_stride);
}

static inline uint8_t *arena_pixels(const struct arena *arena, uint32_t slot, uint32_t row)
{
	const struct arena_geometry *g = &arena->geometry;

	return arena->base + g->slots_offset + slot * g->slot_stride + g->tensor_offset +
	       row * g->row_bytes;
}
