/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar_dump FILE: the members of an archive, for tests that compare them with Python's tarfile:
 *
 *   TYPE SIZE OFFSET NAME KEY EXTENSION, one member a line; the last three in hexadecimal, "-" for a
 *   member without a key
 *
 * Status 1 and the reason on stderr when the archive is refused.
 */
#include "daemon/data/tar.h"
#include "daemon/data/tar_key.h"
#include "daemon/util/ownership.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void print_hex(const char *bytes, size_t length)
{
	putchar(' ');
	for (size_t i = 0; i < length; i++)
		printf("%02x", (unsigned char)bytes[i]);
}

static void print_member(const struct tar_reader *reader)
{
	static const char *const types[] = {"reg", "dir", "sym", "other"};
	struct tar_key key;

	printf("%s %" PRIu64 " %" PRIu64, types[reader->type], reader->size, reader->offset);
	print_hex(reader->name, reader->name_length);
	if (reader->type == TAR_REGULAR && tar_key_split(reader->name, &key)) {
		print_hex(reader->name, key.length);
		print_hex(key.extension, strlen(key.extension));
	} else {
		fputs(" - -", stdout);
	}
	putchar('\n');
}

int main(int argc, char **argv)
{
	_cleanup_fd_ int fd = open(argc > 1 ? argv[1] : "", O_RDONLY | O_CLOEXEC);
	struct tar_reader reader = TAR_READER_NULL;
	struct error_text reason = {""};
	struct stat st;
	int r = fstat(fd, &st);

	reader.fd = fd;
	reader.file_bytes = r == 0 ? (uint64_t)st.st_size : 0;
	while (r == 0) {
		r = tar_next(&reader, &reason);
		if (r == 0)
			print_member(&reader);
	}
	if (r != TAR_END)
		fprintf(stderr, "%s\n", reason.text);
	tar_finish(&reader);
	return r != TAR_END;
}
