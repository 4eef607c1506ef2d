/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/private.h"
#include "proto/batch_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * A client whose daemon is the test itself, in the same thread: what the daemon will say is put into
 * the socket before the client asks for it (the client's requests are numbered 1, 2, ...), and what
 * the client said is read afterwards.
 */
struct fixture {
	struct stoker *stoker;
	struct fdio server;
	int descriptors; /* open before */
};

static inline int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static inline struct fixture fixture_create(void)
{
	struct fixture fixture = {.descriptors = count_descriptors()};
	int fds[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	fixture.stoker = stoker_create();
	assert_non_null(fixture.stoker);
	fdio_init(&fixture.stoker->io, fds[0], FRAME_CONTROL_MAX);
	fixture.stoker->greeted = true;
	fixture.stoker->max_inline_frame = FRAME_INLINE_MAX;
	strcpy(fixture.stoker->socket, "/test.sock");
	fdio_init(&fixture.server, fds[1], FRAME_CLIENT_MAX);
	return fixture;
}

static inline void fixture_finish(struct fixture *fixture)
{
	stoker_destroy(fixture->stoker);
	fdio_finish(&fixture->server);
	assert_int_equal(count_descriptors(), fixture->descriptors);
}

/* Let the daemon say something; `message` is one of the Stoker__V1__ messages. */
#define SAY(fixture, kind_upper, field, value, fd)                                                 \
	do {                                                                                       \
		Stoker__V1__ServerMessage say_ = STOKER__V1__SERVER_MESSAGE__INIT;                 \
		say_.message_case = STOKER__V1__SERVER_MESSAGE__MESSAGE_##kind_upper;              \
		say_.field = (value);                                                              \
		say(fixture, &say_, fd);                                                           \
	} while (0)

static inline void say(struct fixture *fixture, const Stoker__V1__ServerMessage *message, int fd)
{
	size_t size = stoker__v1__server_message__get_packed_size(message);
	uint8_t *packed = malloc(size);

	assert_non_null(packed);
	stoker__v1__server_message__pack(message, packed);
	assert_int_equal(fdio_send(&fixture->server, packed, size, fd), 0);
	assert_int_equal(fdio_flush(&fixture->server), 1);
	free(packed);
}

static inline void say_error(struct fixture *fixture, Stoker__V1__ErrorCode code, uint32_t request,
	uint32_t stream, bool closing)
{
	Stoker__V1__Error error = STOKER__V1__ERROR__INIT;

	error.code = code;
	error.text = (char *)"the daemon's \033own words";
	error.request = request;
	error.stream = stream;
	error.closing = closing;
	SAY(fixture, ERROR, error, &error, -1);
}

static inline void say_epoch_end(
	struct fixture *fixture, uint32_t stream, uint64_t epoch, bool last)
{
	Stoker__V1__EpochEnd end = STOKER__V1__EPOCH_END__INIT;

	end.stream = stream;
	end.epoch = epoch;
	end.last = last;
	SAY(fixture, EPOCH_END, epoch_end, &end, -1);
}

static inline void say_closed(struct fixture *fixture, uint32_t request, uint32_t stream)
{
	Stoker__V1__Closed closed = STOKER__V1__CLOSED__INIT;

	closed.request = request;
	closed.stream = stream;
	SAY(fixture, CLOSED, closed, &closed, -1);
}

static inline void say_sought(struct fixture *fixture, uint32_t request, uint32_t stream)
{
	Stoker__V1__Sought sought = STOKER__V1__SOUGHT__INIT;

	sought.request = request;
	sought.stream = stream;
	SAY(fixture, SOUGHT, sought, &sought, -1);
}

/* The next message from the client, which must be of this kind; NULL and no check for kind 0, when
 * there is none. */
static inline Stoker__V1__ClientMessage *heard(
	struct fixture *fixture, Stoker__V1__ClientMessage__MessageCase kind)
{
	Stoker__V1__ClientMessage *message;
	struct fdio_frame frame;
	int r = fdio_next(&fixture->server, &frame);

	if (r == 0 && fdio_receive(&fixture->server) > 0)
		r = fdio_next(&fixture->server, &frame);
	if (kind == 0) {
		assert_int_equal(r, 0);
		return NULL;
	}
	assert_int_equal(r, 1);
	assert_int_equal(frame.fd, -1);
	message = stoker__v1__client_message__unpack(NULL, frame.length, frame.payload);
	assert_non_null(message);
	assert_int_equal(message->message_case, kind);
	return message;
}

static inline void heard_nothing(struct fixture *fixture)
{
	heard(fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE__NOT_SET);
}

static inline void heard_release(
	struct fixture *fixture, uint32_t stream, uint32_t slot, uint32_t generation)
{
	Stoker__V1__ClientMessage *message =
		heard(fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_RELEASE);

	assert_int_equal(message->release->stream, stream);
	assert_int_equal(message->release->slot, slot);
	assert_int_equal(message->release->generation, generation);
	stoker__v1__client_message__free_unpacked(message, NULL);
}

static inline void heard_close(struct fixture *fixture, uint32_t request, uint32_t stream)
{
	Stoker__V1__ClientMessage *message =
		heard(fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_CLOSE);

	assert_int_equal(message->close->request, request);
	assert_int_equal(message->close->stream, stream);
	stoker__v1__client_message__free_unpacked(message, NULL);
}

static inline void heard_open(struct fixture *fixture)
{
	stoker__v1__client_message__free_unpacked(
		heard(fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_OPEN), NULL);
}

/* ---- streams of 2x3 pictures of one byte per pixel, four to a batch, four batches per epoch ---- */

enum {
	ROW_BYTES = 6,
	BATCH_SIZE = 4,
	EPOCH_BATCHES = 4,
	DEPTH = 2,
	SLOTS = 3,
	TENSOR_OFFSET = BATCH_ARENA_PAGE,
	SLOT_STRIDE = 2 * BATCH_ARENA_PAGE,
	ARENA_BYTES = BATCH_ARENA_PAGE + SLOTS * SLOT_STRIDE,
	ALL_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

/* Memory in which slot s holds rows with sample 100 * s + row, label `row` and pixels 16 * s + row. */
static inline int make_arena(size_t size, int seals)
{
	int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING), reopened;
	char path[64];
	uint8_t *memory;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(memory != MAP_FAILED);
	for (int s = 0; size >= ARENA_BYTES && s < SLOTS; s++) {
		uint8_t *slot = memory + BATCH_ARENA_PAGE + s * SLOT_STRIDE;

		for (int i = 0; i < BATCH_SIZE; i++) {
			((struct batch_row *)slot)[i] =
				(struct batch_row){.sample = 100 * s + i, .label = i};
			memset(slot + TENSOR_OFFSET + i * ROW_BYTES, 16 * s + i, ROW_BYTES);
		}
	}
	munmap(memory, ARENA_BYTES);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reopened = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(reopened >= 0);
	close(fd);
	return reopened;
}

static uint32_t opened_shape[] = {1, 2, 3, 1};

static inline Stoker__V1__Opened make_opened(
	uint32_t request, uint32_t stream, Stoker__V1__Payload payload)
{
	Stoker__V1__Opened opened = STOKER__V1__OPENED__INIT;

	opened.request = request;
	opened.stream = stream;
	opened.shape = opened_shape;
	opened.n_shape = 3;
	opened.dtype = STOKER__V1__DTYPE__DTYPE_U8;
	opened.layout = STOKER__V1__LAYOUT__LAYOUT_NCHW;
	opened.payload = payload;
	opened.dataset_samples = 40;
	opened.epoch_samples = 16;
	opened.epoch_batches = EPOCH_BATCHES;
	opened.classes = 10;
	opened.depth = DEPTH;
	opened.fingerprint = UINT64_C(0xfedcba9876543210);
	opened.row_bytes = ROW_BYTES;
	if (payload == STOKER__V1__PAYLOAD__PAYLOAD_SHARED) {
		opened.slots = SLOTS;
		opened.arena_bytes = ARENA_BYTES;
		opened.slots_offset = BATCH_ARENA_PAGE;
		opened.slot_stride = SLOT_STRIDE;
		opened.tensor_offset = TENSOR_OFFSET;
	}
	return opened;
}

static inline struct stoker_options make_options(void)
{
	struct stoker_options options;

	stoker_options_init(&options);
	options.dataset = "train";
	options.transforms = NULL;
	options.dtype = STOKER_U8;
	options.batch_size = BATCH_SIZE;
	return options;
}

/* Open stream `id`; the Open must be the client's request number `request`. */
static inline struct stoker_stream *open_stream(
	struct fixture *fixture, uint32_t request, uint32_t id, Stoker__V1__Payload payload)
{
	Stoker__V1__Opened opened = make_opened(request, id, payload);
	struct stoker_options options = make_options();
	struct stoker_stream *stream;
	int fd = -1;

	if (payload == STOKER__V1__PAYLOAD__PAYLOAD_SHARED)
		fd = make_arena(ARENA_BYTES, ALL_SEALS);
	SAY(fixture, OPENED, opened, &opened, fd);
	if (fd >= 0)
		close(fd);
	assert_int_equal(stoker_open(fixture->stoker, &options, &stream), 0);
	heard_open(fixture);
	return stream;
}

static inline struct stoker_stream *open_shared(
	struct fixture *fixture, uint32_t request, uint32_t id)
{
	return open_stream(fixture, request, id, STOKER__V1__PAYLOAD__PAYLOAD_SHARED);
}

static inline struct stoker_stream *open_inline(
	struct fixture *fixture, uint32_t request, uint32_t id)
{
	return open_stream(fixture, request, id, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);
}

/* A whole batch in slot step % SLOTS with generation step + 1. */
struct batch_message {
	Stoker__V1__Batch batch;
	Stoker__V1__Cursor cursor;
};

static inline void make_batch(struct batch_message *m, uint32_t stream, uint64_t step)
{
	stoker__v1__batch__init(&m->batch);
	stoker__v1__cursor__init(&m->cursor);
	m->batch.stream = stream;
	m->batch.step = step;
	m->batch.rows = BATCH_SIZE;
	m->batch.slot = step % SLOTS;
	m->batch.generation = step + 1;
	m->batch.cursor = &m->cursor;
	m->cursor.position = (step + 1) * BATCH_SIZE;
	m->cursor.seed = 7;
	m->cursor.world = 1;
}

static inline void say_batch(struct fixture *fixture, uint32_t stream, uint64_t step)
{
	struct batch_message m;

	make_batch(&m, stream, step);
	SAY(fixture, BATCH, batch, &m.batch, -1);
}

/* The pixels of an inline batch are 1, 2, 3, ...; its labels 0, 1, 2, 3. */
struct inline_batch {
	struct batch_message m;
	uint64_t samples[BATCH_SIZE];
	int32_t labels[BATCH_SIZE];
	uint8_t data[BATCH_SIZE * ROW_BYTES];
};

static inline void make_inline_batch(struct inline_batch *b, uint32_t stream, uint64_t step)
{
	make_batch(&b->m, stream, step);
	for (int i = 0; i < BATCH_SIZE; i++) {
		b->samples[i] = 1000 + i;
		b->labels[i] = i;
	}
	for (size_t i = 0; i < sizeof(b->data); i++)
		b->data[i] = i + 1;
	b->m.batch.samples = b->samples;
	b->m.batch.n_samples = BATCH_SIZE;
	b->m.batch.labels = b->labels;
	b->m.batch.n_labels = BATCH_SIZE;
	b->m.batch.data.data = b->data;
	b->m.batch.data.len = sizeof(b->data);
}

static inline struct stoker_batch *next_batch(struct stoker_stream *stream, uint64_t step)
{
	struct stoker_batch *batch;

	assert_int_equal(stoker_next(stream, 0, &batch), STOKER_BATCH);
	assert_non_null(batch);
	assert_int_equal(batch->step, step);
	return batch;
}

static inline void next_is(struct stoker_stream *stream, int result)
{
	struct stoker_batch *batch;

	assert_int_equal(stoker_next(stream, 0, &batch), result);
	assert_null(batch);
}

static inline void message_has(struct fixture *fixture, const char *words)
{
	if (!strstr(stoker_message(fixture->stoker), words))
		fail_msg("\"%s\" does not say \"%s\"", stoker_message(fixture->stoker), words);
}
