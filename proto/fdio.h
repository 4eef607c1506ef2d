/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Frames and descriptors over a non-blocking AF_UNIX stream socket, for both sides.
 *
 *   reader:  r = fdio_receive(io);            // 1 = got bytes, 0 = nothing more for now, < 0 = dead
 *            while (fdio_next(io, &frame) > 0) { ...; }   // frame is valid until the next call
 *   writer:  fdio_send(io, payload, n, fd);   // queues; takes nothing, dups the descriptor
 *            fdio_flush(io);                  // 1 = all gone, 0 = poll for POLLOUT, < 0 = dead
 *
 * The input buffer holds one frame: it grows with the bytes that arrive, up to the length that a
 * checked header announces, and shrinks back with the next small frame, as the output buffer does.
 * Descriptors that arrive are CLOEXEC; ones that no frame claims are closed.
 */
struct fdio {
	int fd;
	uint32_t max_length; /* of a payload accepted; may be raised at any time */

	uint8_t *in; /* bytes received and not yet consumed: in[in_start .. in_end) */
	size_t in_capacity, in_start, in_end;
	int in_fds[2 * FRAME_FDS_MAX];
	unsigned in_fd_count;

	uint8_t *out; /* bytes queued and not yet sent: out[out_start .. out_end) */
	size_t out_capacity, out_start, out_end;
	struct fdio_pending_fd { /* descriptors queued, each due with the byte at `at` */
		size_t at;       /* index into out */
		int fd;
	} * out_fds;
	size_t out_fd_count, out_fd_capacity;
};

#define FDIO_NULL                                                                                  \
	{                                                                                          \
		.fd = -1                                                                           \
	}

struct fdio_frame {
	const uint8_t
		*payload; /* borrowed from the fdio until the next fdio_next or fdio_receive */
	uint32_t length;
	int fd; /* -1, or a descriptor that now belongs to the caller */
};

/* Takes `fd`, which must be non-blocking. */
void fdio_init(struct fdio *io, int fd, uint32_t max_length);

/* Closes everything, pending descriptors too. Safe on FDIO_NULL and twice. */
void fdio_finish(struct fdio *io);

/* Read once what the socket has. 1 = bytes came, call fdio_next until it gives 0; 0 = would block;
 * -ECONNRESET = the peer closed (a frame may be cut); -EMFILE = a descriptor was lost for want of
 * room in our table (MSG_CTRUNC); other negative errno from the socket. */
int fdio_receive(struct fdio *io);

/* Take the next whole frame out of the buffer: 1 = got one, 0 = none whole yet, -EBADMSG or
 * -EMSGSIZE from frame_decode, -EBADMSG also when the announced descriptor did not come,
 * -ENOMEM. After a negative result the connection is unusable. */
int fdio_next(struct fdio *io, struct fdio_frame *frame);

/* Queue one frame. `fd` is -1 or is duplicated. -ENOMEM, -EMFILE, -EMSGSIZE (over u32). */
int fdio_send(struct fdio *io, const void *payload, size_t length, int fd);

/* Queue one frame whose payload is `head` followed by `body`. */
int fdio_send_parts(struct fdio *io, const void *head, size_t head_length, const void *body,
	size_t body_length, int fd);

/* Send what the socket takes: 1 = the queue is empty, 0 = would block, -EPIPE and others = dead.
 * Never raises SIGPIPE. */
int fdio_flush(struct fdio *io);

/* Bytes queued and not yet sent: the owner bounds it by not producing more. */
static inline size_t fdio_queued(const struct fdio *io)
{
	return io->out_end - io->out_start;
}
