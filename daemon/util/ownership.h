/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>
#include <unistd.h>

/*
 * Cleanup attributes for locals, and closers that return the null value, so that
 * `x->fd = close_fd(x->fd);` can run twice. Never used in a function that calls setjmp.
 */
static inline int close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
	return -1;
}

static inline void cleanup_fd(int *fd)
{
	*fd = close_fd(*fd);
}

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

#define _cleanup_fd_   __attribute__((cleanup(cleanup_fd)))
#define _cleanup_free_ __attribute__((cleanup(cleanup_free)))

/* Hand out a descriptor that a cleanup attribute guards: the local becomes -1. */
static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

#define steal_pointer(pointer)                                                                     \
	({                                                                                         \
		__typeof__(*(pointer)) stolen_ = *(pointer);                                       \
		*(pointer) = NULL;                                                                 \
		stolen_;                                                                           \
	})
