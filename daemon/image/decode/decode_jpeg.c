/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/decode.h"
#include "daemon/image/decode/exif.h"
#include "daemon/image/decode/placement.h"

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum {
	ROWS_AT_ONCE = 16, /* an iMCU row of 4:2:0 */
	CMYK_CHANNELS = 4,
	PILLOW_BLOCK = 65536, /* ImageFile.MAXBLOCK */
	/* Pictures have some ten scans; each costs a pass over all coefficients. */
	SCANS_MAX = 500,
};

/* One decoding. libjpeg's callbacks see it, and it outlives every longjmp. */
struct jpeg_decoder {
	struct jpeg_decompress_struct jpeg; /* client_data points back */
	struct jpeg_error_mgr handlers;
	struct jpeg_source_mgr source;
	struct jpeg_progress_mgr progress;
	jmp_buf on_error;
	const uint8_t *bytes;
	size_t length;
	const struct decode_options *options;
	struct image *image;
	struct error_text *error;
	uint32_t orientation; /* of the first EXIF segment, EXIF_NONE before there is one */
	struct placement placement;
	bool header_done, rows_done;
	int result; /* of a step that ended early */
};

static _Noreturn void stop(struct jpeg_decoder *decoder, int result)
{
	decoder->result = result;
	longjmp(decoder->on_error, 1);
}

/* libjpeg's words where it knows best; ours where its own would not help anybody. */
static _Noreturn void on_error(j_common_ptr jpeg)
{
	struct jpeg_decoder *decoder = jpeg->client_data;
	char message[JMSG_LENGTH_MAX];

	switch (jpeg->err->msg_code) {
	case JERR_OUT_OF_MEMORY: stop(decoder, -ENOMEM);
	case JERR_NO_BACKING_STORE:
		error_set(decoder->error, DECODE_BAD,
			"JPEG takes more than %u MiB beside its pixels and coefficients",
			(unsigned int)(DECODE_MEMORY_EXTRA >> 20));
		break;
	case JERR_BAD_PRECISION:
		error_set(decoder->error, DECODE_BAD,
			"JPEG of %d bits per sample is not supported, only of 8",
			jpeg->err->msg_parm.i[0]);
		break;
	case JERR_SOF_UNSUPPORTED:
		error_set(decoder->error, DECODE_BAD,
			"lossless or hierarchical JPEG (frame type 0x%02x) is not supported",
			(unsigned int)jpeg->err->msg_parm.i[0]);
		break;
	default:
		jpeg->err->format_message(jpeg, message);
		error_set(decoder->error, DECODE_BAD, "damaged JPEG: %s", message);
	}
	stop(decoder, DECODE_BAD);
}

/* Warnings pass, as Pillow lets them, and traces are for nobody. A premature end is in on_end. */
static void on_message(j_common_ptr jpeg, int level)
{
	(void)jpeg;
	(void)level;
}

static void on_source(j_decompress_ptr jpeg)
{
	(void)jpeg;
}

/* The file ends. With every row there that is no harm, to Pillow neither. */
static boolean on_end(j_decompress_ptr jpeg)
{
	struct jpeg_decoder *decoder = jpeg->client_data;

	if (decoder->rows_done)
		stop(decoder, 0);
	error_set(decoder->error, DECODE_BAD,
		"damaged JPEG: cut short, its %zu bytes end before the picture does",
		decoder->length);
	stop(decoder, DECODE_BAD);
}

static void on_skip(j_decompress_ptr jpeg, long count)
{
	if (count <= 0)
		return;
	if ((unsigned long)count > jpeg->src->bytes_in_buffer)
		on_end(jpeg);
	jpeg->src->next_input_byte += count;
	jpeg->src->bytes_in_buffer -= (size_t)count;
}

/* Called for each row of blocks read: the only place to see how many scans there are. */
static void on_progress(j_common_ptr jpeg)
{
	struct jpeg_decoder *decoder = jpeg->client_data;

	if (decoder->jpeg.input_scan_number <= SCANS_MAX)
		return;
	error_set(decoder->error, DECODE_BAD, "JPEG has more than %d scans", SCANS_MAX);
	stop(decoder, DECODE_BAD);
}

/* One of the two bytes of a segment's length. */
static size_t next_byte(j_decompress_ptr jpeg)
{
	if (jpeg->src->bytes_in_buffer == 0)
		on_end(jpeg);
	jpeg->src->bytes_in_buffer--;
	return *jpeg->src->next_input_byte++;
}

/* An APP1 segment. The whole file is in memory, so it is looked at where it lies; libjpeg would keep
 * all such segments there are. Pillow takes the first one, in front of the first scan. */
static boolean on_app1(j_decompress_ptr jpeg)
{
	static const char exif[5] = {'E', 'x', 'i', 'f', 0};
	struct jpeg_decoder *decoder = jpeg->client_data;
	size_t length = next_byte(jpeg) << 8;
	const uint8_t *segment;

	length |= next_byte(jpeg);
	length = length > 2 ? length - 2 : 0;
	segment = jpeg->src->next_input_byte;
	on_skip(jpeg, (long)length);
	if (!decoder->header_done && decoder->orientation == EXIF_NONE && length >= sizeof(exif) &&
		memcmp(segment, exif, sizeof(exif)) == 0) {
		decoder->orientation = exif_segment_orientation(segment, length);
		if (decoder->orientation == EXIF_NONE)
			decoder->orientation = EXIF_UPRIGHT;
	}
	return TRUE;
}

static void read_header(struct jpeg_decoder *decoder)
{
	struct jpeg_decompress_struct *jpeg = &decoder->jpeg;

	jpeg_create_decompress(jpeg);
	/* What the environment says of memory (JPEGMEM) is not for us. */
	jpeg->mem->max_memory_to_use = 0;
	jpeg->progress = &decoder->progress;
	jpeg->src = &decoder->source;
	jpeg_set_marker_processor(jpeg, JPEG_APP0 + 1, on_app1);
	jpeg_read_header(jpeg, TRUE);
	decoder->header_done = true;
}

static int check_header(const struct jpeg_decoder *decoder)
{
	uint32_t width = decoder->jpeg.image_width, height = decoder->jpeg.image_height;
	int components = decoder->jpeg.num_components;

	if ((uint64_t)width * height > decoder->options->max_pixels)
		return error_set(decoder->error, DECODE_BAD,
			"JPEG of %u x %u pixels is larger than the limit of %llu pixels (max_pixels)",
			width, height, (unsigned long long)decoder->options->max_pixels);
	if (components != 1 && components != 3 && components != CMYK_CHANNELS)
		return error_set(decoder->error, DECODE_BAD,
			"JPEG of %d components is neither grey nor RGB nor CMYK", components);
	return 0;
}

/* Rows of 1 or 3 channels, which libjpeg makes in place. */
static void read_rows(struct jpeg_decoder *decoder)
{
	struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
	size_t stride = (size_t)decoder->image->width * decoder->image->channels;
	JSAMPROW rows[ROWS_AT_ONCE];

	while (jpeg->output_scanline < jpeg->output_height) {
		JDIMENSION left = jpeg->output_height - jpeg->output_scanline;

		for (JDIMENSION i = 0; i < left && i < ROWS_AT_ONCE; i++)
			rows[i] = decoder->image->pixels + (jpeg->output_scanline + i) * stride;
		jpeg_read_scanlines(jpeg, rows, left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE);
	}
}

/*
 * CMYK as Pillow's convert('RGB') sees it. Pillow takes every CMYK file for inverted, as Adobe writes
 * them: a byte is 255 minus the ink. With c = 255 - byte and k the byte of black the channel is
 * k - c k / 255, rounded as in Pillow's MULDIV255.
 */
static uint8_t channel_of_ink(uint8_t byte, uint8_t k)
{
	uint32_t product = (255u - byte) * k + 128;

	return (uint8_t)(k - (((product >> 8) + product) >> 8));
}

static void convert_cmyk_row(uint8_t *out, const uint8_t *in, uint32_t width)
{
	for (uint32_t x = 0; x < width; x++, in += CMYK_CHANNELS, out += 3)
		for (int c = 0; c < 3; c++)
			out[c] = channel_of_ink(in[c], in[3]);
}

/* Rows that are CMYK, or do not lie in the result as they do in the file. */
static void read_and_place_rows(struct jpeg_decoder *decoder)
{
	struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
	bool cmyk = jpeg->num_components == CMYK_CHANNELS;
	uint32_t width = jpeg->output_width, channels = decoder->image->channels;
	JDIMENSION stride = width * (JDIMENSION)(cmyk ? CMYK_CHANNELS : (int)channels);
	JSAMPARRAY rows = jpeg->mem->alloc_sarray(
		(j_common_ptr)jpeg, JPOOL_IMAGE, stride * (JDIMENSION)ROWS_AT_ONCE, 1);
	JSAMPROW pointers[ROWS_AT_ONCE];

	for (JDIMENSION i = 0; i < ROWS_AT_ONCE; i++)
		pointers[i] = rows[0] + (size_t)i * stride;
	while (jpeg->output_scanline < jpeg->output_height) {
		uint32_t y = jpeg->output_scanline;
		uint32_t left = jpeg->output_height - y;
		uint32_t got = jpeg_read_scanlines(
			jpeg, pointers, left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE);

		for (uint32_t i = 0; cmyk && i < got; i++)
			convert_cmyk_row(pointers[i], pointers[i], width);
		placement_put(&decoder->placement, decoder->image->pixels, channels, y, rows[0],
			width, stride, got);
	}
}

/* Damage behind the last row is an error as far as Pillow looks: it hands files over in blocks and asks
 * for no further one when all rows are there. */
static void finish(struct jpeg_decoder *decoder)
{
	size_t used = decoder->length - decoder->source.bytes_in_buffer;
	size_t ahead = (PILLOW_BLOCK - used % PILLOW_BLOCK) % PILLOW_BLOCK;

	decoder->rows_done = true;
	if (ahead < decoder->source.bytes_in_buffer)
		decoder->source.bytes_in_buffer = ahead;
	jpeg_finish_decompress(&decoder->jpeg);
}

static uint64_t coefficient_bytes(const struct jpeg_decompress_struct *jpeg)
{
	return (uint64_t)jpeg->image_width * jpeg->image_height * (uint64_t)jpeg->num_components *
	       sizeof(JCOEF);
}

static void read_picture(struct jpeg_decoder *decoder)
{
	struct jpeg_decompress_struct *jpeg = &decoder->jpeg;

	/* Everything else, the slow and exact DCT and smooth upsampling above all, stays as libjpeg has
	 * it, for so it does in Pillow. */
	jpeg->out_color_space = jpeg->num_components == CMYK_CHANNELS ? JCS_CMYK
				: decoder->image->channels == 1       ? JCS_GRAYSCALE
								      : JCS_RGB;
	jpeg->mem->max_memory_to_use = (long)(coefficient_bytes(jpeg) + DECODE_MEMORY_EXTRA);
	jpeg_start_decompress(jpeg);
	if (jpeg->num_components == CMYK_CHANNELS || decoder->orientation > EXIF_UPRIGHT)
		read_and_place_rows(decoder);
	else
		read_rows(decoder);
	finish(decoder);
}

/* Runs a step; every error inside libjpeg comes back here. No locals, so none can be clobbered. */
static int run(struct jpeg_decoder *decoder, void (*step)(struct jpeg_decoder *decoder))
{
	if (setjmp(decoder->on_error) != 0)
		return decoder->result;
	step(decoder);
	return 0;
}

/* Read the header; whatever comes of it, finish with jpeg_destroy_decompress. */
static int begin(struct jpeg_decoder *decoder)
{
	int r;

	decoder->jpeg.err = jpeg_std_error(&decoder->handlers);
	decoder->jpeg.client_data = decoder;
	decoder->handlers.error_exit = on_error;
	decoder->handlers.emit_message = on_message;
	decoder->progress.progress_monitor = on_progress;
	decoder->source = (struct jpeg_source_mgr){
		.next_input_byte = decoder->bytes,
		.bytes_in_buffer = decoder->length,
		.init_source = on_source,
		.fill_input_buffer = on_end,
		.skip_input_data = on_skip,
		.resync_to_restart = jpeg_resync_to_restart,
		.term_source = on_source,
	};
	r = run(decoder, read_header);
	return r == 0 ? check_header(decoder) : r;
}

static int decode(struct jpeg_decoder *decoder, enum decode_colour colour)
{
	struct image *image = decoder->image;
	bool grey = decoder->jpeg.num_components == 1;
	uint32_t width = decoder->jpeg.image_width, height = decoder->jpeg.image_height;
	bool swap;
	int r;

	if ((decoder->options->flags & DECODE_ORIENT) == 0)
		decoder->orientation = EXIF_NONE;
	decoder->placement = placement_of(decoder->orientation, width, height);
	swap = exif_swaps(decoder->orientation);
	r = image_resize(image, swap ? height : width, swap ? width : height,
		colour == DECODE_L && grey ? 1 : 3);
	if (r == 0)
		r = run(decoder, read_picture);
	if (r == 0 && image->channels != (uint32_t)colour) {
		image_rgb_to_l(image->pixels, image->pixels, (size_t)image->width * image->height);
		image->channels = 1;
	}
	return r;
}

int image_decode_jpeg(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_options *options, struct image *image, struct error_text *error)
{
	struct jpeg_decoder decoder = {
		.bytes = bytes,
		.length = length,
		.options = options,
		.image = image,
		.error = error,
	};
	int r = begin(&decoder);

	if (r == 0)
		r = decode(&decoder, colour);
	jpeg_destroy_decompress(&decoder.jpeg);
	return r;
}

int image_probe_jpeg(const void *bytes, size_t length, const struct decode_options *options,
	struct picture_info *info, struct error_text *error)
{
	struct jpeg_decoder decoder = {
		.bytes = bytes,
		.length = length,
		.options = options,
		.error = error,
	};
	int r = begin(&decoder);

	if (r == 0) {
		uint32_t width = decoder.jpeg.image_width, height = decoder.jpeg.image_height;

		*info = (struct picture_info){
			.width = width,
			.height = height,
			.file_pixels = coefficient_bytes(&decoder.jpeg),
			.orientation = decoder.orientation == EXIF_NONE ? EXIF_UPRIGHT
									: decoder.orientation,
		};
	}
	jpeg_destroy_decompress(&decoder.jpeg);
	return r;
}
