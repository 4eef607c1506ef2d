/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/util/sanitized.h"
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Reading and decoding: files are opened, read and closed; memory comes and goes; records pass. */
static const int render_calls[] = {SCMP_SYS(brk), SCMP_SYS(clock_gettime), SCMP_SYS(close),
	SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(fadvise64), SCMP_SYS(fstat), SCMP_SYS(futex),
	SCMP_SYS(getpid), SCMP_SYS(getrandom), SCMP_SYS(getrusage), SCMP_SYS(gettid),
	SCMP_SYS(lseek), SCMP_SYS(mremap), SCMP_SYS(munmap), SCMP_SYS(newfstatat),
	SCMP_SYS(pread64), SCMP_SYS(read), SCMP_SYS(recvmsg), SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sched_yield), SCMP_SYS(sendmsg), SCMP_SYS(statx), SCMP_SYS(write)};

static const int index_calls[] = {
	SCMP_SYS(ftruncate),
	SCMP_SYS(getdents64),
	SCMP_SYS(memfd_create),
	SCMP_SYS(pwrite64),
	SCMP_SYS(fallocate),
};

/* What the sanitizers' run time adds in test builds. */
static const int sanitizer_calls[] = {
	SCMP_SYS(prctl),
	SCMP_SYS(prlimit64),
	SCMP_SYS(readlink),
	SCMP_SYS(sigaltstack),
};

static int allow(scmp_filter_ctx filter, const int *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);

		if (r < 0)
			return r;
	}
	return 0;
}

/* One call, when one of its arguments is as `condition` says. */
static int allow_if(scmp_filter_ctx filter, int call, struct scmp_arg_cmp condition)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, condition);
}

/* Memory may be mapped, never as code; and never given back out of a file, which madvise can do to an
 * arena. */
static int allow_memory(scmp_filter_ctx filter)
{
	int r = allow_if(filter, SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	if (r == 0)
		r = allow_if(filter, SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = allow_if(filter, SCMP_SYS(madvise), SCMP_A2(SCMP_CMP_NE, MADV_REMOVE));
	return r;
}

/* What Landlock also forbids where the kernel is new enough: files are opened for reading only, and
 * the only process to be signalled, by abort(), is this one. fcntl can arrange for signals to others
 * (F_SETOWN), so only harmless commands pass. */
static int allow_guarded(scmp_filter_ctx filter, bool indexing)
{
	static const int commands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC, F_GET_SEALS};
	const unsigned writing =
		O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
	int r = allow_if(filter, SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, writing, O_RDONLY));

	if (r == 0)
		r = allow_if(filter, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, (unsigned)getpid()));
	for (size_t i = 0; r == 0 && i < COUNT(commands); i++)
		r = allow_if(filter, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, (unsigned)commands[i]));
	if (r == 0 && indexing)
		r = allow_if(filter, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_ADD_SEALS));
	return r;
}

int sandbox_load_filter(bool indexing)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r;

	if (filter == NULL)
		return -ENOTSUP;
	/* A tree of comparisons instead of a list: the filter runs on every call. */
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	r = allow_memory(filter);
	if (r == 0)
		r = allow_guarded(filter, indexing);
	if (r == 0)
		r = allow(filter, render_calls, COUNT(render_calls));
	if (r == 0 && indexing)
		r = allow(filter, index_calls, COUNT(index_calls));
	if (r == 0 && SANITIZED)
		r = allow(filter, sanitizer_calls, COUNT(sanitizer_calls));
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}
