/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/idx_header.h"

#include "daemon/data/dataset.h"
#include "daemon/util/checked.h"
#include "daemon/util/escape.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

_Static_assert((int)UNPACK_BAD == (int)DATASET_UNUSABLE, "broken files are passed up as they are");

enum { IDX_U8 = 0x08 };

#define GET_AGAIN "get the file again"

static uint32_t read_be32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static int refuse(const struct unpack *file, const char *what, struct error_text *error)
{
	return error_set(error, DATASET_UNUSABLE, "%s: %s", escape(file->path).text, what);
}

/* ---- headers ---- */

static const char *type_name(uint8_t type)
{
	switch (type) {
	case 0x08: return "unsigned bytes";
	case 0x09: return "signed bytes";
	case 0x0b: return "16-bit integers";
	case 0x0c: return "32-bit integers";
	case 0x0d: return "32-bit floats";
	case 0x0e: return "64-bit floats";
	}
	return NULL;
}

/* The first bytes are not IDX: say what they are, since downloads go wrong in known ways. */
static int refuse_foreign(
	const struct unpack *file, const uint8_t *magic, size_t got, struct error_text *error)
{
	size_t at = got >= 3 && memcmp(magic, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* UTF-8 mark */

	while (at < got && memchr(" \t\r\n", magic[at], 4))
		at++;
	if (got == 0)
		return refuse(file, "is empty: " GET_AGAIN, error);
	if (got >= 2 && magic[0] == 0x1f && magic[1] == 0x8b)
		return refuse(file, "is gzipped twice: gunzip it once", error);
	if (got >= 4 && memcmp(magic, "PK\3\4", 4) == 0)
		return refuse(file, "is a zip archive: unpack it", error);
	if (at < got && magic[at] == '<')
		return refuse(
			file, "is a web page, not IDX: the download failed, " GET_AGAIN, error);
	if (got < IDX_MAGIC_BYTES)
		return refuse(file, "ends inside its IDX header: " GET_AGAIN, error);
	return error_set(error, DATASET_UNUSABLE,
		"%s: not an IDX file (starts with %02x %02x %02x %02x)", escape(file->path).text,
		magic[0], magic[1], magic[2], magic[3]);
}

static int check_magic(
	const struct unpack *file, const uint8_t *magic, uint8_t dims, struct error_text *error)
{
	bool images = dims == IDX_IMAGE_DIMS;
	const char *type = type_name(magic[2]);

	if (!type)
		return error_set(error, DATASET_UNUSABLE, "%s: unknown IDX element type 0x%02x",
			escape(file->path).text, magic[2]);
	if (images && magic[2] == IDX_U8 && magic[3] == IDX_LABEL_DIMS)
		return refuse(file, "holds labels: name the images file beside it", error);
	if (magic[2] != IDX_U8)
		return error_set(error, DATASET_UNUSABLE,
			"%s: %s are %s (IDX type 0x%02x): only unsigned bytes (0x08) are supported",
			escape(file->path).text, images ? "images" : "labels", type, magic[2]);
	if (magic[3] != dims)
		return error_set(error, DATASET_UNUSABLE, "%s: has %u dimensions, but %s have %u",
			escape(file->path).text, magic[3],
			images ? "images (number x height x width)" : "labels", dims);
	return 0;
}

int idx_read_header(
	struct unpack *file, struct idx_header *header, uint8_t dims, struct error_text *error)
{
	size_t got;
	int r;

	header->length = IDX_MAGIC_BYTES + 4u * dims;
	r = unpack_read(file, header->bytes, header->length, &got, error);
	if (r != 0)
		return r;
	if (got < IDX_MAGIC_BYTES || header->bytes[0] != 0 || header->bytes[1] != 0)
		return refuse_foreign(file, header->bytes, got, error);
	r = check_magic(file, header->bytes, dims, error);
	if (r != 0)
		return r;
	if (got < header->length)
		return refuse(file, "ends inside its IDX header: " GET_AGAIN, error);

	header->payload = 1;
	for (size_t i = 0; i < dims; i++) {
		header->dims[i] = read_be32(header->bytes + IDX_MAGIC_BYTES + 4 * i);
		if (header->dims[i] == 0)
			return refuse(
				file, "declares a dimension of 0: there is no sample in it", error);
		if (!checked_mul(header->payload, header->dims[i], &header->payload) ||
			header->payload > INT64_MAX - IDX_HEADER_MAX)
			return refuse(file, "its dimensions overflow: not a real IDX file", error);
	}
	return 0;
}

/* ---- sizes ---- */

int idx_refuse_size(const struct unpack *file, const struct idx_header *header, uint64_t got,
	struct error_text *error)
{
	bool longer = got > header->payload;

	return error_set(error, DATASET_UNUSABLE,
		"%s: %s than its header says (%" PRIu64 " bytes of data, here %s%" PRIu64 "): %s",
		escape(file->path).text, longer ? "longer" : "shorter", header->payload,
		longer && file->gzip ? "at least " : "", got, GET_AGAIN);
}

int idx_check_plain_size(
	const struct unpack *file, const struct idx_header *header, struct error_text *error)
{
	uint64_t data = file->file_bytes < header->length ? 0 : file->file_bytes - header->length;

	return data == header->payload ? 0 : idx_refuse_size(file, header, data, error);
}

int idx_check_end(struct unpack *file, const struct idx_header *header, struct error_text *error)
{
	uint8_t surplus;
	size_t got;
	int r = unpack_read(file, &surplus, 1, &got, error);

	if (r == 0 && got > 0)
		r = idx_refuse_size(file, header, header->payload + 1, error);
	return r;
}
