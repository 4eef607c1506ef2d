/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/png_writer.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static void append(png_structp png, png_bytep data, size_t length)
{
	struct png_writer *writer = png_get_io_ptr(png);

	if (length > writer->capacity - writer->length) {
		size_t capacity = writer->length + length + writer->capacity;
		uint8_t *bytes = realloc(writer->bytes, capacity);

		if (bytes == NULL)
			png_error(png, "out of memory");
		writer->bytes = bytes;
		writer->capacity = capacity;
	}
	memcpy(writer->bytes + writer->length, data, length);
	writer->length += length;
}

static void flush(png_structp png)
{
	(void)png;
}

static void on_error(png_structp png, png_const_charp message)
{
	(void)message;
	png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

/* No automatic variable changes after setjmp, so none is lost by the jump. */
static int encode(png_structp png, png_infop info, struct png_writer *writer, const uint8_t *pixels,
	uint32_t width, uint32_t height, uint32_t channels)
{
	if (setjmp(png_jmpbuf(png)) != 0)
		return -EINVAL;
	png_set_write_fn(png, writer, append, flush);
	png_set_IHDR(png, info, width, height, 8,
		channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
		PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	/* Filters gain nothing on pictures of a few hundred bytes and cost a pass over each row. */
	if (width <= 64)
		png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
	png_write_info(png, info);
	for (uint32_t y = 0; y < height; y++)
		png_write_row(png, pixels + (size_t)y * width * channels);
	png_write_end(png, NULL);
	return 0;
}

int png_writer_encode(struct png_writer *writer, const uint8_t *pixels, uint32_t width,
	uint32_t height, uint32_t channels)
{
	png_structp png =
		png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
	png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
	int r = -ENOMEM;

	writer->length = 0;
	if (info != NULL)
		r = encode(png, info, writer, pixels, width, height, channels);
	png_destroy_write_struct(&png, &info);
	return r;
}

void png_writer_finish(struct png_writer *writer)
{
	free(writer->bytes);
	*writer = (struct png_writer)PNG_WRITER_NULL;
}
