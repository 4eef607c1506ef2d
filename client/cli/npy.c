/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	PREFIX_BYTES = 10, /* magic, version, u16 length of the header text */
	/* A multiple of 64, as the format asks, with room for NPY_DIMENSIONS_MAX 20-digit numbers. */
	HEADER_BYTES = 192,
};

static void format_header(
	char header[HEADER_BYTES], const char *descr, int dimensions, const uint64_t *shape)
{
	enum { TEXT = HEADER_BYTES - PREFIX_BYTES };
	char text[TEXT + 1], dims[96] = "";
	int length;

	for (int i = 0; i < dimensions; i++) {
		size_t used = strlen(dims);

		snprintf(dims + used, sizeof(dims) - used, "%" PRIu64 "%s", shape[i],
			i + 1 < dimensions ? ", "
			: dimensions == 1  ? ","
					   : "");
	}
	length = snprintf(text, sizeof(text),
		"{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims);
	memset(text + length, ' ', (size_t)(TEXT - length));
	text[TEXT - 1] = '\n';
	memcpy(header, "\x93NUMPY\x01\x00", 8);
	header[8] = (char)(TEXT & 0xff);
	header[9] = (char)(TEXT >> 8);
	memcpy(header + PREFIX_BYTES, text, TEXT);
}

int npy_create(struct npy *npy, const char *directory, const char *name, const char *descr,
	size_t item_bytes, int dimensions, const uint64_t *shape)
{
	char header[HEADER_BYTES];
	uint64_t bytes = item_bytes;
	int r;

	*npy = (struct npy)NPY_NULL;
	for (int i = 0; i < dimensions; i++) {
		if (__builtin_mul_overflow(bytes, shape[i], &bytes))
			return -EOVERFLOW;
	}
	r = new_file_create(&npy->file, directory, name);
	if (r < 0)
		return r;
	format_header(header, descr, dimensions, shape);
	npy->bytes_left = sizeof(header) + bytes;
	return npy_write(npy, header, sizeof(header));
}

int npy_write(struct npy *npy, const void *data, size_t bytes)
{
	if (bytes > npy->bytes_left)
		return -EOVERFLOW;
	errno = EIO;
	if (fwrite(data, 1, bytes, npy->file.out) != bytes)
		return -errno;
	npy->bytes_left -= bytes;
	return 0;
}

int npy_commit(struct npy *npy)
{
	return npy->bytes_left > 0 ? -ENODATA : new_file_commit(&npy->file);
}

void npy_abandon(struct npy *npy)
{
	new_file_abandon(&npy->file);
}
