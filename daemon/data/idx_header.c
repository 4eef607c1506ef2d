/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/idx_header.h"

#include "daemon/data/dataset.h"
#include "daemon/util/checked.h"
#include "daemon/util/escape.h"

#include <inttypes.h>
#include <string.h>

_Static_assert((int)UNPACK_BAD == (int)DATASET_UNUSABLE, "broken files are passed up as they are");

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

static int check_magic(const struct unpack *file, const uint8_t *magic, enum idx_role role,
	struct error_text *error)
{
	bool images = role == IDX_IMAGES;
	uint8_t number = magic[2], rank = magic[3];
	const char *type = type_name(number);

	if (!type)
		return error_set(error, DATASET_UNUSABLE, "%s: unknown IDX element type 0x%02x",
			escape(file->path).text, number);
	if (images && rank == 1)
		return refuse(file, "holds labels: name the images file beside it", error);
	if (number != IDX_U8 && number != IDX_I16 && (images || number != IDX_I32))
		return error_set(error, DATASET_UNUSABLE,
			"%s: %s are %s (IDX type 0x%02x): only %s are supported",
			escape(file->path).text, images ? "images" : "labels", type, number,
			images ? "unsigned bytes (0x08) and 16-bit integers (0x0b)"
			       : "unsigned bytes (0x08), 16-bit (0x0b) and 32-bit integers (0x0c)");
	if (images ? rank != 3 && rank != 4 : rank != 1)
		return error_set(error, DATASET_UNUSABLE, "%s: has %u dimensions, but %s have %s",
			escape(file->path).text, rank, images ? "images" : "labels",
			images ? "3 (number x height x width) or 4 (with 3 channels)" : "1");
	return 0;
}

uint32_t idx_element_bytes(const struct idx_header *header)
{
	return header->type == IDX_U8 ? 1 : header->type == IDX_I16 ? 2 : 4;
}

static int take_dimensions(
	const struct unpack *file, struct idx_header *header, struct error_text *error)
{
	header->payload = idx_element_bytes(header);
	for (size_t i = 0; i < header->rank; i++) {
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

int idx_read_header(struct unpack *file, struct idx_header *header, enum idx_role role,
	struct error_text *error)
{
	/* As many bytes as every good file has, so that others can be recognised by them. */
	size_t front = IDX_MAGIC_BYTES + 4u * (role == IDX_IMAGES ? 3 : 1), got, more = 0;
	int r = unpack_read(file, header->bytes, front, &got, error);

	if (r != 0)
		return r;
	if (got < IDX_MAGIC_BYTES || header->bytes[0] != 0 || header->bytes[1] != 0)
		return refuse_foreign(file, header->bytes, got, error);
	r = check_magic(file, header->bytes, role, error);
	if (r != 0)
		return r;
	header->type = header->bytes[2];
	header->rank = header->bytes[3];
	header->length = IDX_MAGIC_BYTES + 4u * header->rank;
	if (got == front && header->length > front)
		r = unpack_read(file, header->bytes + front, header->length - front, &more, error);
	if (r != 0)
		return r;
	if (got + more < header->length)
		return refuse(file, "ends inside its IDX header: " GET_AGAIN, error);
	return take_dimensions(file, header, error);
}

int idx_image_shape(const struct unpack *file, const struct idx_header *header,
	struct idx_shape *shape, struct error_text *error)
{
	const uint32_t *dims = header->dims;

	*shape = (struct idx_shape){.height = dims[1], .width = dims[2], .channels = 1};
	if (header->rank == 3)
		return 0;
	shape->channels = 3;
	shape->planar = dims[1] == 3;
	if (shape->planar) {
		shape->height = dims[2];
		shape->width = dims[3];
	}
	if ((dims[1] == 3) != (dims[3] == 3))
		return 0;
	return error_set(error, DATASET_UNUSABLE,
		"%s: has dimensions %" PRIu32 "x%" PRIu32 "x%" PRIu32 "x%" PRIu32
		": %s of number x height x width x 3 and number x 3 x height x width",
		escape(file->path).text, dims[0], dims[1], dims[2], dims[3],
		dims[1] == 3 ? "cannot tell which" : "neither");
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
