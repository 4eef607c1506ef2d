/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/fdio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SMALL_BUFFER = 16 << 10 };

/* Both ends of a socket pair: `a` sends, `b` receives. */
struct pair {
	struct fdio a, b;
	int descriptors; /* open before the pair was made */
};

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

static struct pair pair_create(uint32_t max_length)
{
	struct pair pair = {.descriptors = count_descriptors()};
	int fds[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	fdio_init(&pair.a, fds[0], max_length);
	fdio_init(&pair.b, fds[1], max_length);
	return pair;
}

static void pair_finish(struct pair *pair)
{
	fdio_finish(&pair->a);
	fdio_finish(&pair->b);
	fdio_finish(&pair->b);
	assert_int_equal(count_descriptors(), pair->descriptors);
}

static int make_memfd(const char *text)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void assert_fd_holds(int fd, const char *text)
{
	char back[64] = {0};

	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(pread(fd, back, sizeof(back) - 1, 0), strlen(text));
	assert_string_equal(back, text);
	close(fd);
}

static void assert_next(struct fdio *io, const void *payload, size_t length)
{
	struct fdio_frame frame;

	assert_int_equal(fdio_next(io, &frame), 1);
	assert_int_equal(frame.length, length);
	assert_memory_equal(frame.payload, payload, length);
	assert_int_equal(frame.fd, -1);
}

static void assert_nothing(struct fdio *io)
{
	struct fdio_frame frame;

	assert_int_equal(fdio_next(io, &frame), 0);
}

/* A raw send of `n` bytes with `count` copies of `fd`. */
static void send_raw(int socket, const void *bytes, size_t n, int fd, int count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (count > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(count * sizeof(int));
		for (int i = 0; i < count; i++)
			memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &fd, sizeof(int));
	}
	assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), n);
}

static void frames_arrive_in_order(void **state)
{
	struct pair pair = pair_create(100);

	(void)state;
	assert_int_equal(fdio_send(&pair.a, "one", 3, -1), 0);
	assert_int_equal(fdio_send_parts(&pair.a, "t", 1, "wo", 2, -1), 0);
	assert_int_equal(fdio_send_parts(&pair.a, NULL, 0, "three", 5, -1), 0);
	assert_int_equal(fdio_queued(&pair.a), 3 * 8 + 11);
	assert_int_equal(fdio_receive(&pair.b), 0);
	assert_int_equal(fdio_flush(&pair.a), 1);
	assert_int_equal(fdio_queued(&pair.a), 0);
	assert_int_equal(fdio_receive(&pair.b), 1);
	assert_next(&pair.b, "one", 3);
	assert_next(&pair.b, "two", 3);
	assert_next(&pair.b, "three", 5);
	assert_nothing(&pair.b);
	assert_int_equal(fdio_receive(&pair.b), 0);
	pair_finish(&pair);
}

static void one_byte_at_a_time(void **state)
{
	static const uint8_t bytes[] = {
		3, 0, 0, 0, 0, 0, 0, 0, 'o', 'n', 'e', 1, 0, 0, 0, 0, 0, 0, 0, '2'};
	struct pair pair = pair_create(100);

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		send_raw(pair.a.fd, bytes + i, 1, -1, 0);
		assert_int_equal(fdio_receive(&pair.b), 1);
		if (i == 10)
			assert_next(&pair.b, "one", 3);
		else if (i == 19)
			assert_next(&pair.b, "2", 1);
		assert_nothing(&pair.b);
	}
	assert_true(pair.b.in_capacity <= SMALL_BUFFER);
	pair_finish(&pair);
}

static void bad_headers_kill_the_connection(void **state)
{
	static const uint8_t huge[8] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};
	static const uint8_t two_fds[8] = {1, 0, 0, 0, 2, 0, 0, 0};
	struct fdio_frame frame;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair = pair_create(FRAME_INLINE_MAX);
		int expected = i == 0 ? -EMSGSIZE : -EBADMSG;

		send_raw(pair.a.fd, i == 0 ? huge : two_fds, 8, -1, 0);
		assert_int_equal(fdio_receive(&pair.b), 1);
		assert_int_equal(fdio_next(&pair.b, &frame), expected);
		assert_int_equal(fdio_next(&pair.b, &frame), expected);
		assert_int_equal(fdio_receive(&pair.b), expected);
		assert_true(pair.b.in_capacity <= SMALL_BUFFER);
		pair_finish(&pair);
	}
}

static void announced_length_takes_no_memory(void **state)
{
	static const uint8_t header[8] = {0, 0, 0, 0x10, 0, 0, 0, 0}; /* 256 MiB */
	struct pair pair = pair_create(FRAME_INLINE_MAX);
	uint8_t bytes[1000] = {0};

	(void)state;
	send_raw(pair.a.fd, header, 8, -1, 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(fdio_receive(&pair.b), 1);
		assert_nothing(&pair.b);
		send_raw(pair.a.fd, bytes, sizeof(bytes), -1, 0);
	}
	assert_true(pair.b.in_end > 98000);
	assert_true(pair.b.in_capacity <= 4 * pair.b.in_end);
	pair_finish(&pair);
}

/* Move everything queued in `a` to `b` until `b` has a frame. */
static void pump(struct pair *pair, struct fdio_frame *frame)
{
	int r;

	for (;;) {
		r = fdio_flush(&pair->a);
		assert_true(r >= 0);
		r = fdio_receive(&pair->b);
		assert_true(r >= 0);
		r = fdio_next(&pair->b, frame);
		assert_true(r >= 0);
		if (r == 1)
			return;
	}
}

static void large_frames_grow_and_shrink_buffers(void **state)
{
	enum { LENGTH = 5 << 20 };
	struct pair pair = pair_create(LENGTH);
	uint8_t *bytes = malloc(LENGTH);
	struct fdio_frame frame;

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i < LENGTH; i++)
		bytes[i] = i * 31 >> 3;
	assert_int_equal(fdio_send(&pair.a, bytes, LENGTH, -1), 0);
	assert_int_equal(fdio_send(&pair.a, "small", 5, -1), 0);
	assert_int_equal(fdio_flush(&pair.a), 0);
	pump(&pair, &frame);
	assert_int_equal(frame.length, LENGTH);
	assert_memory_equal(frame.payload, bytes, LENGTH);
	assert_true(pair.b.in_capacity <= LENGTH + FRAME_HEADER_BYTES);
	pump(&pair, &frame);
	assert_int_equal(frame.length, 5);
	assert_memory_equal(frame.payload, "small", 5);
	assert_nothing(&pair.b);
	assert_true(pair.b.in_capacity <= SMALL_BUFFER);
	assert_int_equal(fdio_flush(&pair.a), 1);
	assert_int_equal(fdio_send(&pair.a, "small", 5, -1), 0);
	assert_true(pair.a.out_capacity <= SMALL_BUFFER);
	free(bytes);
	pair_finish(&pair);
}

/* The output queue never drains whole, and still neither loses bytes nor grows without end. */
static void queue_keeps_its_size_when_it_moves(void **state)
{
	struct pair pair = pair_create(5000);
	uint32_t sent = 0, received = 0;
	uint8_t bytes[5000] = {0};
	struct fdio_frame frame;

	(void)state;
	while (received < 4000) {
		while (fdio_queued(&pair.a) < 20000) {
			memcpy(bytes, &sent, sizeof(sent));
			assert_int_equal(fdio_send(&pair.a, bytes, 4 + sent % 4996, -1), 0);
			sent++;
		}
		assert_true(fdio_flush(&pair.a) >= 0);
		assert_int_equal(fdio_send(&pair.a, &sent, 4, -1), 0);
		sent++;
		assert_true(fdio_receive(&pair.b) >= 0);
		while (fdio_next(&pair.b, &frame) == 1) {
			assert_memory_equal(frame.payload, &received, 4);
			received++;
		}
	}
	assert_true(pair.a.out_capacity < 100000);
	pair_finish(&pair);
}

static void descriptors_stay_with_their_frames(void **state)
{
	struct pair pair = pair_create(1000);
	int first = make_memfd("first"), second = make_memfd("second");
	struct fdio_frame frame;

	(void)state;
	assert_int_equal(fdio_send(&pair.a, "plain", 5, -1), 0);
	assert_int_equal(fdio_send(&pair.a, "with first", 10, first), 0);
	assert_int_equal(fdio_send(&pair.a, "plain", 5, -1), 0);
	assert_int_equal(fdio_send(&pair.a, "with second", 11, second), 0);
	assert_int_equal(fdio_send(&pair.a, "with first", 10, first), 0);
	close(first);
	close(second);
	assert_int_equal(fdio_flush(&pair.a), 1);
	for (int i = 0; i < 5; i++) {
		int r = fdio_next(&pair.b, &frame);

		if (r == 0) {
			assert_int_equal(fdio_receive(&pair.b), 1);
			r = fdio_next(&pair.b, &frame);
		}
		assert_int_equal(r, 1);
		if (i == 0 || i == 2)
			assert_int_equal(frame.fd, -1);
		else
			assert_fd_holds(frame.fd, i == 3 ? "second" : "first");
	}
	assert_int_equal(fdio_receive(&pair.b), 0);
	pair_finish(&pair);
}

/* Frames with descriptors and large plain ones through a socket that is often full. */
static void descriptors_survive_partial_sends(void **state)
{
	enum { LENGTH = 300000, FRAMES = 24 };
	struct pair pair = pair_create(LENGTH);
	uint8_t *bytes = calloc(1, LENGTH);
	struct fdio_frame frame;

	(void)state;
	assert_non_null(bytes);
	for (int i = 0; i < FRAMES; i++) {
		char text[16];
		int fd = -1;

		if (i % 3) {
			snprintf(text, sizeof(text), "file %d", i);
			fd = make_memfd(text);
		}
		bytes[0] = i;
		assert_int_equal(fdio_send(&pair.a, bytes, i % 2 ? LENGTH : 1 + i * 1000, fd), 0);
		if (fd >= 0)
			close(fd);
	}
	for (int i = 0; i < FRAMES; i++) {
		char text[16];

		pump(&pair, &frame);
		assert_int_equal(frame.payload[0], i);
		snprintf(text, sizeof(text), "file %d", i);
		if (i % 3)
			assert_fd_holds(frame.fd, text);
		else
			assert_int_equal(frame.fd, -1);
	}
	free(bytes);
	pair_finish(&pair);
}

static void queued_descriptors_are_closed(void **state)
{
	struct pair pair = pair_create(1000);
	int fd = make_memfd("x");

	(void)state;
	for (int i = 0; i < 40; i++)
		assert_int_equal(fdio_send(&pair.a, "with", 4, fd), 0);
	close(fd);
	assert_int_equal(fdio_flush(&pair.a), 1);
	assert_int_equal(fdio_receive(&pair.b), 1);
	assert_int_equal(fdio_send(&pair.b, "with", 4, pair.b.fd), 0);
	pair_finish(&pair);
}

static void missing_descriptor_is_an_error(void **state)
{
	static const uint8_t bytes[] = {1, 0, 0, 0, 1, 0, 0, 0, 'x'};
	struct pair pair = pair_create(1000);
	struct fdio_frame frame;

	(void)state;
	send_raw(pair.a.fd, bytes, sizeof(bytes), -1, 0);
	assert_int_equal(fdio_receive(&pair.b), 1);
	assert_int_equal(fdio_next(&pair.b, &frame), -EBADMSG);
	pair_finish(&pair);
}

static void unclaimed_descriptors_are_closed(void **state)
{
	static const uint8_t plain[] = {1, 0, 0, 0, 0, 0, 0, 0, 'x'};
	struct pair pair = pair_create(1000);
	int fd = make_memfd("x");

	(void)state;
	for (int i = 0; i < 50; i++) {
		send_raw(pair.a.fd, plain, sizeof(plain), fd, 2);
		assert_int_equal(fdio_receive(&pair.b), 1);
		assert_next(&pair.b, "x", 1);
		assert_nothing(&pair.b);
		assert_int_equal(pair.b.in_fd_count, 0);
	}
	/* with every byte of one long frame */
	send_raw(pair.a.fd, (uint8_t[]){50, 0, 0, 0, 0, 0, 0, 0}, 8, -1, 0);
	for (int i = 0; i < 49; i++) {
		send_raw(pair.a.fd, "y", 1, fd, 1);
		assert_int_equal(fdio_receive(&pair.b), 1);
		assert_nothing(&pair.b);
	}
	assert_int_equal(count_descriptors(), pair.descriptors + 3 + 2 * FRAME_FDS_MAX);
	close(fd);
	pair_finish(&pair);
}

static void too_many_descriptors_are_an_error(void **state)
{
	static const uint8_t plain[] = {1, 0, 0, 0, 1, 0, 0, 0, 'x'};
	struct pair pair = pair_create(1000);
	int fd = make_memfd("x");

	(void)state;
	send_raw(pair.a.fd, plain, sizeof(plain), fd, 3);
	assert_int_equal(fdio_receive(&pair.b), -EBADMSG);
	close(fd);
	pair_finish(&pair);
}

/* At the descriptor limit the kernel drops a passed descriptor and only MSG_CTRUNC tells. */
static void descriptor_limit_is_noticed(void **state)
{
	struct pair pair = pair_create(1000);
	int fd = make_memfd("x"), status;
	pid_t child;

	(void)state;
	assert_int_equal(fdio_send(&pair.a, "with", 4, fd), 0);
	close(fd);
	assert_int_equal(fdio_flush(&pair.a), 1);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct rlimit limit = {.rlim_cur = 3, .rlim_max = 3};
		bool ok = setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
			  fdio_receive(&pair.b) == -EMFILE &&
			  fdio_send(&pair.b, "x", 1, 0) == -EMFILE && fdio_queued(&pair.b) == 0;

		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pair_finish(&pair);
}

static void a_closed_peer_is_noticed(void **state)
{
	static const uint8_t half[] = {9, 0, 0, 0, 0, 0, 0, 0, 'h', 'a', 'l', 'f'};
	struct pair pair = pair_create(1000);
	int r;

	(void)state;
	send_raw(pair.a.fd, half, sizeof(half), -1, 0);
	fdio_finish(&pair.a);
	assert_int_equal(fdio_receive(&pair.b), 1);
	assert_nothing(&pair.b);
	assert_int_equal(fdio_receive(&pair.b), -ECONNRESET);
	/* SIGPIPE would end this program */
	assert_int_equal(fdio_send(&pair.b, "x", 1, -1), 0);
	r = fdio_flush(&pair.b);
	assert_int_equal(r, -EPIPE);
	pair_finish(&pair);
}

static void impossible_lengths_are_refused(void **state)
{
	struct pair pair = pair_create(1000);

	(void)state;
	assert_int_equal(fdio_send(&pair.a, "", 0, -1), -EMSGSIZE);
	assert_int_equal(fdio_send_parts(&pair.a, "x", 1, "", (size_t)UINT32_MAX, -1), -EMSGSIZE);
	assert_int_equal(fdio_send_parts(&pair.a, "x", SIZE_MAX, "", 2, -1), -EMSGSIZE);
	assert_int_equal(fdio_queued(&pair.a), 0);
	pair_finish(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_arrive_in_order),
		cmocka_unit_test(one_byte_at_a_time),
		cmocka_unit_test(bad_headers_kill_the_connection),
		cmocka_unit_test(announced_length_takes_no_memory),
		cmocka_unit_test(large_frames_grow_and_shrink_buffers),
		cmocka_unit_test(queue_keeps_its_size_when_it_moves),
		cmocka_unit_test(descriptors_stay_with_their_frames),
		cmocka_unit_test(descriptors_survive_partial_sends),
		cmocka_unit_test(queued_descriptors_are_closed),
		cmocka_unit_test(missing_descriptor_is_an_error),
		cmocka_unit_test(unclaimed_descriptors_are_closed),
		cmocka_unit_test(too_many_descriptors_are_an_error),
		cmocka_unit_test(descriptor_limit_is_noticed),
		cmocka_unit_test(a_closed_peer_is_noticed),
		cmocka_unit_test(impossible_lengths_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
