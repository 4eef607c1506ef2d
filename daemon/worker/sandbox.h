/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a worker locks itself into before it sees the first hostile byte: it may read below the data
 * sets, use the descriptors it was given, and nothing else.
 */
enum sandbox_part {
	SANDBOX_NO_NEW_PRIVS = 1,
	SANDBOX_LANDLOCK =
		2, /* no file access but reading below the roots; no TCP, no signals out */
	SANDBOX_SECCOMP = 4, /* a list of the system calls that decoding needs */
};

struct sandbox_request {
	const char *const *roots; /* directories or files that may be read */
	size_t root_count;
	bool indexing; /* also directories may be listed and memfds made */
	bool require;  /* refuse to go on unless every part is active */
};

/* Lock this process in. Returns the parts that are active, with Landlock's ABI version in bits 16
 * and up, or -ENOTSUP (require, and a part is missing; named in `error`) or -errno. */
int sandbox_enter(const struct sandbox_request *request, struct error_text *error);

/* The system call filter; a file of its own, so that the build works without libseccomp:
 * 0, -ENOTSUP (not built in, or the kernel has none) or -errno. */
int sandbox_load_filter(bool indexing);

/* "no_new_privs seccomp landlock(7)", or "none". */
void sandbox_describe(uint32_t active, char *text, size_t size);
