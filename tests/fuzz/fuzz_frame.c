/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client sends, as stokerd reads it: bytes through a socket and fdio in pieces of any size,
 * and each payload through protobuf. fdio must find the frames that a look at all the bytes finds.
 * Byte 0 sets the size of the pieces, byte 1 which of them carry descriptors and, in bit 7, whether
 * the rest is frames or one payload.
 */
#include "proto/fdio.h"

#include "stoker.pb-c.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void unpack(const uint8_t *payload, size_t length)
{
	Stoker__V1__ClientMessage *message =
		stoker__v1__client_message__unpack(NULL, length, payload);
	size_t packed;
	uint8_t *again;

	if (!message)
		return;
	packed = stoker__v1__client_message__get_packed_size(message);
	again = malloc(packed + 1);
	assert(again && stoker__v1__client_message__pack(message, again) == packed);
	free(again);
	stoker__v1__client_message__free_unpacked(message, NULL);
}

/* Take what has come; `expected` runs over all the bytes beside it. 0, or the error that ends it. */
static int take_frames(struct fdio *io, const uint8_t **expected)
{
	struct fdio_frame frame;
	int r;

	while ((r = fdio_next(io, &frame)) > 0) {
		assert(frame.length > 0 && frame.length <= FRAME_CLIENT_MAX);
		assert(memcmp(frame.payload, *expected + FRAME_HEADER_BYTES, frame.length) == 0);
		*expected += FRAME_HEADER_BYTES + frame.length;
		if (frame.fd >= 0)
			close(frame.fd);
		unpack(frame.payload, frame.length);
	}
	return r;
}

static void send_piece(int socket, const uint8_t *bytes, size_t length, bool with_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {.iov_base = (void *)bytes, .iov_len = length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (with_fd) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &socket, sizeof(int));
	}
	assert(sendmsg(socket, &message, 0) == length);
}

static void feed(const uint8_t *bytes, size_t size, size_t piece, unsigned fds)
{
	const uint8_t *expected = bytes;
	struct fdio io;
	int sockets[2], r = 0;

	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
	fdio_init(&io, sockets[1], FRAME_CLIENT_MAX);
	for (size_t at = 0, n; at < size && r >= 0; at += n) {
		n = size - at < piece ? size - at : piece;
		send_piece(sockets[0], bytes + at, n, fds >> (at / piece % 7) & 1);
		do {
			r = fdio_receive(&io);
			if (r > 0)
				r = take_frames(&io, &expected) < 0 ? -EBADMSG : 1;
		} while (r > 0);
	}
	if (r == 0) { /* whatever is left is less than a frame */
		struct frame_header header;
		size_t left = bytes + size - expected;

		assert(left < FRAME_HEADER_BYTES ||
			(frame_decode(expected, FRAME_CLIENT_MAX, &header) == 0 &&
				left < FRAME_HEADER_BYTES + header.length));
	}
	fdio_finish(&io);
	close(sockets[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pieces[] = {1, 2, 7, 8, 9, 100, 4096, 60000};

	if (size < 2 || size > FRAME_CLIENT_MAX)
		return 0;
	if (data[1] & 0x80)
		unpack(data + 2, size - 2);
	else if (size < 2000 || data[0] % 8 > 4)
		feed(data + 2, size - 2, pieces[data[0] % 8], data[1]);
	return 0;
}
