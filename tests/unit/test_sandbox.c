/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker can still do once it is locked in. Each case runs in a child of its own, and is
 * skipped where the kernel or the build has not got the part that it is about. */
#include "daemon/util/ownership.h"
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

/*
 *   <folder>/in/file         a root, and a file in it
 *   <folder>/in/link    ->   ../out/file
 *   <folder>/out/file        outside
 *   <folder>/lone            a root that is a file
 */
struct place {
	char folder[32], in[64], in_file[64], link[64], out_file[64], lone[64];
};

enum {
	WITHOUT = 100, /* exit status of a child: this part of the sandbox is not to be had */
	REFUSED,       /* sandbox_enter failed */
};

static void write_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_int_equal(write(fd, "hello", 5), 5);
	close(fd);
}

static int make_place(void **state)
{
	static struct place place;
	char out[64];

	strcpy(place.folder, "/tmp/stoker-sandbox.XXXXXX");
	assert_non_null(mkdtemp(place.folder));
	snprintf(place.in, sizeof(place.in), "%s/in", place.folder);
	snprintf(place.in_file, sizeof(place.in_file), "%s/in/file", place.folder);
	snprintf(place.link, sizeof(place.link), "%s/in/link", place.folder);
	snprintf(place.out_file, sizeof(place.out_file), "%s/out/file", place.folder);
	snprintf(place.lone, sizeof(place.lone), "%s/lone", place.folder);
	snprintf(out, sizeof(out), "%s/out", place.folder);
	assert_int_equal(mkdir(place.in, 0755), 0);
	assert_int_equal(mkdir(out, 0755), 0);
	write_file(place.in_file);
	write_file(place.out_file);
	write_file(place.lone);
	assert_int_equal(symlink("../out/file", place.link), 0);
	*state = &place;
	return 0;
}

static int remove_place(void **state)
{
	const struct place *place = *state;
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", place->folder);
	return system(command);
}

/* Lock this child in; it ends here unless all of `parts` are active. */
static void enter(const struct place *place, bool indexing, int parts)
{
	const char *roots[] = {place->lone, place->in, "/not/there"};
	struct sandbox_request request = {
		.roots = roots, .root_count = 3, .indexing = indexing, .require = false};
	struct error_text error;
	int r;

	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	r = sandbox_enter(&request, &error);
	if (r < 0)
		_exit(REFUSED);
	if ((r & parts) != parts)
		_exit(WITHOUT);
}

/* Run one case in a child: its wait status. */
static int in_child(int (*test)(const struct place *place), const struct place *place)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(test(place));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == WITHOUT)
		skip();
	return status;
}

static void check_passes(int (*test)(const struct place *place), const struct place *place)
{
	int status = in_child(test, place);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("wait status %#x", status);
}

static void check_killed(int (*test)(const struct place *place), const struct place *place)
{
	int status = in_child(test, place);

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
		fail_msg("wait status %#x", status);
}

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__ % 99 + 1;                                                  \
	} while (0)

/* errno of open, or 0. */
static int try_open(const char *path, int flags)
{
	_cleanup_fd_ int fd = open(path, flags | O_CLOEXEC, 0600);

	return fd < 0 ? errno : 0;
}

/* ---- files ---- */

static int reads_below_the_roots(const struct place *place)
{
	char bytes[8];
	int in_fd = open(place->in, O_PATH | O_DIRECTORY), fd;

	enter(place, false, SANDBOX_LANDLOCK);
	fd = openat(in_fd, "file", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, bytes, sizeof(bytes), 0) == 5 && memcmp(bytes, "hello", 5) == 0);
	CHECK(try_open(place->in_file, O_RDONLY) == 0);
	CHECK(try_open(place->lone, O_RDONLY) == 0);
	return 0;
}

static int reads_nothing_else(const struct place *place)
{
	enter(place, false, SANDBOX_LANDLOCK);
	CHECK(try_open(place->out_file, O_RDONLY) == EACCES);
	CHECK(try_open("/etc/passwd", O_RDONLY) == EACCES);
	CHECK(try_open("/proc/self/environ", O_RDONLY) == EACCES);
	CHECK(try_open("/dev/zero", O_RDONLY) == EACCES);
	CHECK(try_open(place->link, O_RDONLY) == EACCES); /* a link that leaves the data set */
	return 0;
}

/* What a manifest, or a pattern of shards, names lies beside it; an IDX file needs nothing else. */
static int reads_beside(const struct place *place, const char *name, bool there)
{
	char root[300];
	const char *roots[] = {root};
	struct sandbox_request request = {.roots = roots, .root_count = 1};
	struct error_text error;
	int r;

	snprintf(root, sizeof(root), "%s/%s", place->in, name);
	if (there)
		write_file(root);
	r = sandbox_enter(&request, &error);
	if ((r & SANDBOX_LANDLOCK) == 0)
		_exit(WITHOUT);
	CHECK(try_open(place->out_file, O_RDONLY) == EACCES);
	CHECK(try_open(place->in, O_RDONLY | O_DIRECTORY) == EACCES);
	return try_open(place->in_file, O_RDONLY);
}

static int reads_beside_a_manifest(const struct place *place)
{
	return reads_beside(place, "m.csv", true);
}

static int reads_beside_a_pattern(const struct place *place)
{
	return reads_beside(place, "{00..07}.tar", false);
}

static int reads_nothing_beside_others(const struct place *place)
{
	return reads_beside(place, "x-images-idx3", true) == EACCES ? 0 : 1;
}

/* A list of classes may be read, whatever it is called, but nothing beside it. */
static int reads_a_list_when_indexing(const struct place *place)
{
	char set[300], list[300];
	const char *roots[] = {set, list};
	struct sandbox_request request = {.roots = roots, .root_count = 2, .indexing = true};
	struct error_text error;

	snprintf(set, sizeof(set), "%s/out", place->folder);
	snprintf(list, sizeof(list), "%s/classes.csv", place->in);
	write_file(list);
	if ((sandbox_enter(&request, &error) & SANDBOX_LANDLOCK) == 0)
		_exit(WITHOUT);
	CHECK(try_open(list, O_RDONLY) == 0);
	CHECK(try_open(place->out_file, O_RDONLY) == 0);
	CHECK(try_open(place->in_file, O_RDONLY) == EACCES);
	CHECK(try_open(place->in, O_RDONLY | O_DIRECTORY) == EACCES);
	return 0;
}

static int lists_no_folder(const struct place *place)
{
	enter(place, false, SANDBOX_LANDLOCK);
	CHECK(try_open(place->in, O_RDONLY | O_DIRECTORY) == EACCES);
	return 0;
}

static int lists_folders_when_indexing(const struct place *place)
{
	enter(place, true, SANDBOX_LANDLOCK);
	CHECK(try_open(place->in, O_RDONLY | O_DIRECTORY) == 0);
	CHECK(try_open(place->in_file, O_RDONLY) == 0);
	/* beside an IDX file are its labels, so the folder of a file may be looked into */
	CHECK(try_open(place->folder, O_RDONLY | O_DIRECTORY) == 0);
	CHECK(try_open("/tmp", O_RDONLY | O_DIRECTORY) == EACCES);
	CHECK(try_open("/etc/passwd", O_RDONLY) == EACCES);
	return 0;
}

static int uses_what_it_was_given(const struct place *place)
{
	int fd = open(place->out_file, O_RDONLY | O_CLOEXEC), pair[2];
	char bytes[8];
	struct iovec part = {.iov_base = bytes, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	enter(place, false, 0);
	CHECK(pread(fd, bytes, sizeof(bytes), 0) == 5);
	CHECK(sendmsg(pair[0], &message, MSG_NOSIGNAL) == 1);
	CHECK(recvmsg(pair[1], &message, 0) == 1);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		MAP_FAILED);
	return 0;
}

/* ---- system calls; by number, so that no wrapper does something else first ---- */

static int opens_a_socket(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
}

static int runs_a_program(const struct place *place)
{
	char *const argv[] = {(char *)"true", NULL};

	enter(place, true, SANDBOX_SECCOMP);
	return (int)syscall(SYS_execve, "/bin/true", argv, NULL);
}

static int sends_a_signal(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return (int)syscall(SYS_kill, getppid(), 0);
}

static int forks(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
		_exit(0);
	return 0;
}

static int maps_code(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	       MAP_FAILED;
}

static int makes_memory_code(const struct place *place)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	enter(place, true, SANDBOX_SECCOMP);
	return mprotect(map, 4096, PROT_READ | PROT_EXEC);
}

static int opens_for_writing(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return try_open(place->in_file, O_WRONLY);
}

static int truncates_a_file(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return try_open(place->in_file, O_RDONLY | O_TRUNC);
}

static int makes_a_file(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return try_open(place->in, O_TMPFILE | O_RDWR);
}

static int signals_a_thread_of_its_parent(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return (int)syscall(SYS_tgkill, getppid(), getppid(), 0);
}

/* F_SETOWN with O_ASYNC has the kernel send signals for us. */
static int has_the_kernel_signal(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return fcntl(STDIN_FILENO, F_SETOWN, getppid());
}

/* Other workers write into the same arena. */
static int punches_a_hole(const struct place *place)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	enter(place, true, SANDBOX_SECCOMP);
	return madvise(map, 4096, MADV_REMOVE);
}

static int traces_its_parent(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return (int)syscall(SYS_ptrace, 16 /* attach */, getppid(), 0, 0);
}

static int removes_a_file(const struct place *place)
{
	enter(place, true, SANDBOX_SECCOMP);
	return (int)syscall(SYS_unlink, place->in_file);
}

static int makes_a_memfd(const struct place *place)
{
	enter(place, false, SANDBOX_SECCOMP);
	return (int)syscall(SYS_memfd_create, "x", 0);
}

static int makes_a_memfd_when_indexing(const struct place *place)
{
	int fd;

	enter(place, true, SANDBOX_SECCOMP);
	fd = memfd_create("index", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && pwrite(fd, "x", 1, 9) == 1);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
	return 0;
}

static int aborts(const struct place *place)
{
	enter(place, false, SANDBOX_SECCOMP);
	abort();
}

/* ---- */

static void files(void **state)
{
	check_passes(reads_beside_a_manifest, *state);
	check_passes(reads_beside_a_pattern, *state);
	check_passes(reads_nothing_beside_others, *state);
	check_passes(reads_below_the_roots, *state);
	check_passes(reads_nothing_else, *state);
}

static void folders(void **state)
{
	check_passes(lists_no_folder, *state);
	check_passes(lists_folders_when_indexing, *state);
	check_passes(reads_a_list_when_indexing, *state);
}

static void descriptors_from_before(void **state)
{
	check_passes(uses_what_it_was_given, *state);
}

static void system_calls(void **state)
{
	check_killed(opens_a_socket, *state);
	check_killed(runs_a_program, *state);
	check_killed(sends_a_signal, *state);
	check_killed(forks, *state);
	check_killed(maps_code, *state);
	check_killed(makes_memory_code, *state);
	check_killed(opens_for_writing, *state);
	check_killed(truncates_a_file, *state);
	check_killed(makes_a_file, *state);
	check_killed(signals_a_thread_of_its_parent, *state);
	check_killed(has_the_kernel_signal, *state);
	check_killed(punches_a_hole, *state);
	check_killed(traces_its_parent, *state);
	check_killed(removes_a_file, *state);
	check_killed(makes_a_memfd, *state);
	check_passes(makes_a_memfd_when_indexing, *state);
}

/* A failed assertion must look like one, not like a forbidden call. */
static void abort_is_an_abort(void **state)
{
	int status = in_child(aborts, *state);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* "require" means all or nothing. */
static int requires(const struct place *place)
{
	const char *roots[] = {place->in};
	struct sandbox_request request = {.roots = roots, .root_count = 1, .require = true};
	int all = SANDBOX_NO_NEW_PRIVS | SANDBOX_LANDLOCK | SANDBOX_SECCOMP;
	struct error_text error = {""};
	int r = sandbox_enter(&request, &error);

	if (r == -ENOTSUP) {
		CHECK(strstr(error.text, "Landlock") || strstr(error.text, "seccomp"));
		return WITHOUT;
	}
	CHECK(r > 0 && (r & all) == all && r >> 16 >= 1);
	return 0;
}

static void required(void **state)
{
	check_passes(requires, *state);
}

static void described(void **state)
{
	char text[64];

	(void)state;
	sandbox_describe(0, text, sizeof(text));
	assert_string_equal(text, "none");
	sandbox_describe(SANDBOX_NO_NEW_PRIVS, text, sizeof(text));
	assert_string_equal(text, "no_new_privs");
	sandbox_describe(SANDBOX_NO_NEW_PRIVS | SANDBOX_SECCOMP | SANDBOX_LANDLOCK | 7 << 16, text,
		sizeof(text));
	assert_string_equal(text, "no_new_privs seccomp landlock(7)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files),
		cmocka_unit_test(folders),
		cmocka_unit_test(descriptors_from_before),
		cmocka_unit_test(system_calls),
		cmocka_unit_test(abort_is_an_abort),
		cmocka_unit_test(required),
		cmocka_unit_test(described),
	};

	return cmocka_run_group_tests(tests, make_place, remove_place);
}
