/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/png_chunks.h"

#include "daemon/image/decode/png_metadata.h"

#include <string.h>
#include <zlib.h>

enum {
	SIGNATURE_LENGTH = 8,
	CHUNK_OVERHEAD = 12, /* length, type, CRC */
	IHDR_LENGTH = 13,
	CHUNK_LENGTH_MAX = 0x7fffffff,
};

/* What Pillow tracks from chunk to chunk. */
struct walk {
	const struct png_header *header;
	struct error_text *error;
	bool has_frames;   /* a usable acTL has been seen */
	bool single_frame; /* ... of one frame */
	bool in_frame;     /* a fcTL stands before the first IDAT: the picture is frame 1 */
	bool seen_idat;
	bool animated; /* Pillow stops at the next frame */
	struct png_metadata *metadata;
	uint32_t sequence; /* the next number of fcTL and fdAT */
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is(const struct png_chunk *chunk, const char *type)
{
	return memcmp(chunk->type, type, 4) == 0;
}

/* The chunk at `offset`, which moves behind it; false when the file ends inside it. */
static bool next_chunk(const uint8_t *bytes, size_t length, size_t *offset, struct png_chunk *chunk)
{
	size_t left = length - *offset;

	if (left < CHUNK_OVERHEAD)
		return false;
	chunk->length = be32(bytes + *offset);
	if (chunk->length > CHUNK_LENGTH_MAX || chunk->length > left - CHUNK_OVERHEAD)
		return false;
	memcpy(chunk->type, bytes + *offset + 4, 4);
	chunk->type[4] = '\0';
	chunk->data = bytes + *offset + 8;
	*offset += CHUNK_OVERHEAD + (size_t)chunk->length;
	return true;
}

static bool depth_fits(uint8_t colour_type, uint8_t bit_depth)
{
	/* A bit per legal depth (section 11.2.1, table 12). */
	static const uint32_t depths[7] = {
		[0] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16,
		[2] = 1 << 8 | 1 << 16,
		[3] = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
		[4] = 1 << 8 | 1 << 16,
		[6] = 1 << 8 | 1 << 16,
	};

	return colour_type <= 6 && bit_depth <= 16 && (depths[colour_type] >> bit_depth & 1) != 0;
}

int png_read_header(const uint8_t *bytes, size_t length, const struct decode_options *options,
	struct png_header *header, struct error_text *error)
{
	size_t offset = SIGNATURE_LENGTH;
	struct png_chunk ihdr;
	const uint8_t *data;

	if (length < SIGNATURE_LENGTH || !next_chunk(bytes, length, &offset, &ihdr))
		return error_set(error, DECODE_BAD, "damaged PNG: it ends inside its header");
	data = ihdr.data;
	if (!is(&ihdr, "IHDR") || ihdr.length != IHDR_LENGTH ||
		crc32(0, data - 4, 4 + IHDR_LENGTH) != be32(data + IHDR_LENGTH))
		return error_set(error, DECODE_BAD, "damaged PNG: its header (IHDR) is not intact");

	*header = (struct png_header){
		.width = be32(data),
		.height = be32(data + 4),
		.bit_depth = data[8],
		.colour_type = data[9],
		.interlaced = data[12] == 1,
	};
	if (header->width == 0 || header->height == 0 || header->width > CHUNK_LENGTH_MAX ||
		header->height > CHUNK_LENGTH_MAX ||
		!depth_fits(header->colour_type, header->bit_depth) || data[10] != 0 ||
		data[11] != 0 || data[12] > 1)
		return error_set(error, DECODE_BAD,
			"damaged PNG: impossible header (%u x %u, colour type %u, %u bits)",
			header->width, header->height, header->colour_type, header->bit_depth);
	if ((uint64_t)header->width * header->height > options->max_pixels)
		return error_set(error, DECODE_BAD,
			"PNG of %u x %u pixels is larger than the limit of %llu pixels (max_pixels)",
			header->width, header->height, (unsigned long long)options->max_pixels);
	return 0;
}

uint64_t png_pixel_bytes(const struct png_header *header)
{
	static const uint8_t channels[7] = {[0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4};
	uint64_t bits = (uint64_t)header->width * channels[header->colour_type] * header->bit_depth;

	return header->height * ((bits + 7) / 8 + 1);
}

static int bad_chunk(const struct walk *walk, const struct png_chunk *chunk, const char *what)
{
	return error_set(walk->error, DECODE_BAD, "damaged PNG: chunk %s %s", chunk->type, what);
}

/* The shortest data that Pillow takes apart without failing. */
static uint32_t min_length(const struct png_chunk *chunk, const struct png_header *header)
{
	static const struct {
		char type[5];
		uint8_t length;
	} table[] = {{"gAMA", 4}, {"sRGB", 1}, {"pHYs", 9}, {"acTL", 8}, {"fcTL", 26}, {"fdAT", 4}};

	if (is(chunk, "tRNS"))
		return header->colour_type == 0 ? 2 : header->colour_type == 2 ? 6 : 0;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (is(chunk, table[i].type))
			return table[i].length;
	return 0;
}

static int check_metadata(const struct walk *walk, const struct png_chunk *chunk)
{
	const uint8_t *nul;

	if (chunk->length < min_length(chunk, walk->header))
		return bad_chunk(walk, chunk, "is too short");
	if (is(chunk, "cHRM") && chunk->length % 4 != 0)
		return bad_chunk(walk, chunk, "has a wrong length");
	if (!is(chunk, "iCCP") && !is(chunk, "zTXt"))
		return 0;

	/* name, NUL, compression method, compressed bytes */
	nul = memchr(chunk->data, 0, chunk->length);
	if (is(chunk, "iCCP"))
		return nul != NULL ? 0 : bad_chunk(walk, chunk, "has no name");
	if (nul != NULL && nul + 1 < chunk->data + chunk->length && nul[1] != 0)
		return bad_chunk(walk, chunk, "has an unknown compression method");
	return 0;
}

static int check_frame_control(struct walk *walk, const struct png_chunk *chunk)
{
	const uint8_t *data = chunk->data;
	uint64_t right = (uint64_t)be32(data + 12) + be32(data + 4);
	uint64_t bottom = (uint64_t)be32(data + 16) + be32(data + 8);

	if (be32(data) != walk->sequence++)
		return bad_chunk(walk, chunk, "is out of sequence");
	if (right > walk->header->width || bottom > walk->header->height)
		return bad_chunk(walk, chunk, "lies outside the picture");
	if (walk->seen_idat)
		return 0;
	if (be32(data + 4) != walk->header->width || be32(data + 8) != walk->header->height)
		return bad_chunk(walk, chunk, "does not fill the picture");
	walk->in_frame = true;
	return 0;
}

static int check_animation(struct walk *walk, const struct png_chunk *chunk)
{
	if (is(chunk, "acTL")) {
		uint32_t frames = be32(chunk->data);

		/* Pillow takes a second one as a sign that the file is no animation. */
		walk->has_frames = !walk->has_frames && frames != 0 && frames <= 0x80000000u;
		walk->single_frame = frames == 1;
		return 0;
	}
	if (is(chunk, "fcTL"))
		return check_frame_control(walk, chunk);
	if (!walk->seen_idat || walk->sequence == 0 || be32(chunk->data) != walk->sequence++)
		return bad_chunk(walk, chunk, "is out of sequence");
	return 0;
}

static int check_chunk(struct walk *walk, const struct png_chunk *chunk)
{
	int r = check_metadata(walk, chunk);

	if (r != 0)
		return r;
	if (is(chunk, "IDAT")) {
		if (!walk->seen_idat)
			walk->animated =
				walk->has_frames && !(walk->in_frame && walk->single_frame);
		walk->seen_idat = true;
		png_metadata_end_front(walk->metadata);
		return 0;
	}
	if (is(chunk, "acTL") || is(chunk, "fcTL") || is(chunk, "fdAT"))
		return check_animation(walk, chunk);
	png_metadata_note(walk->metadata, chunk);
	return 0;
}

int png_check_chunks(const uint8_t *bytes, size_t length, const struct png_header *header,
	struct png_metadata *metadata, size_t *end, struct error_text *error)
{
	struct walk walk = {.header = header, .error = error, .metadata = metadata};
	size_t offset = SIGNATURE_LENGTH + CHUNK_OVERHEAD + IHDR_LENGTH;
	bool check = true;

	for (;;) {
		struct png_chunk chunk;
		int r;

		*end = offset;
		if (length - offset >= 8 && memcmp(bytes + offset + 4, "IEND", 4) == 0)
			return 0;
		if (!next_chunk(bytes, length, &offset, &chunk))
			return error_set(error, DECODE_BAD,
				"damaged PNG: cut short, its %zu bytes end before IEND", length);
		check = check && !(walk.animated && is(&chunk, "fcTL"));
		metadata->complete |= !check;
		r = check ? check_chunk(&walk, &chunk) : 0;
		if (r != 0)
			return r;
	}
}
