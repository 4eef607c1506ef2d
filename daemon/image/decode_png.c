/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/png_chunks.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/*
 * All that libpng may take beside the pixels for one picture: two rows, its own state and zlib's.
 * Only pictures of millions of pixels in width come near it.
 */
#define PNG_MEMORY_MAX (UINT64_C(48) << 20)

/* One decoding. libpng's callbacks see it, and it outlives every longjmp. */
struct png_decoder {
	const uint8_t *bytes;
	size_t offset, end; /* of the next byte, of IEND */
	const struct png_header *header;
	struct image *image;
	struct error_text *error;
	uint64_t memory; /* taken so far; libpng frees little before the end */
	bool over_limit; /* it asked for more than PNG_MEMORY_MAX */
	bool no_memory;
	png_structp png;
	png_infop info;
};

static PNG_NORETURN void on_error(png_structp png, png_const_charp message)
{
	struct png_decoder *decoder = png_get_error_ptr(png);

	if (decoder->over_limit)
		error_set(decoder->error, DECODE_BAD,
			"PNG is too wide: rows of %u pixels take more than %u MiB beside the pixels",
			decoder->header->width, (unsigned int)(PNG_MEMORY_MAX >> 20));
	else
		error_set(decoder->error, DECODE_BAD, "damaged PNG: %s", message);
	png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

/* Pillow does not look into IEND, so libpng always gets an intact one. */
static void on_read(png_structp png, png_bytep out, size_t count)
{
	static const uint8_t iend[] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
	struct png_decoder *decoder = png_get_io_ptr(png);

	if (decoder->offset == decoder->end) {
		decoder->bytes = iend;
		decoder->end = sizeof(iend);
		decoder->offset = 0;
	}
	if (count > decoder->end - decoder->offset)
		png_error(png, "it ends too early");
	memcpy(out, decoder->bytes + decoder->offset, count);
	decoder->offset += count;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
	struct png_decoder *decoder = png_get_mem_ptr(png);
	void *memory;

	if (size > PNG_MEMORY_MAX - decoder->memory) {
		decoder->over_limit = true;
		return NULL;
	}
	memory = malloc(size);
	decoder->memory += size;
	decoder->no_memory |= memory == NULL;
	return memory;
}

static void on_free(png_structp png, png_voidp memory)
{
	(void)png;
	free(memory);
}

/* libpng's transformations that end in 8-bit L or RGB as Pillow makes them: the high byte of 16-bit
 * samples (not scaled), alpha and transparency dropped, gamma left alone. */
static void set_transformations(png_structp png, const struct png_header *header)
{
	if (header->bit_depth == 16)
		png_set_strip_16(png);
	if (header->colour_type == PNG_COLOR_TYPE_PALETTE)
		png_set_palette_to_rgb(png);
	else if (header->bit_depth < 8)
		png_set_expand_gray_1_2_4_to_8(png);
	if ((header->colour_type & PNG_COLOR_MASK_ALPHA) != 0)
		png_set_strip_alpha(png);
}

static void read_rows(const struct png_decoder *decoder)
{
	const struct image *image = decoder->image;
	size_t stride = (size_t)image->width * image->channels;
	int passes = png_set_interlace_handling(decoder->png);

	png_read_update_info(decoder->png, decoder->info);
	if (png_get_rowbytes(decoder->png, decoder->info) != stride)
		png_error(decoder->png, "its rows have an unexpected size");
	for (int pass = 0; pass < passes; pass++)
		for (uint32_t y = 0; y < image->height; y++)
			png_read_row(decoder->png, image->pixels + y * stride, NULL);
}

static void read_picture(struct png_decoder *decoder)
{
	png_structp png = decoder->png;

	png_set_read_fn(png, decoder, on_read);
	png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
	/* Nothing but IHDR, PLTE, IDAT and IEND is read: 57 bytes with a huge declared text chunk cost
	 * 1 GB otherwise. Pillow checks the CRC of the others too, up to the first IDAT. */
	png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
	png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep) "tRNS", 1);
	png_set_crc_action(png, PNG_CRC_DEFAULT, PNG_CRC_ERROR_QUIT);
	png_read_info(png, decoder->info);
	png_set_crc_action(png, PNG_CRC_DEFAULT, PNG_CRC_WARN_DISCARD);

	set_transformations(png, decoder->header);
	if (decoder->image->channels == 3 &&
		(decoder->header->colour_type & PNG_COLOR_MASK_COLOR) == 0)
		png_set_gray_to_rgb(png);
	read_rows(decoder);
	/* A file whose last row is there may still be cut short or damaged after it. */
	png_read_end(png, NULL);
}

/* Runs read_picture; every error inside libpng comes back here. No locals, so none can be clobbered. */
static int run(struct png_decoder *decoder)
{
	if (setjmp(png_jmpbuf(decoder->png)) != 0)
		return decoder->no_memory ? -ENOMEM : DECODE_BAD;
	read_picture(decoder);
	return 0;
}

static int decode(struct png_decoder *decoder)
{
	int r;

	decoder->png = png_create_read_struct_2(
		PNG_LIBPNG_VER_STRING, decoder, on_error, on_warning, decoder, on_malloc, on_free);
	if (decoder->png == NULL)
		return -ENOMEM;
	decoder->info = png_create_info_struct(decoder->png);
	r = decoder->info != NULL ? run(decoder) : -ENOMEM;
	png_destroy_read_struct(&decoder->png, &decoder->info, NULL);
	return r;
}

int image_decode_png(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_limits *limits, struct image *image, struct error_text *error)
{
	struct png_header header;
	struct png_decoder decoder = {
		.bytes = bytes,
		.header = &header,
		.image = image,
		.error = error,
	};
	bool grey;
	int r;

	r = png_read_header(bytes, length, limits, &header, error);
	if (r == 0)
		r = png_check_chunks(bytes, length, &header, &decoder.end, error);
	if (r != 0)
		return r;

	grey = (header.colour_type & PNG_COLOR_MASK_COLOR) == 0;
	r = image_resize(image, header.width, header.height, colour == DECODE_L && grey ? 1 : 3);
	if (r == 0)
		r = decode(&decoder);
	if (r == 0 && image->channels != colour) {
		image_rgb_to_l(image->pixels, image->pixels, (size_t)image->width * image->height);
		image->channels = 1;
	}
	return r;
}

int image_probe_png(const void *bytes, size_t length, const struct decode_limits *limits,
	uint32_t *width, uint32_t *height, struct error_text *error)
{
	struct png_header header;
	int r = png_read_header(bytes, length, limits, &header, error);

	if (r != 0)
		return r;
	*width = header.width;
	*height = header.height;
	return 0;
}
