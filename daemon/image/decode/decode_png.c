/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/exif.h"
#include "daemon/image/decode/placement.h"
#include "daemon/image/decode/png_chunks.h"
#include "daemon/image/decode/png_metadata.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROWS_BYTES = 256 << 10, /* rows that are read at a time to be put into their places */
};

/* One decoding. libpng's callbacks see it, and it outlives every longjmp. */
struct png_decoder {
	const uint8_t *bytes;
	size_t offset, end; /* of the next byte, of IEND */
	const struct png_header *header;
	bool clip;            /* grey of 16 bits at 255 */
	uint32_t orientation; /* to turn the picture to: 1 .. 8 */
	struct placement placement;
	uint8_t *rows; /* read and not yet put into their places; freed after libpng */
	struct image *image;
	struct error_text *error;
	uint64_t memory; /* taken so far; libpng frees little before the end */
	bool over_limit; /* it asked for more than DECODE_MEMORY_EXTRA */
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
			decoder->header->width, (unsigned int)(DECODE_MEMORY_EXTRA >> 20));
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

	if (size > DECODE_MEMORY_EXTRA - decoder->memory) {
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

/* A row of 16-bit grey, or of RGB made of it, to 8 bits: Pillow has such pictures as numbers of 32 bits,
 * and clips those that do not fit into a byte. */
static void on_clip_row(png_structp png, png_row_infop row, png_bytep bytes)
{
	const uint8_t *in = bytes;

	(void)png;
	for (size_t i = 0; i < row->rowbytes / 2; i++, in += 2)
		bytes[i] = in[0] != 0 ? 0xff : in[1];
}

/* libpng's transformations that end in 8-bit L or RGB as Pillow makes them: the high byte of 16-bit
 * samples (not scaled), alpha and transparency dropped, gamma left alone. */
static void set_transformations(const struct png_decoder *decoder)
{
	const struct png_header *header = decoder->header;
	png_structp png = decoder->png;
	uint32_t channels = decoder->image->channels;

	if (decoder->clip) {
		png_set_read_user_transform_fn(png, on_clip_row);
		png_set_user_transform_info(png, NULL, 8, (int)channels);
	} else if (header->bit_depth == 16) {
		png_set_strip_16(png);
	}
	if (header->colour_type == PNG_COLOR_TYPE_PALETTE)
		png_set_palette_to_rgb(png);
	else if (header->bit_depth < 8)
		png_set_expand_gray_1_2_4_to_8(png);
	if ((header->colour_type & PNG_COLOR_MASK_ALPHA) != 0)
		png_set_strip_alpha(png);
	if (channels == 3 && (header->colour_type & PNG_COLOR_MASK_COLOR) == 0)
		png_set_gray_to_rgb(png);
}

/* Rows that lie in the result as they do in the file. */
static void read_rows(const struct png_decoder *decoder, int passes)
{
	const struct image *image = decoder->image;
	size_t stride = (size_t)image->width * image->channels;

	for (int pass = 0; pass < passes; pass++)
		for (uint32_t y = 0; y < image->height; y++)
			png_read_row(decoder->png, image->pixels + y * stride, NULL);
}

/* A picture of `width` x `height`, all or one pass of an interlaced one, some rows at a time. libpng writes
 * rows of the whole picture's width in any pass. */
static void read_and_place_rows(const struct png_decoder *decoder,
	const struct placement *placement, uint32_t width, uint32_t height)
{
	const struct image *image = decoder->image;
	size_t stride = (size_t)decoder->header->width * image->channels;
	size_t fit = stride < ROWS_BYTES ? ROWS_BYTES / stride : 1;

	for (uint32_t y = 0; y < height;) {
		uint32_t count = height - y < fit ? height - y : (uint32_t)fit;

		for (uint32_t i = 0; i < count; i++)
			png_read_row(decoder->png, decoder->rows + i * stride, NULL);
		placement_put(placement, image->pixels, image->channels, y, decoder->rows, width,
			stride, count);
		y += count;
	}
}

static void read_and_turn(struct png_decoder *decoder)
{
	uint32_t width = decoder->header->width, height = decoder->header->height;
	size_t stride = (size_t)width * decoder->image->channels;

	decoder->rows = png_malloc(decoder->png, stride < ROWS_BYTES ? ROWS_BYTES : stride);
	if (!decoder->header->interlaced)
		read_and_place_rows(decoder, &decoder->placement, width, height);
	for (int pass = 0; decoder->header->interlaced && pass < PNG_INTERLACE_ADAM7_PASSES;
		pass++) {
		struct placement part = placement_part(&decoder->placement,
			PNG_PASS_START_COL(pass), PNG_PASS_START_ROW(pass),
			PNG_PASS_COL_OFFSET(pass), PNG_PASS_ROW_OFFSET(pass));
		uint32_t columns = PNG_PASS_COLS(width, pass);

		if (columns != 0)
			read_and_place_rows(decoder, &part, columns, PNG_PASS_ROWS(height, pass));
	}
}

static void read_pixels(struct png_decoder *decoder)
{
	bool turn = decoder->orientation > EXIF_UPRIGHT;
	/* What is turned is put together here, not by libpng. */
	int passes = turn ? 0 : png_set_interlace_handling(decoder->png);

	png_read_update_info(decoder->png, decoder->info);
	if (png_get_rowbytes(decoder->png, decoder->info) !=
		(size_t)decoder->header->width * decoder->image->channels)
		png_error(decoder->png, "its rows have an unexpected size");
	if (turn)
		read_and_turn(decoder);
	else
		read_rows(decoder, passes);
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

	set_transformations(decoder);
	read_pixels(decoder);
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
	free(decoder->rows);
	return r;
}

int image_decode_png(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_options *options, struct image *image, struct error_text *error)
{
	struct png_metadata metadata = PNG_METADATA_NULL;
	struct png_header header;
	struct png_decoder decoder = {
		.bytes = bytes,
		.header = &header,
		.orientation = EXIF_UPRIGHT,
		.image = image,
		.error = error,
	};
	bool grey, swap;
	int r;

	r = png_read_header(bytes, length, options, &header, error);
	if (r == 0)
		r = png_check_chunks(bytes, length, &header, &metadata, &decoder.end, error);
	if (r == 0 && (options->flags & DECODE_ORIENT) != 0)
		r = png_metadata_orientation(&metadata, &decoder.orientation);
	if (r != 0)
		return r;

	decoder.placement = placement_of(decoder.orientation, header.width, header.height);
	swap = exif_swaps(decoder.orientation);
	grey = (header.colour_type & PNG_COLOR_MASK_COLOR) == 0;
	decoder.clip = header.colour_type == PNG_COLOR_TYPE_GRAY && header.bit_depth == 16 &&
		       (options->flags & DECODE_GREY16_CLIP) != 0;
	r = image_resize(image, swap ? header.height : header.width,
		swap ? header.width : header.height, colour == DECODE_L && grey ? 1 : 3);
	if (r == 0)
		r = decode(&decoder);
	if (r == 0 && image->channels != colour) {
		image_rgb_to_l(image->pixels, image->pixels, (size_t)image->width * image->height);
		image->channels = 1;
	}
	image->high_byte = header.colour_type == PNG_COLOR_TYPE_GRAY && header.bit_depth == 16 &&
			   !decoder.clip;
	return r;
}

int image_probe_png(const void *bytes, size_t length, const struct decode_options *options,
	struct picture_info *info, struct error_text *error)
{
	struct png_metadata metadata = PNG_METADATA_NULL;
	struct png_header header;
	struct error_text ignored;
	size_t end;
	int r = png_read_header(bytes, length, options, &header, error);

	if (r != 0)
		return r;
	*info = (struct picture_info){
		.width = header.width,
		.height = header.height,
		.file_pixels = png_pixel_bytes(&header),
	};
	/* What is wrong behind the header is for image_decode to tell. */
	info->more = png_check_chunks(bytes, length, &header, &metadata, &end, &ignored) != 0 &&
		     !metadata.complete;
	return png_metadata_orientation(&metadata, &info->orientation);
}
