/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/fdio.h"

#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Buffers start at this size, which is all that a hostile peer costs that sends little. One that has
 * grown returns to it with the next small frame, not before: a stream of large frames would pay for
 * fresh pages each time, at several times the cost of filling them. */
enum { BUFFER_SMALL = 16 << 10 };

enum { IN_FDS_MAX = sizeof(((struct fdio *)0)->in_fds) / sizeof(int) };

void fdio_init(struct fdio *io, int fd, uint32_t max_length)
{
	*io = (struct fdio){.fd = fd, .max_length = max_length};
}

static void close_unclaimed(struct fdio *io)
{
	while (io->in_fd_count > 0)
		close_fd(io->in_fds[--io->in_fd_count]);
}

void fdio_finish(struct fdio *io)
{
	close_unclaimed(io);
	for (size_t i = 0; i < io->out_fd_count; i++)
		close_fd(io->out_fds[i].fd);
	free(io->out_fds);
	free(io->out);
	free(io->in);
	close_fd(io->fd);
	*io = (struct fdio)FDIO_NULL;
}

/* ---- reading ---- */

static int resize_input(struct fdio *io, size_t capacity)
{
	uint8_t *in = realloc(io->in, capacity);

	if (!in)
		return -ENOMEM;
	io->in = in;
	io->in_capacity = capacity;
	return 0;
}

/* Make room behind in_end and say how much of it may be filled. A large frame is read up to its end
 * and no further, so that its buffer is empty once it is consumed; and the buffer doubles only when
 * it is full, so that announcing a large frame costs nothing until its bytes arrive. */
static int prepare_input(struct fdio *io, size_t *room)
{
	struct frame_header header;
	size_t have = io->in_end - io->in_start, wanted = BUFFER_SMALL;
	int r;

	if (io->in_start > 0 && have > 0)
		memmove(io->in, io->in + io->in_start, have);
	io->in_start = 0;
	io->in_end = have;

	if (have >= FRAME_HEADER_BYTES) {
		r = frame_decode(io->in, io->max_length, &header);
		if (r < 0)
			return r;
		if (header.length > wanted - FRAME_HEADER_BYTES)
			wanted = (size_t)FRAME_HEADER_BYTES + header.length;
	}
	if (!io->in) {
		r = resize_input(io, BUFFER_SMALL);
		if (r < 0)
			return r;
	} else if (have == io->in_capacity && have < wanted) {
		size_t doubled = 2 * io->in_capacity;

		r = resize_input(io, doubled < wanted ? doubled : wanted);
		if (r < 0)
			return r;
	}
	*room = (io->in_capacity < wanted ? io->in_capacity : wanted) - have;
	return 0;
}

/* Queue the descriptors of one recvmsg; those beyond the queue are closed at once. */
static void take_fds(struct fdio *io, struct msghdr *message, unsigned *taken)
{
	*taken = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (io->in_fd_count < IN_FDS_MAX)
				io->in_fds[io->in_fd_count++] = fd;
			else
				close_fd(fd);
			++*taken;
		}
	}
}

int fdio_receive(struct fdio *io)
{
	union {
		char bytes[CMSG_SPACE(IN_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part;
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	unsigned taken;
	size_t room;
	ssize_t n;
	int r;

	r = prepare_input(io, &room);
	if (r < 0)
		return r;
	if (room == 0) /* a whole frame waits to be taken */
		return 1;
	part = (struct iovec){.iov_base = io->in + io->in_end, .iov_len = room};
	do {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		n = recvmsg(io->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;

	take_fds(io, &message, &taken);
	if (message.msg_flags & MSG_CTRUNC) /* more than any frame may have, or our table is full */
		return taken == IN_FDS_MAX ? -EBADMSG : -EMFILE;
	if (n == 0)
		return -ECONNRESET;
	io->in_end += n;
	return 1;
}

int fdio_next(struct fdio *io, struct fdio_frame *frame)
{
	size_t have = io->in_end - io->in_start;
	struct frame_header header;
	int r;

	*frame = (struct fdio_frame){.fd = -1};
	if (have < FRAME_HEADER_BYTES)
		return 0;
	r = frame_decode(io->in + io->in_start, io->max_length, &header);
	if (r < 0)
		return r;
	if (have - FRAME_HEADER_BYTES < header.length)
		return 0;
	if (io->in_capacity > BUFFER_SMALL && io->in_end <= BUFFER_SMALL) {
		r = resize_input(io, BUFFER_SMALL);
		if (r < 0)
			return r;
	}
	if (header.fds > 0) {
		if (io->in_fd_count == 0)
			return -EBADMSG;
		frame->fd = io->in_fds[0];
		io->in_fd_count--;
		memmove(io->in_fds, io->in_fds + 1, io->in_fd_count * sizeof(int));
	}
	frame->payload = io->in + io->in_start + FRAME_HEADER_BYTES;
	frame->length = header.length;
	io->in_start += (size_t)FRAME_HEADER_BYTES + header.length;
	/* A descriptor comes with the first byte of its frame: with no byte left, no frame can still
	 * claim one. */
	if (io->in_start == io->in_end)
		close_unclaimed(io);
	return 1;
}

/* ---- writing ---- */

static int reserve_output(struct fdio *io, size_t length)
{
	size_t queued = fdio_queued(io), needed, capacity;
	uint8_t *out;

	if (queued == 0 && io->out_capacity > BUFFER_SMALL && length <= BUFFER_SMALL) {
		free(io->out);
		io->out = NULL;
		io->out_capacity = 0;
	}
	if (length <= io->out_capacity - io->out_end)
		return 0;
	if (io->out_start > 0) {
		memmove(io->out, io->out + io->out_start, queued);
		for (size_t i = 0; i < io->out_fd_count; i++)
			io->out_fds[i].at -= io->out_start;
		io->out_start = 0;
		io->out_end = queued;
	}
	if (length <= io->out_capacity - io->out_end)
		return 0;
	if (__builtin_add_overflow(queued, length, &needed))
		return -ENOMEM;
	capacity = io->out_capacity + io->out_capacity / 2;
	if (capacity < needed)
		capacity = needed < BUFFER_SMALL ? (size_t)BUFFER_SMALL : needed;
	out = realloc(io->out, capacity);
	if (!out)
		return -ENOMEM;
	io->out = out;
	io->out_capacity = capacity;
	return 0;
}

/* Queue a duplicate of `fd`, due with the next byte queued. */
static int queue_fd(struct fdio *io, int fd)
{
	if (io->out_fd_count == io->out_fd_capacity) {
		size_t capacity = io->out_fd_capacity ? 2 * io->out_fd_capacity : 4;
		struct fdio_pending_fd *fds = realloc(io->out_fds, capacity * sizeof(*fds));

		if (!fds)
			return -ENOMEM;
		io->out_fds = fds;
		io->out_fd_capacity = capacity;
	}
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	io->out_fds[io->out_fd_count++] = (struct fdio_pending_fd){.at = io->out_end, .fd = fd};
	return 0;
}

int fdio_send_parts(struct fdio *io, const void *head, size_t head_length, const void *body,
	size_t body_length, int fd)
{
	struct frame_header header = {.fds = fd >= 0};
	uint8_t *at;
	int r;

	if (head_length > UINT32_MAX || body_length > UINT32_MAX - head_length ||
		head_length + body_length == 0)
		return -EMSGSIZE;
	header.length = head_length + body_length;
	r = reserve_output(io, (size_t)FRAME_HEADER_BYTES + header.length);
	if (r < 0)
		return r;
	if (fd >= 0) {
		r = queue_fd(io, fd);
		if (r < 0)
			return r;
	}
	at = io->out + io->out_end;
	frame_encode(at, &header);
	at += FRAME_HEADER_BYTES;
	if (head_length > 0)
		memcpy(at, head, head_length);
	if (body_length > 0)
		memcpy(at + head_length, body, body_length);
	io->out_end += (size_t)FRAME_HEADER_BYTES + header.length;
	return 0;
}

int fdio_send(struct fdio *io, const void *payload, size_t length, int fd)
{
	return fdio_send_parts(io, payload, length, NULL, 0, fd);
}

/* Send bytes up to `end`, with `fd` (or -1) on the first. Bytes sent, or negative errno. */
static ssize_t send_range(struct fdio *io, size_t end, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {.iov_base = io->out + io->out_start, .iov_len = end - io->out_start};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	}
	do
		n = sendmsg(io->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int fdio_flush(struct fdio *io)
{
	while (io->out_start < io->out_end) {
		/* A descriptor rides on the first byte of its frame, so a send with one starts there
		 * and every send ends before the next. */
		bool with_fd = io->out_fd_count > 0 && io->out_fds[0].at == io->out_start;
		size_t end = io->out_fd_count > with_fd ? io->out_fds[with_fd].at : io->out_end;
		ssize_t n = send_range(io, end, with_fd ? io->out_fds[0].fd : -1);

		if (n == -EAGAIN || n == -EWOULDBLOCK)
			return 0;
		if (n < 0)
			return n;
		if (with_fd) {
			close_fd(io->out_fds[0].fd);
			io->out_fd_count--;
			memmove(io->out_fds, io->out_fds + 1,
				io->out_fd_count * sizeof(*io->out_fds));
		}
		io->out_start += n;
	}
	io->out_start = 0;
	io->out_end = 0;
	return 1;
}
