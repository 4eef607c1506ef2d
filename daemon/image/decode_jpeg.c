/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode.h"

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

enum {
	ROWS_AT_ONCE = 16, /* an iMCU row of 4:2:0 */
	CMYK_CHANNELS = 4,
	PILLOW_BLOCK = 65536, /* ImageFile.MAXBLOCK */
	/* Pictures have some ten scans; each costs a pass over all coefficients. */
	SCANS_MAX = 500,
};

/*
 * What libjpeg may take beside the coefficients of a file of several scans: it rounds each component
 * up to whole iMCUs. Where this is too little it refuses.
 */
#define JPEG_MEMORY_MAX (UINT64_C(48) << 20)

/* One decoding. libjpeg's callbacks see it, and it outlives every longjmp. */
struct jpeg_decoder {
	struct jpeg_decompress_struct jpeg; /* client_data points back */
	struct jpeg_error_mgr handlers;
	struct jpeg_source_mgr source;
	struct jpeg_progress_mgr progress;
	jmp_buf on_error;
	const uint8_t *bytes;
	size_t length;
	const struct decode_limits *limits;
	struct image *image;
	struct error_text *error;
	bool rows_done;
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
			(unsigned int)(JPEG_MEMORY_MAX >> 20));
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

static void read_header(struct jpeg_decoder *decoder)
{
	struct jpeg_decompress_struct *jpeg = &decoder->jpeg;

	jpeg_create_decompress(jpeg);
	/* What the environment says of memory (JPEGMEM) is not for us. */
	jpeg->mem->max_memory_to_use = 0;
	jpeg->progress = &decoder->progress;
	jpeg->src = &decoder->source;
	jpeg_read_header(jpeg, TRUE);
}

static int check_header(const struct jpeg_decoder *decoder)
{
	uint32_t width = decoder->jpeg.image_width, height = decoder->jpeg.image_height;
	int components = decoder->jpeg.num_components;

	if ((uint64_t)width * height > decoder->limits->max_pixels)
		return error_set(decoder->error, DECODE_BAD,
			"JPEG of %u x %u pixels is larger than the limit of %llu pixels", width,
			height, (unsigned long long)decoder->limits->max_pixels);
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

static void read_cmyk_rows(struct jpeg_decoder *decoder)
{
	struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
	JSAMPARRAY row = jpeg->mem->alloc_sarray(
		(j_common_ptr)jpeg, JPOOL_IMAGE, jpeg->output_width * (JDIMENSION)CMYK_CHANNELS, 1);
	uint8_t *out = decoder->image->pixels;

	while (jpeg->output_scanline < jpeg->output_height) {
		const uint8_t *in = row[0];

		jpeg_read_scanlines(jpeg, row, 1);
		for (JDIMENSION x = 0; x < jpeg->output_width; x++, in += CMYK_CHANNELS, out += 3)
			for (int c = 0; c < 3; c++)
				out[c] = channel_of_ink(in[c], in[3]);
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

static void read_picture(struct jpeg_decoder *decoder)
{
	struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
	uint64_t coefficients = (uint64_t)jpeg->image_width * jpeg->image_height *
				jpeg->num_components * sizeof(JCOEF);

	/* Everything else, the slow and exact DCT and smooth upsampling above all, stays as libjpeg has
	 * it, for so it does in Pillow. */
	jpeg->out_color_space = jpeg->num_components == CMYK_CHANNELS ? JCS_CMYK
				: decoder->image->channels == 1       ? JCS_GRAYSCALE
								      : JCS_RGB;
	jpeg->mem->max_memory_to_use = (long)(coefficients + JPEG_MEMORY_MAX);
	jpeg_start_decompress(jpeg);
	if (jpeg->num_components == CMYK_CHANNELS)
		read_cmyk_rows(decoder);
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
	int r = image_resize(image, decoder->jpeg.image_width, decoder->jpeg.image_height,
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
	const struct decode_limits *limits, struct image *image, struct error_text *error)
{
	struct jpeg_decoder decoder = {
		.bytes = bytes,
		.length = length,
		.limits = limits,
		.image = image,
		.error = error,
	};
	int r = begin(&decoder);

	if (r == 0)
		r = decode(&decoder, colour);
	jpeg_destroy_decompress(&decoder.jpeg);
	return r;
}

int image_probe_jpeg(const void *bytes, size_t length, const struct decode_limits *limits,
	uint32_t *width, uint32_t *height, struct error_text *error)
{
	struct jpeg_decoder decoder = {
		.bytes = bytes,
		.length = length,
		.limits = limits,
		.error = error,
	};
	int r = begin(&decoder);

	if (r == 0) {
		*width = decoder.jpeg.image_width;
		*height = decoder.jpeg.image_height;
	}
	jpeg_destroy_decompress(&decoder.jpeg);
	return r;
}
