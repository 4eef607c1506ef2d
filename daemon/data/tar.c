/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/tar.h"

#include "daemon/data/array.h"
#include "daemon/data/tar_header.h"
#include "daemon/util/checked.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* What headers in front of a member's own say about it. The first one that says something wins, as
 * the outermost does in tarfile. */
struct extension {
	bool any, has_name, has_size, sparse;
	uint64_t size;
};

void tar_finish(struct tar_reader *reader)
{
	free(reader->name);
	*reader = (struct tar_reader)TAR_READER_NULL;
}

int tar_read_at(int fd, uint64_t offset, void *bytes, size_t length, size_t *got)
{
	*got = 0;
	while (*got < length) {
		ssize_t n =
			pread(fd, (uint8_t *)bytes + *got, length - *got, (off_t)(offset + *got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		*got += (size_t)n;
	}
	return 0;
}

bool tar_has_magic(const uint8_t *bytes, size_t length)
{
	const size_t at = offsetof(struct tar_header, magic);

	return length >= at + 5 && memcmp(bytes + at, "ustar", 5) == 0;
}

const char *tar_compression(const uint8_t *bytes, size_t length)
{
	static const struct {
		const char *name, *magic;
		size_t length;
	} known[] = {
		{"gzip", "\x1f\x8b", 2},
		{"bzip2", "BZh", 3},
		{"xz",
			"\xfd"
			"7zXZ",
			5},
		{"zstd", "\x28\xb5\x2f\xfd", 4},
		{"lz4", "\x04\x22\x4d\x18", 4},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (length >= known[i].length &&
			memcmp(bytes, known[i].magic, known[i].length) == 0)
			return known[i].name;
	}
	return NULL;
}

static int damaged(uint64_t at, struct error_text *reason, const char *what)
{
	return error_set(reason, TAR_BAD, "is cut or damaged at byte %" PRIu64 ": %s", at, what);
}

/* Keep a name of two parts, the first perhaps empty. */
static int set_name(struct tar_reader *reader, const char *prefix, size_t prefix_length,
	const char *name, size_t length)
{
	size_t used = 0;
	int r = array_reserve(
		&reader->name, &reader->name_capacity, 0, prefix_length + length + 2, 1);

	if (r < 0)
		return r;
	if (prefix_length > 0) {
		memcpy(reader->name, prefix, prefix_length);
		reader->name[prefix_length] = '/';
		used = prefix_length + 1;
	}
	memcpy(reader->name + used, name, length);
	reader->name_length = used + length;
	reader->name[reader->name_length] = '\0';
	return 0;
}

static void strip_slashes(struct tar_reader *reader)
{
	while (reader->name_length > 0 && reader->name[reader->name_length - 1] == '/')
		reader->name[--reader->name_length] = '\0';
}

/* The offset behind data of `size` bytes; beyond every file on overflow. */
static uint64_t behind(uint64_t offset, uint64_t size)
{
	uint64_t end;

	if (!checked_align(size, TAR_BLOCK, &size) || !checked_add(offset, size, &end))
		return UINT64_MAX;
	return end;
}

/* Take a pax header or a long name of `size` bytes, which lies at reader->next. */
static int read_extension(struct tar_reader *reader, char type, uint64_t size,
	struct extension *extension, struct error_text *reason)
{
	uint64_t at = reader->next;
	_cleanup_free_ char *bytes = NULL;
	struct tar_pax pax = {.path = NULL};
	size_t got;
	int r;

	if (size > TAR_EXTENSION_MAX)
		return damaged(at, reason, "an extended header of more than 1 MiB");
	if (behind(at, size) > reader->file_bytes)
		return damaged(at, reason, "the file ends in an extended header");
	bytes = malloc(size + 1);
	if (!bytes)
		return -ENOMEM;
	r = tar_read_at(reader->fd, at, bytes, size, &got);
	if (r < 0)
		return r;
	if (got < size)
		return damaged(at, reason, "the file has shrunk");
	bytes[size] = '\0';
	reader->next = behind(at, size);
	extension->any = true;
	if (type == 'L') {
		pax.path = bytes;
		pax.path_length = tar_field_length(bytes, size);
	} else if (!tar_pax_parse(bytes, size, &pax)) {
		return damaged(at, reason, "a malformed pax header");
	}
	/* A global header may speak of all members, but a name or a size for all makes no sense. */
	if (type == 'g')
		return 0;
	extension->sparse |= pax.sparse;
	if (pax.has_size && !extension->has_size) {
		extension->has_size = true;
		extension->size = pax.size;
	}
	if (!pax.path || extension->has_name)
		return 0;
	if (memchr(pax.path, '\0', pax.path_length))
		return damaged(at, reason, "a name with a NUL byte");
	extension->has_name = true;
	return set_name(reader, "", 0, pax.path, pax.path_length);
}

/* Skip the blocks that continue a GNU sparse header. */
static int skip_sparse_map(struct tar_reader *reader, struct error_text *reason)
{
	bool more;

	do {
		char flag;
		size_t got;
		int r;

		if (behind(reader->next, TAR_BLOCK) > reader->file_bytes)
			return damaged(reader->next, reason, "the file ends in a sparse header");
		r = tar_read_at(reader->fd, reader->next + TAR_SPARSE_CONTINUES, &flag, 1, &got);
		if (r < 0)
			return r;
		more = got == 1 && flag != 0;
		reader->next += TAR_BLOCK;
	} while (more);
	return 0;
}

/* Does data follow a header of this type? Not for links, devices, directories and FIFOs. */
static bool has_data(char type)
{
	return type < '1' || type > '6';
}

static int take_member(struct tar_reader *reader, const struct tar_header *header, uint64_t size,
	const struct extension *extension, struct error_text *reason)
{
	const char *bytes = (const char *)header;
	size_t name = tar_field_length(header->name, sizeof(header->name));
	size_t prefix = tar_field_length(header->prefix, sizeof(header->prefix));
	bool directory = header->type == '5' ||
			 (header->type == '\0' && name > 0 && header->name[name - 1] == '/');
	bool gnu_sparse = header->type == 'S';
	int r = 0;

	if (extension->has_size)
		size = extension->size;
	if (!extension->has_name)
		r = set_name(reader, header->prefix, gnu_sparse ? 0 : prefix, header->name, name);
	if (r == 0 && gnu_sparse && bytes[TAR_SPARSE_EXTENDED] != 0)
		r = skip_sparse_map(reader, reason);
	if (r != 0)
		return r;
	if (directory || extension->has_name)
		strip_slashes(reader);
	reader->offset = reader->next;
	reader->size = size;
	if (has_data(header->type) && !directory)
		reader->next = behind(reader->offset, size);
	reader->sparse = gnu_sparse || extension->sparse;
	if (gnu_sparse) {
		int64_t real;

		if (!tar_number(bytes + TAR_SPARSE_REALSIZE, 12, &real) || real < 0)
			return damaged(reader->offset, reason, "a malformed sparse header");
		reader->size = (uint64_t)real;
	}
	reader->type =
		directory             ? TAR_DIRECTORY
		: header->type == '2' ? TAR_SYMLINK
		: header->type == '0' || header->type == '\0' || header->type == '7' || gnu_sparse
			? TAR_REGULAR
			: TAR_OTHER;
	return 0;
}

/* Read one header block: 0, TAR_END, TAR_BAD or negative errno. */
static int read_header(struct tar_reader *reader, struct tar_header *header, int64_t *size,
	struct error_text *reason)
{
	uint64_t at = reader->next;
	size_t got;
	int r;

	if (at > reader->file_bytes)
		return error_set(reason, TAR_BAD,
			"is cut: it ends at byte %" PRIu64 ", inside member '%.60s'",
			reader->file_bytes, escape_bytes(reader->name, reader->name_length).text);
	r = tar_read_at(reader->fd, at, header, sizeof(*header), &got);
	if (r < 0)
		return r;
	if (got == 0 && at > 0)
		return TAR_END;
	if (got == 0)
		return error_set(reason, TAR_BAD, "is empty");
	if (got < sizeof(*header))
		return damaged(at, reason, "the file ends in a header");
	if (tar_header_is_zero(header))
		return TAR_END;
	if (!tar_header_check(header, size))
		return damaged(
			at, reason, at ? "no header where one must be" : "not a tar archive");
	if (*size < 0)
		return damaged(at, reason, "a negative size");
	reader->next = at + TAR_BLOCK;
	return 0;
}

int tar_next(struct tar_reader *reader, struct error_text *reason)
{
	struct extension extension = {.any = false};
	struct tar_header header;
	int64_t size;
	int r;

	for (;;) {
		uint64_t at = reader->next;

		r = read_header(reader, &header, &size, reason);
		if (r == TAR_END && extension.any)
			return damaged(at, reason, "an extended header without a member");
		if (r != 0)
			return r;
		switch (header.type) {
		case 'x':
		case 'X':
		case 'g':
		case 'L':
			r = read_extension(reader, header.type, (uint64_t)size, &extension, reason);
			break;
		case 'K': /* a link's long target */
			reader->next = behind(reader->next, (uint64_t)size);
			extension.any = true;
			break;
		default: return take_member(reader, &header, (uint64_t)size, &extension, reason);
		}
		if (r != 0)
			return r;
	}
}
