/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/tar_header.h"

#include <string.h>

_Static_assert(sizeof(struct tar_header) == 512, "the header is one block");

size_t tar_field_length(const char *field, size_t size)
{
	return strnlen(field, size);
}

static bool is_blank(char byte)
{
	return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool octal(const char *field, size_t length, int64_t *value)
{
	bool negative = false;

	while (length > 0 && is_blank(field[0])) {
		field++;
		length--;
	}
	while (length > 0 && is_blank(field[length - 1]))
		length--;
	*value = 0;
	if (length > 1 && (field[0] == '-' || field[0] == '+')) {
		negative = field[0] == '-';
		field++;
		length--;
	}
	/* A field has at most 12 bytes, so this cannot overflow. */
	for (size_t i = 0; i < length; i++) {
		if (field[i] < '0' || field[i] > '7')
			return false;
		*value = *value * 8 + (field[i] - '0');
	}
	if (negative)
		*value = -*value;
	return true;
}

bool tar_number(const char *field, size_t length, int64_t *value)
{
	unsigned char first = (unsigned char)field[0];
	uint64_t number = first == 0xff ? UINT64_MAX : 0;

	if (first != 0x80 && first != 0xff)
		return octal(field, tar_field_length(field, length), value);
	for (size_t i = 1; i < length; i++) {
		/* What is shifted out must be sign alone. */
		if (number >> 55 != (first == 0xff ? UINT64_MAX >> 55 : 0))
			return false;
		number = number << 8 | (unsigned char)field[i];
	}
	*value = (int64_t)number;
	return true;
}

bool tar_header_is_zero(const struct tar_header *header)
{
	const char *bytes = (const char *)header;

	return bytes[0] == '\0' && memcmp(bytes, bytes + 1, sizeof(*header) - 1) == 0;
}

/* Old tars summed signed characters. */
static bool checksum_is_right(const struct tar_header *header)
{
	const unsigned char *bytes = (const unsigned char *)header;
	const size_t at = offsetof(struct tar_header, checksum);
	int64_t unsigned_sum = 0, signed_sum = 0, declared;

	for (size_t i = 0; i < sizeof(*header); i++) {
		bool own = i >= at && i < at + sizeof(header->checksum);

		unsigned_sum += own ? ' ' : bytes[i];
		signed_sum += own ? ' ' : (signed char)bytes[i];
	}
	return tar_number(header->checksum, sizeof(header->checksum), &declared) &&
	       (declared == unsigned_sum || declared == signed_sum);
}

bool tar_header_check(const struct tar_header *header, int64_t *size)
{
	int64_t ignored;

	return checksum_is_right(header) && tar_number(header->size, sizeof(header->size), size) &&
	       tar_number(header->mode, sizeof(header->mode), &ignored) &&
	       tar_number(header->uid, sizeof(header->uid), &ignored) &&
	       tar_number(header->gid, sizeof(header->gid), &ignored) &&
	       tar_number(header->mtime, sizeof(header->mtime), &ignored) &&
	       tar_number(header->devmajor, sizeof(header->devmajor), &ignored) &&
	       tar_number(header->devminor, sizeof(header->devminor), &ignored);
}

static bool decimal(const char *text, size_t length, uint64_t *value)
{
	*value = 0;
	if (length == 0 || length > 18)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		*value = *value * 10 + (uint64_t)(text[i] - '0');
	}
	return true;
}

static bool key_is(const char *key, size_t length, const char *name)
{
	return length == strlen(name) && memcmp(key, name, length) == 0;
}

/* One record's key and value. */
static bool take_record(
	struct tar_pax *pax, const char *key, size_t key_length, const char *value, size_t length)
{
	if (key_length >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
		pax->sparse = true;
	if (key_is(key, key_length, "path") || key_is(key, key_length, "GNU.sparse.name")) {
		pax->path = value;
		pax->path_length = length;
	} else if (key_is(key, key_length, "size")) {
		pax->has_size = true;
		return decimal(value, length, &pax->size);
	}
	return true;
}

bool tar_pax_parse(const char *records, size_t length, struct tar_pax *pax)
{
	/* Padding may be counted in. */
	while (length > 0 && *records != '\0') {
		const char *blank = memchr(records, ' ', length), *equals;
		uint64_t record;

		if (!blank || !decimal(records, (size_t)(blank - records), &record) ||
			record > length || record < (size_t)(blank - records) + 3 ||
			records[record - 1] != '\n')
			return false;
		equals = memchr(blank, '=', record - 1 - (size_t)(blank - records));
		if (!equals || equals == blank + 1 ||
			!take_record(pax, blank + 1, (size_t)(equals - blank - 1), equals + 1,
				(size_t)(records + record - 1 - (equals + 1))))
			return false;
		records += record;
		length -= record;
	}
	return true;
}
