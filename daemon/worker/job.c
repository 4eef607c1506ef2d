/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/job.h"

#include "daemon/util/ownership.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int job_send(int fd, const void *record, size_t size, const int *fds, unsigned fd_count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int) * JOB_FDS_MAX)];
	} control;
	struct iovec iov = {.iov_base = (void *)record, .iov_len = size};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t sent;

	if (fd_count > 0) {
		struct cmsghdr *header = &control.header;

		memset(&control, 0, sizeof(control));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
	}
	do {
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

int job_receive(
	int fd, bool wait, void *record, size_t capacity, int fds[JOB_FDS_MAX], unsigned *fd_count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int) * JOB_FDS_MAX)];
	} control;
	struct iovec iov = {.iov_base = record, .iov_len = capacity};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* Not the whole of it: its padding has room for one more. */
		.msg_controllen = CMSG_LEN(sizeof(int) * JOB_FDS_MAX),
	};
	ssize_t got;

	*fd_count = 0;
	do {
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == ECONNRESET ? 0 : -errno;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
		header = CMSG_NXTHDR(&message, header)) {
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
			*fd_count = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(header), sizeof(int) * *fd_count);
		}
	}
	if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		while (*fd_count > 0)
			close_fd(fds[--*fd_count]);
		return -EBADMSG;
	}
	return (int)got;
}
