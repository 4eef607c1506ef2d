/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The members of a tar archive, one by one: v7, ustar, pax (path, size) and GNU (long names, base-256
 * numbers), as POSIX pax(1) and the GNU tar manual describe them, and with the names and extents that
 * Python's tarfile finds. Data is not read; the archive is a regular file that may hold anything.
 * Where tarfile takes a damaged header for the end of the archive, so that samples are lost silently,
 * the archive is refused here.
 */
enum tar_type {
	TAR_REGULAR,
	TAR_DIRECTORY,
	TAR_SYMLINK,
	TAR_OTHER, /* hard links, devices, what nobody knows */
};

enum {
	TAR_BLOCK = 512,
	TAR_EXTENSION_MAX = 1 << 20, /* bytes of a pax header or a long name */
};

struct tar_reader {
	int fd;              /* borrowed */
	uint64_t file_bytes; /* size of the archive */
	uint64_t next;       /* where the next header is */

	/* the member; its data lies inside the archive once tar_next has been called again */
	char *name; /* terminated, without NUL bytes inside */
	size_t name_length, name_capacity;
	enum tar_type type;
	bool sparse;     /* its data is not simply there */
	uint64_t offset; /* of its data */
	uint64_t size;   /* of its data; of a sparse file as it would be unpacked */
};

#define TAR_READER_NULL                                                                            \
	{                                                                                          \
		.fd = -1                                                                           \
	}

enum {
	TAR_END = 1,
	TAR_BAD =
		2, /* the archive is cut or damaged; the reason says how and where, without its name */
};

/* Read the next member's header: 0, TAR_END, TAR_BAD, or negative errno. That the data of the last member
 * is there is known when TAR_END comes. */
int tar_next(struct tar_reader *reader, struct error_text *reason);
void tar_finish(struct tar_reader *reader);

/* Read `length` bytes at `offset`; *got is less only at the end of the file. 0 or negative errno. */
int tar_read_at(int fd, uint64_t offset, void *bytes, size_t length, size_t *got);

/* Do these first bytes of a file (at most TAR_BLOCK) start an archive with POSIX' or GNU's magic? */
bool tar_has_magic(const uint8_t *bytes, size_t length);

/* "gzip" and the like when they start a compressed file, or NULL. */
const char *tar_compression(const uint8_t *bytes, size_t length);
