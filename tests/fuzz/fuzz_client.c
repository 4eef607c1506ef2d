/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon that was broken into could send to libstoker: a client has one stream with shared and
 * one with inline payload, then any frames come. Batches that it hands out are read whole. Byte 0 says
 * what the caller does between the frames; the rest are payloads, each after its length in a byte,
 * or in two bytes when the first is 255.
 */
#include "client/private.h"
#include "proto/batch_layout.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH_SIZE = 2, ROW_BYTES = 3, SLOTS = 2 };
enum { STRIDE = 2 * BATCH_ARENA_PAGE, ARENA_BYTES = BATCH_ARENA_PAGE + SLOTS * STRIDE };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int make_arena(void)
{
	int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert(fd >= 0 && ftruncate(fd, ARENA_BYTES) == 0);
	assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

static struct stoker_stream *adopt(struct stoker *stoker, uint32_t id, int payload, int fd)
{
	struct stoker_stream *stream = stream_add(stoker, id);
	Stoker__V1__Opened opened = STOKER__V1__OPENED__INIT;
	struct stoker_options options;
	uint32_t shape[] = {1, 1, 3};

	stoker_options_init(&options);
	options.dtype = STOKER_U8;
	options.batch_size = BATCH_SIZE;
	opened.shape = shape;
	opened.n_shape = 3;
	opened.dtype = STOKER__V1__DTYPE__DTYPE_U8;
	opened.layout = STOKER__V1__LAYOUT__LAYOUT_NCHW;
	opened.payload = (Stoker__V1__Payload)payload;
	opened.epoch_samples = 5;
	opened.epoch_batches = 3;
	opened.classes = 10;
	opened.depth = SLOTS;
	opened.slots = SLOTS;
	opened.arena_bytes = ARENA_BYTES;
	opened.slots_offset = BATCH_ARENA_PAGE;
	opened.slot_stride = STRIDE;
	opened.tensor_offset = BATCH_ARENA_PAGE;
	opened.row_bytes = ROW_BYTES;
	assert(stream && stream_adopt(stream, &options, &opened, fd) == 0);
	return stream;
}

static void send_frame(int socket, const uint8_t *payload, uint32_t length)
{
	uint8_t header[FRAME_HEADER_BYTES];

	frame_encode(header, &(struct frame_header){.length = length});
	send(socket, header, sizeof(header), MSG_NOSIGNAL | MSG_DONTWAIT);
	send(socket, payload, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void read_batch(const struct stoker_batch *batch)
{
	unsigned sum = 0;

	assert(batch->rows >= 1 && batch->rows <= BATCH_SIZE);
	for (uint32_t i = 0; i < batch->rows; i++)
		sum += batch->labels[i] + batch->samples[i];
	for (uint32_t i = 0; i < batch->bad_row_count; i++)
		sum += batch->bad_rows[i].row + strlen(batch->bad_rows[i].reason) +
		       strlen(batch->bad_rows[i].text);
	for (uint32_t i = 0; i < batch->rows * ROW_BYTES; i++)
		sum += ((const uint8_t *)batch->data)[i];
	__asm__ volatile("" : : "r"(sum));
}

/* Take all that a stream has now, and keep at most one batch. */
static int drain(struct stoker_stream *stream, struct stoker_batch **held)
{
	struct stoker_batch *batch;
	int r;

	while ((r = stoker_next(stream, 0, &batch)) == STOKER_BATCH || r == STOKER_EPOCH_END) {
		if (r != STOKER_BATCH)
			continue;
		read_batch(batch);
		stoker_release(*held);
		*held = batch;
	}
	return r;
}

/* Ask for lists, whose answers are on their way or will not come. */
static void list(struct stoker *stoker, int socket)
{
	struct stoker_classes *classes;
	struct stoker_samples *samples;

	shutdown(socket, SHUT_WR); /* nobody waits for more */
	if (stoker_classes(stoker, "d", &classes) == 0) {
		for (uint32_t i = 0; i < classes->count; i++)
			assert(strlen(classes->list[i].name) <= classes->list[i].length);
		stoker_classes_free(classes);
	}
	if (stoker_samples(stoker, "d", 0, 3, &samples) == 0) {
		assert(samples->count <= 3);
		for (size_t i = 0; i < samples->count; i++)
			assert(strlen(samples->list[i].path) <= samples->list[i].length);
		stoker_samples_free(samples);
	}
}

static void play(struct stoker *stoker, struct stoker_stream *streams[2], int socket,
	const uint8_t *data, size_t size)
{
	struct stoker_batch *held[2] = {NULL, NULL};
	unsigned actions = data[0];
	size_t at = 1;

	if (actions & 1) /* as if a Seek and a status request had timed out */
		streams[0]->seek_request = stoker->last_request = 1;
	while (at < size && !stoker->dead) {
		size_t length = data[at++];

		if (length == 255 && size - at >= 2) {
			length = data[at] | data[at + 1] << 8;
			at += 2;
		}
		length = length < size - at ? length : size - at;
		if (length > 0)
			send_frame(socket, data + at, length);
		at += length;
		if ((actions & 8) && at > size / 2)
			continue; /* the rest is for list() */
		for (int i = 0; i < 2; i++) {
			if (streams[i])
				drain(streams[i], &held[i]);
		}
		if ((actions & 2) && at > size / 2) {
			stoker_close(streams[1]);
			streams[1] = NULL;
		}
	}
	if (actions & 8)
		list(stoker, socket);
	if (actions & 4)
		stoker_release(held[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stoker_stream *streams[2];
	struct stoker *stoker = stoker_create();
	int sockets[2], fd = make_arena();

	assert(stoker);
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
	fdio_init(&stoker->io, sockets[0], FRAME_CONTROL_MAX);
	stoker->greeted = true;
	stoker->max_inline_frame = FRAME_INLINE_MAX;
	streams[0] = adopt(stoker, 1, STOKER_SHARED, fd);
	streams[1] = adopt(stoker, 2, STOKER_INLINE, -1);
	close(fd);
	if (size > 0)
		play(stoker, streams, sockets[1], data, size);
	stoker_destroy(stoker);
	close(sockets[1]);
	return 0;
}
