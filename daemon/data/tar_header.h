/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One 512-byte header of a tar archive, as it lies there (POSIX ustar; GNU's where it differs). */
struct tar_header {
	char name[100];
	char mode[8], uid[8], gid[8];
	char size[12], mtime[12];
	char checksum[8];
	char type;
	char linkname[100];
	char magic[6], version[2];
	char uname[32], gname[32];
	char devmajor[8], devminor[8];
	char prefix[155]; /* GNU sparse: more fields, below */
	char padding[12];
};

enum {
	TAR_SPARSE_EXTENDED = 482,  /* GNU sparse: offset of the flag that more blocks follow */
	TAR_SPARSE_REALSIZE = 483,  /* 12 bytes: size of the file when unpacked */
	TAR_SPARSE_CONTINUES = 504, /* in those blocks: offset of their flag */
};

/* Octal, or base-256 where the first bit is set. False for what is no number. */
bool tar_number(const char *field, size_t length, int64_t *value);

/* All bytes zero: the end of the archive. */
bool tar_header_is_zero(const struct tar_header *header);

/* Is the checksum right and every number one? *size is the declared one. */
bool tar_header_check(const struct tar_header *header, int64_t *size);

/* Length of a field that a NUL ends early. */
size_t tar_field_length(const char *field, size_t size);

/* What pax records say about the member that follows; pointers into the records. */
struct tar_pax {
	const char *path;
	size_t path_length;
	bool has_size, sparse;
	uint64_t size;
};

/* Parse "LENGTH KEY=VALUE\n" records: false where they are malformed. */
bool tar_pax_parse(const char *records, size_t length, struct tar_pax *pax);
