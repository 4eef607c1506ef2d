/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/exif.h"

#include <stdbool.h>
#include <string.h>

enum {
	HEADER_LENGTH = 8,
	ENTRY_LENGTH = 12,
	TAG_ORIENTATION = 0x0112,
};

enum type {
	TYPE_BYTE = 1,
	TYPE_ASCII,
	TYPE_SHORT,
	TYPE_LONG,
	TYPE_RATIONAL,
	TYPE_SBYTE,
	TYPE_UNDEFINED,
	TYPE_SSHORT,
	TYPE_SLONG,
	TYPE_SRATIONAL,
	TYPE_FLOAT,
	TYPE_DOUBLE,
	TYPE_IFD,
	TYPE_LONG8 = 16,
	TYPES,
};

struct tiff {
	const uint8_t *bytes;
	size_t length;
	bool big_endian;
};

static uint64_t number(const struct tiff *tiff, const uint8_t *p, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | p[tiff->big_endian ? i : bytes - 1 - i];
	return value;
}

/* The first value of an entry as a number, or 0 where it is none. */
static double value_of(const struct tiff *tiff, unsigned type, const uint8_t *p)
{
	uint64_t raw = number(tiff, p, 1);
	double quotient[2];
	float single;
	double real;

	switch (type) {
	case TYPE_SHORT: return (double)number(tiff, p, 2);
	case TYPE_LONG:
	case TYPE_IFD: return (double)number(tiff, p, 4);
	case TYPE_LONG8: return (double)number(tiff, p, 8);
	case TYPE_SBYTE: return (int8_t)raw;
	case TYPE_SSHORT: return (int16_t)number(tiff, p, 2);
	case TYPE_SLONG: return (int32_t)number(tiff, p, 4);
	case TYPE_FLOAT: {
		uint32_t bits = (uint32_t)number(tiff, p, 4);

		memcpy(&single, &bits, sizeof(single));
		return (double)single;
	}
	case TYPE_DOUBLE:
		raw = number(tiff, p, 8);
		memcpy(&real, &raw, sizeof(real));
		return real;
	case TYPE_RATIONAL:
	case TYPE_SRATIONAL:
		for (int i = 0; i < 2; i++) {
			uint32_t half = (uint32_t)number(tiff, p + 4 * i, 4);

			quotient[i] = type == TYPE_RATIONAL ? (double)half : (double)(int32_t)half;
		}
		return quotient[1] != 0 ? quotient[0] / quotient[1] : 0;
	default: return 0;
	}
}

static uint32_t orientation_of(double value)
{
	for (uint32_t i = EXIF_UPRIGHT; i <= EXIF_ORIENTATION_MAX; i++)
		if (value == (double)i)
			return i;
	return EXIF_UPRIGHT;
}

static uint32_t read_directory(const struct tiff *tiff, uint64_t at)
{
	static const uint8_t sizes[TYPES] = {[TYPE_BYTE] = 1,
		[TYPE_ASCII] = 1,
		[TYPE_SHORT] = 2,
		[TYPE_LONG] = 4,
		[TYPE_RATIONAL] = 8,
		[TYPE_SBYTE] = 1,
		[TYPE_UNDEFINED] = 1,
		[TYPE_SSHORT] = 2,
		[TYPE_SLONG] = 4,
		[TYPE_SRATIONAL] = 8,
		[TYPE_FLOAT] = 4,
		[TYPE_DOUBLE] = 8,
		[TYPE_IFD] = 4,
		[TYPE_LONG8] = 8};
	uint32_t found = EXIF_NONE;
	uint64_t entries;

	if (at > tiff->length || tiff->length - at < 2)
		return found;
	entries = number(tiff, tiff->bytes + at, 2);
	at += 2;
	for (; entries > 0 && tiff->length - at >= ENTRY_LENGTH; entries--, at += ENTRY_LENGTH) {
		const uint8_t *entry = tiff->bytes + at;
		uint64_t type = number(tiff, entry + 2, 2);
		uint64_t size = number(tiff, entry + 4, 4) * (type < TYPES ? sizes[type] : 0);
		const uint8_t *value = entry + 8;

		if (size == 0)
			continue;
		if (size > 4) {
			uint64_t offset = number(tiff, value, 4);

			if (offset > tiff->length || size > tiff->length - offset)
				break;
			value = tiff->bytes + offset;
		}
		if (number(tiff, entry, 2) == TAG_ORIENTATION)
			found = orientation_of(value_of(tiff, (unsigned)type, value));
	}
	return found;
}

uint32_t exif_orientation(const uint8_t *bytes, size_t length)
{
	/* All that Pillow takes for a header with offsets of 32 bits, impossible ones among them. */
	static const char headers[][5] = {"MM\0*", "MM*\0", "MM\0+", "II\0*", "II*\0"};
	struct tiff tiff = {.bytes = bytes, .length = length};

	if (length == 0)
		return EXIF_NONE;
	if (length < HEADER_LENGTH)
		return EXIF_UPRIGHT;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		if (memcmp(bytes, headers[i], 4) != 0)
			continue;
		tiff.big_endian = bytes[0] == 'M';
		return read_directory(&tiff, number(&tiff, bytes + 4, 4));
	}
	return EXIF_UPRIGHT;
}

uint32_t exif_segment_orientation(const uint8_t *segment, size_t length)
{
	if (length < 6 || segment[5] != 0)
		return EXIF_UPRIGHT;
	return exif_orientation(segment + 6, length - 6);
}
