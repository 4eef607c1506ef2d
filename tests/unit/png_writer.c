/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/png_writer.h"

#include <assert.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

uint32_t png_sample(const struct png_picture *picture, uint32_t x, uint32_t y, uint32_t c)
{
	uint32_t v = (x * 2654435761u ^ y * 40503u ^ c * 97u) * 2246822519u;

	v ^= v >> 15;
	if (picture->colour_type == PNG_COLOR_TYPE_PALETTE)
		return v % (uint32_t)picture->palette;
	return v >> 3 & ((1u << picture->bit_depth) - 1);
}

uint8_t png_palette(uint32_t i, uint32_t c)
{
	return (uint8_t)(i * 29 + c * 83 + 17);
}

uint32_t png_channels(const struct png_picture *picture)
{
	static const uint8_t channels[7] = {[0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4};

	return channels[picture->colour_type];
}

static void append(png_structp png, png_bytep bytes, size_t length)
{
	struct png_file *file = png_get_io_ptr(png);

	file->bytes = realloc(file->bytes, file->length + length);
	assert(file->bytes != NULL);
	memcpy(file->bytes + file->length, bytes, length);
	file->length += length;
}

static void flush(png_structp png)
{
	(void)png;
}

/* Samples packed from the high bits down, 16-bit ones big-endian. */
static void pack_row(const struct png_picture *picture, uint32_t y, uint8_t *row)
{
	uint32_t channels = png_channels(picture);
	uint64_t bit = 0;

	for (uint32_t x = 0; x < picture->width; x++)
		for (uint32_t c = 0; c < channels; c++, bit += (uint64_t)picture->bit_depth) {
			uint32_t v = png_sample(picture, x, y, c);

			if (picture->bit_depth == 16) {
				row[bit / 8] = (uint8_t)(v >> 8);
				row[bit / 8 + 1] = (uint8_t)v;
			} else {
				row[bit / 8] |=
					(uint8_t)(v << (8 - picture->bit_depth - (int)(bit % 8)));
			}
		}
}

static void set_palette(png_structp png, png_infop info, const struct png_picture *picture)
{
	png_color palette[256];

	for (int i = 0; i < picture->palette; i++)
		palette[i] = (png_color){png_palette((uint32_t)i, 0), png_palette((uint32_t)i, 1),
			png_palette((uint32_t)i, 2)};
	png_set_PLTE(png, info, palette, picture->palette);
}

static void set_transparency(png_structp png, png_infop info, const struct png_picture *picture)
{
	static const uint8_t alpha[2] = {0, 77};
	png_color_16 colour = {.gray = 1, .red = 1, .green = 1, .blue = 1};

	if (picture->colour_type == PNG_COLOR_TYPE_PALETTE)
		png_set_tRNS(png, info, alpha, 2, NULL);
	else if (picture->colour_type == PNG_COLOR_TYPE_GRAY ||
		 picture->colour_type == PNG_COLOR_TYPE_RGB)
		png_set_tRNS(png, info, NULL, 0, &colour);
}

void png_file_write(struct png_file *file, const struct png_picture *picture)
{
	size_t stride =
		((uint64_t)picture->width * png_channels(picture) * (uint64_t)picture->bit_depth +
			7) /
		8;
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	uint8_t *pixels = calloc(picture->height, stride);
	png_bytep *rows = calloc(picture->height, sizeof(*rows));

	assert(png != NULL && info != NULL && pixels != NULL && rows != NULL);
	if (setjmp(png_jmpbuf(png)) != 0)
		abort();
	for (uint32_t y = 0; y < picture->height; y++) {
		rows[y] = pixels + y * stride;
		pack_row(picture, y, rows[y]);
	}
	*file = (struct png_file){.bytes = NULL};
	png_set_write_fn(png, file, append, flush);
	png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
	png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_ALL_FILTERS);
	png_set_IHDR(png, info, picture->width, picture->height, picture->bit_depth,
		picture->colour_type, picture->interlaced, 0, 0);
	if (picture->colour_type == PNG_COLOR_TYPE_PALETTE)
		set_palette(png, info, picture);
	if (picture->with_gamma)
		png_set_gAMA_fixed(png, info, PNG_FP_1);
	if (picture->with_transparency)
		set_transparency(png, info, picture);
	png_set_rows(png, info, rows);
	png_write_png(png, info, PNG_TRANSFORM_IDENTITY, NULL);
	png_destroy_write_struct(&png, &info);
	free(pixels);
	free(rows);
}

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

void png_file_insert(struct png_file *file, size_t offset, const char *type, const void *data,
	uint32_t length, uint32_t crc_error)
{
	uint8_t *chunk;

	file->bytes = realloc(file->bytes, file->length + 12 + length);
	assert(file->bytes != NULL && offset <= file->length);
	chunk = file->bytes + offset;
	memmove(chunk + 12 + length, chunk, file->length - offset);
	file->length += 12 + length;
	put_be32(chunk, length);
	memcpy(chunk + 4, type, 4);
	if (length != 0)
		memcpy(chunk + 8, data, length);
	put_be32(chunk + 8 + length, (uint32_t)crc32(0, chunk + 4, 4 + length) ^ crc_error);
}

size_t png_file_find(const struct png_file *file, const char *type)
{
	for (size_t offset = 8; offset + 12 <= file->length;) {
		const uint8_t *p = file->bytes + offset;

		if (memcmp(p + 4, type, 4) == 0)
			return offset;
		offset += 12 + ((size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
	}
	abort();
}

void png_file_finish(struct png_file *file)
{
	free(file->bytes);
	*file = (struct png_file){.bytes = NULL};
}
