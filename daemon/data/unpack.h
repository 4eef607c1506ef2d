/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Read a regular file from its front, through gzip where its content (never its name) says so.
 * Several gzip members in a row are one stream, as gzip(1) takes them. Memory is bounded however
 * much a stream unpacks to: the caller takes as many bytes as it wants and no more.
 */
struct unpack {
	const char *path; /* borrowed, for errors */
	int fd;
	uint64_t file_bytes; /* size of the file as it lies on disk */
	uint64_t mtime_ns;   /* when it was last modified, as index_mtime_ns() has it */
	bool gzip;
	struct unpack_gzip *inflate; /* NULL for a plain file */
};

#define UNPACK_NULL                                                                                \
	{                                                                                          \
		.fd = -1                                                                           \
	}

enum {
	/* The file cannot be read or its gzip stream is broken; `error` names it and the way out. */
	UNPACK_BAD = 1,
};

/* 0, UNPACK_BAD, -ENOENT (nothing there; `error` is not filled), -ENOMEM. Closed by the caller, after a
 * failure too. */
int unpack_open(struct unpack *unpack, const char *path, struct error_text *error);
void unpack_close(struct unpack *unpack);

/* The next `length` bytes; fewer only at the end, which for gzip means that every checksum was right.
 * 0, UNPACK_BAD, or -EIO and the like. */
int unpack_read(
	struct unpack *unpack, void *bytes, size_t length, size_t *got, struct error_text *error);
