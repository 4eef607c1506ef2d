/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int memfd_new(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd < 0 ? -errno : fd;
}

int memfd_append(int fd, const void *bytes, size_t length)
{
	const uint8_t *next = bytes;

	while (length > 0) {
		ssize_t n = write(fd, next, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		next += n;
		length -= (size_t)n;
	}
	return 0;
}

int memfd_seal(int fd)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

	return fcntl(fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}
