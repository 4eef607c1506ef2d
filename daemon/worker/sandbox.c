/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/sandbox.h"

#include "daemon/data/dataset.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * Landlock's rights and structures by ABI version, as the kernel's documentation of the interface
 * lists them. Debian 12's headers know ABI 2, and newer kernels do more, so the newer parts are
 * spelled out here.
 */
enum {
	RIGHTS_ABI_1 = (1 << 13) - 1,     /* execute .. make_sym */
	RIGHT_REFER = 1 << 13,            /* ABI 2 */
	RIGHT_TRUNCATE = 1 << 14,         /* ABI 3 */
	RIGHT_IOCTL_DEV = 1 << 15,        /* ABI 5 */
	RIGHTS_NET = (1 << 0) | (1 << 1), /* ABI 4: bind and connect TCP */
	SCOPES = (1 << 0) | (1 << 1),     /* ABI 6: abstract sockets, signals */
};

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

static struct ruleset_attr ruleset_for_abi(long abi, size_t *size)
{
	struct ruleset_attr attr = {.handled_access_fs = RIGHTS_ABI_1};

	*size = sizeof(attr.handled_access_fs);
	if (abi >= 2)
		attr.handled_access_fs |= RIGHT_REFER;
	if (abi >= 3)
		attr.handled_access_fs |= RIGHT_TRUNCATE;
	if (abi >= 4) {
		attr.handled_access_net = RIGHTS_NET;
		*size = 2 * sizeof(uint64_t);
	}
	if (abi >= 5)
		attr.handled_access_fs |= RIGHT_IOCTL_DEV;
	if (abi >= 6) {
		attr.scoped = SCOPES;
		*size = 3 * sizeof(uint64_t);
	}
	return attr;
}

/* Allow reading below one root. A root that is not there needs no rule: nothing can be opened. */
static int allow_root(int ruleset, const char *root, bool list)
{
	_cleanup_fd_ int fd = open(root, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
		.parent_fd = fd,
	};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (list && S_ISDIR(st.st_mode))
		rule.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return -errno;
	return 0;
}

/* Is what lies beside this root part of its data set? The labels of an IDX file are, for indexing; what a
 * manifest or a pattern of shards names is, for rendering too. When indexing, the first root is the data
 * set, and others are what it may read besides. */
static bool reads_parent(const char *root, bool indexing, bool first)
{
	struct stat st;

	if (!indexing || !first)
		return !indexing && dataset_reads_folder(root);
	return dataset_reads_folder(root) || (stat(root, &st) == 0 && S_ISREG(st.st_mode));
}

static int allow_parent(int ruleset, const char *root, bool indexing, bool first)
{
	char parent[PATH_MAX];

	if (strlen(root) >= sizeof(parent) || !reads_parent(root, indexing, first))
		return 0;
	strcpy(parent, root);
	return allow_root(ruleset, dirname(parent), indexing);
}

/* Returns the ABI version that is active, -ENOTSUP when the kernel has none. */
static int enter_landlock(const struct sandbox_request *request)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr;
	size_t size;
	int r;

	if (abi < 1)
		return -ENOTSUP;
	attr = ruleset_for_abi(abi, &size);

	_cleanup_fd_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);

	if (ruleset < 0)
		return -errno;
	for (size_t i = 0; i < request->root_count; i++) {
		r = allow_root(ruleset, request->roots[i], request->indexing);
		if (r == 0)
			r = allow_parent(ruleset, request->roots[i], request->indexing, i == 0);
		if (r < 0)
			return r;
	}
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return -errno;
	return (int)abi;
}

static int missing(struct error_text *error, const char *part, int cause)
{
	return error_set(error, -ENOTSUP,
		"sandbox = require, but %s cannot be had here (%s); fix that, or set sandbox = auto",
		part, strerror(-cause));
}

int sandbox_enter(const struct sandbox_request *request, struct error_text *error)
{
	int active = 0, r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(error, -errno, "no_new_privs: %s", strerror(errno));
	active |= SANDBOX_NO_NEW_PRIVS;

	r = enter_landlock(request);
	if (r > 0)
		active |= SANDBOX_LANDLOCK | r << 16;
	else if (request->require)
		return missing(error, "Landlock", r);

	r = sandbox_load_filter(request->indexing);
	if (r == 0)
		active |= SANDBOX_SECCOMP;
	else if (request->require)
		return missing(error, "seccomp", r);
	return active;
}
