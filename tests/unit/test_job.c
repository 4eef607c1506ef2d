/* SPDX-License-Identifier: Apache-2.0 */
/* Records and descriptors between stokerd and a worker, which may have been broken into. */
#include "daemon/util/ownership.h"
#include "daemon/worker/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { CANARY = 0x5a5a5a5a };

struct ends {
	int ours, theirs;
};

static struct ends make_ends(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	return (struct ends){pair[0], pair[1]};
}

static void close_ends(struct ends *ends)
{
	ends->ours = close_fd(ends->ours);
	ends->theirs = close_fd(ends->theirs);
}

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Receive with something behind the array that must not be touched. */
static int receive(int fd, struct result *result, int fds[JOB_FDS_MAX], unsigned *count)
{
	struct {
		int fds[JOB_FDS_MAX], canary[4];
	} guarded;
	int size;

	memset(&guarded, 0x5a, sizeof(guarded));
	size = job_receive(fd, false, result, sizeof(*result), guarded.fds, count);
	for (int i = 0; i < 4; i++)
		assert_int_equal(guarded.canary[i], CANARY);
	assert_in_range(*count, 0, JOB_FDS_MAX);
	memcpy(fds, guarded.fds, sizeof(guarded.fds));
	return size;
}

static void records_keep_their_borders(void **state)
{
	struct ends ends = make_ends();
	struct result out = {.kind = RESULT_RENDERED, .id = 9, .rows_done = 3}, in;
	struct job_detach detach = {.kind = JOB_DETACH, .stream = 4};
	int fds[JOB_FDS_MAX];
	unsigned count;

	(void)state;
	strcpy(out.reason.text, "because");
	assert_int_equal(receive(ends.ours, &in, fds, &count), -EAGAIN);
	assert_int_equal(job_send(ends.theirs, &out, sizeof(out), NULL, 0), 0);
	assert_int_equal(job_send(ends.theirs, &detach, sizeof(detach), NULL, 0), 0);
	assert_int_equal(receive(ends.ours, &in, fds, &count), sizeof(in));
	assert_memory_equal(&in, &out, sizeof(in));
	assert_int_equal(count, 0);
	assert_int_equal(receive(ends.ours, &in, fds, &count), sizeof(detach));
	assert_int_equal(receive(ends.ours, &in, fds, &count), -EAGAIN);
	close_ends(&ends);
}

static void descriptors_travel(void **state)
{
	int before = count_descriptors();

	(void)state;
	for (unsigned n = 1; n <= JOB_FDS_MAX; n++) {
		struct ends ends = make_ends();
		struct result out = {.kind = RESULT_INDEXED}, in;
		int fds[JOB_FDS_MAX], files[JOB_FDS_MAX];
		unsigned count;

		for (unsigned i = 0; i < n; i++)
			files[i] = open("/dev/null", O_RDONLY);
		assert_int_equal(job_send(ends.theirs, &out, sizeof(out), files, n), 0);
		for (unsigned i = 0; i < n; i++)
			close(files[i]);
		assert_int_equal(receive(ends.ours, &in, fds, &count), sizeof(in));
		assert_int_equal(count, n);
		for (unsigned i = 0; i < n; i++) {
			assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
			close(fds[i]);
		}
		close_ends(&ends);
	}
	assert_int_equal(count_descriptors(), before);
}

/* Send as a worker that was broken into: any size, any number of descriptors. */
static void send_raw(int fd, const void *record, size_t size, unsigned descriptors)
{
	enum { MOST = 16 };
	union {
		char bytes[CMSG_SPACE(MOST * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {.iov_base = (void *)record, .iov_len = size};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(descriptors * sizeof(int)),
	};

	assert_true(descriptors <= MOST);
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(descriptors * sizeof(int));
	for (unsigned i = 0; i < descriptors && i < MOST; i++)
		memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &fd, sizeof(int));
	assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), size);
}

static void too_many_descriptors(void **state)
{
	int before = count_descriptors();

	(void)state;
	for (unsigned n = JOB_FDS_MAX + 1; n <= 16; n++) {
		struct ends ends = make_ends();
		struct result out = {.kind = RESULT_READY}, in;
		int fds[JOB_FDS_MAX];
		unsigned count;

		send_raw(ends.theirs, &out, sizeof(out), n);
		assert_int_equal(receive(ends.ours, &in, fds, &count), -EBADMSG);
		assert_int_equal(count, 0);
		close_ends(&ends);
		assert_int_equal(count_descriptors(), before);
	}
}

static void a_record_that_is_too_long(void **state)
{
	int before = count_descriptors();
	struct ends ends = make_ends();
	uint8_t out[sizeof(struct result) + 1] = {0};
	struct result in;
	int fds[JOB_FDS_MAX];
	unsigned count;

	(void)state;
	send_raw(ends.theirs, out, sizeof(out), 2);
	assert_int_equal(receive(ends.ours, &in, fds, &count), -EBADMSG);
	assert_int_equal(count, 0);
	close_ends(&ends);
	assert_int_equal(count_descriptors(), before);
}

/* Our table of descriptors is full: what came with the record is lost, and so is the record. */
static void no_descriptor_is_left(void **state)
{
	struct ends ends = make_ends();
	struct result out = {.kind = RESULT_INDEXED}, in;
	int fds[JOB_FDS_MAX], files[2] = {ends.theirs, ends.theirs}, before, free_fd;
	struct rlimit limit, tight;
	unsigned count;

	(void)state;
	before = count_descriptors();
	free_fd = fcntl(0, F_DUPFD, 0);
	close(free_fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (unsigned room = 0; room < 2; room++) {
		tight = (struct rlimit){(rlim_t)free_fd + room, limit.rlim_max};
		assert_int_equal(job_send(ends.theirs, &out, sizeof(out), files, 2), 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
		assert_int_equal(receive(ends.ours, &in, fds, &count), -EBADMSG);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(count, 0);
		assert_int_equal(count_descriptors(), before);
	}
	close_ends(&ends);
}

static void the_other_end_is_gone(void **state)
{
	struct ends ends = make_ends();
	struct result out = {.kind = RESULT_READY}, in;
	int fds[JOB_FDS_MAX];
	unsigned count;

	(void)state;
	assert_int_equal(job_send(ends.theirs, &out, sizeof(out), NULL, 0), 0);
	ends.theirs = close_fd(ends.theirs);
	assert_int_equal(receive(ends.ours, &in, fds, &count), sizeof(in)); /* its last word */
	assert_int_equal(receive(ends.ours, &in, fds, &count), 0);
	assert_int_equal(job_send(ends.ours, &out, sizeof(out), NULL, 0), -EPIPE); /* no signal */
	close_ends(&ends);

	ends = make_ends(); /* it died with something unread: ECONNRESET, once */
	assert_int_equal(job_send(ends.ours, &out, sizeof(out), NULL, 0), 0);
	ends.theirs = close_fd(ends.theirs);
	assert_int_equal(receive(ends.ours, &in, fds, &count), 0);
	close_ends(&ends);
}

static void a_full_socket(void **state)
{
	struct ends ends = make_ends();
	struct result out = {.kind = RESULT_READY}, in;
	int fds[JOB_FDS_MAX], sent = 0, r;
	unsigned count;

	(void)state;
	while ((r = job_send(ends.ours, &out, sizeof(out), NULL, 0)) == 0)
		sent++;
	assert_int_equal(r, -EAGAIN);
	assert_true(sent >= JOB_QUEUE);
	assert_int_equal(receive(ends.theirs, &in, fds, &count), sizeof(in));
	while ((r = receive(ends.theirs, &in, fds, &count)) == sizeof(in))
		sent--;
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(sent, 1); /* whole records only: none was cut */
	close_ends(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_keep_their_borders),
		cmocka_unit_test(descriptors_travel),
		cmocka_unit_test(too_many_descriptors),
		cmocka_unit_test(a_record_that_is_too_long),
		cmocka_unit_test(no_descriptor_is_left),
		cmocka_unit_test(the_other_end_is_gone),
		cmocka_unit_test(a_full_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
