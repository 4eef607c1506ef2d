/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/jpeg_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

uint8_t jpeg_sample(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint8_t)(20 + (x * (c + 2) + y * (5 - c)) * 2 % 200);
}

uint32_t jpeg_channels(const struct jpeg_picture *picture)
{
	switch (picture->colours) {
	case JCS_UNKNOWN: return 2;
	case JCS_GRAYSCALE: return 1;
	case JCS_CMYK:
	case JCS_YCCK: return 4;
	default: return 3;
	}
}

static void set_parameters(struct jpeg_compress_struct *jpeg, const struct jpeg_picture *picture)
{
	static const J_COLOR_SPACE in[] = {
		[1] = JCS_GRAYSCALE, [2] = JCS_UNKNOWN, [3] = JCS_RGB, [4] = JCS_CMYK};

	jpeg->image_width = picture->width;
	jpeg->image_height = picture->height;
	jpeg->input_components = (int)jpeg_channels(picture);
	jpeg->in_color_space = in[jpeg->input_components];
	jpeg_set_defaults(jpeg);
	jpeg_set_colorspace(jpeg, picture->colours);
	jpeg_set_quality(jpeg, 100, TRUE);
	jpeg->arith_code = picture->arithmetic;
	jpeg->restart_in_rows = picture->restart;
	if (picture->colours == JCS_YCbCr || picture->colours == JCS_YCCK)
		jpeg->comp_info[0].h_samp_factor = jpeg->comp_info[0].v_samp_factor =
			picture->subsampling;
	if (picture->colours == JCS_YCCK)
		jpeg->comp_info[3].h_samp_factor = jpeg->comp_info[3].v_samp_factor =
			picture->subsampling;
	if (picture->progressive)
		jpeg_simple_progression(jpeg);
}

void jpeg_file_write(struct jpeg_file *file, const struct jpeg_picture *picture)
{
	struct jpeg_compress_struct jpeg;
	struct jpeg_error_mgr handlers;
	uint32_t channels = jpeg_channels(picture);
	uint8_t *row = malloc((size_t)picture->width * channels);
	unsigned long length = 0;

	assert(row != NULL);
	*file = (struct jpeg_file){.bytes = NULL};
	jpeg.err = jpeg_std_error(&handlers);
	jpeg_create_compress(&jpeg);
	jpeg_mem_dest(&jpeg, &file->bytes, &length);
	set_parameters(&jpeg, picture);
	jpeg_start_compress(&jpeg, TRUE);
	for (uint32_t y = 0; y < picture->height; y++) {
		for (uint32_t i = 0; i < picture->width * channels; i++)
			row[i] = jpeg_sample(i / channels, y, i % channels);
		jpeg_write_scanlines(&jpeg, &row, 1);
	}
	jpeg_finish_compress(&jpeg);
	jpeg_destroy_compress(&jpeg);
	file->length = length;
	free(row);
}

void jpeg_file_insert(struct jpeg_file *file, size_t offset, const void *bytes, size_t length)
{
	assert(offset <= file->length);
	file->bytes = realloc(file->bytes, file->length + length);
	assert(file->bytes != NULL);
	memmove(file->bytes + offset + length, file->bytes + offset, file->length - offset);
	memcpy(file->bytes + offset, bytes, length);
	file->length += length;
}

size_t jpeg_file_find(const struct jpeg_file *file, uint8_t marker)
{
	size_t offset = 2;

	while (offset + 4 <= file->length && file->bytes[offset + 1] != marker) {
		assert(file->bytes[offset] == 0xff);
		offset += 2 + (size_t)(file->bytes[offset + 2] << 8 | file->bytes[offset + 3]);
	}
	assert(offset + 4 <= file->length);
	return offset;
}

size_t jpeg_file_find_last(const struct jpeg_file *file, uint8_t marker)
{
	size_t offset = file->length - 2;

	while (file->bytes[offset] != 0xff || file->bytes[offset + 1] != marker) {
		assert(offset > 0);
		offset--;
	}
	return offset;
}

void jpeg_file_finish(struct jpeg_file *file)
{
	free(file->bytes);
	*file = (struct jpeg_file){.bytes = NULL};
}

uint8_t *jpeg_file_read_plainly(const struct jpeg_file *file, J_COLOR_SPACE colours)
{
	struct jpeg_decompress_struct jpeg;
	struct jpeg_error_mgr handlers;
	uint8_t *pixels;
	size_t stride;

	jpeg.err = jpeg_std_error(&handlers);
	jpeg_create_decompress(&jpeg);
	jpeg_mem_src(&jpeg, file->bytes, file->length);
	jpeg_read_header(&jpeg, TRUE);
	jpeg.out_color_space = colours;
	jpeg_start_decompress(&jpeg);
	stride = (size_t)jpeg.output_width * (size_t)jpeg.output_components;
	pixels = malloc(stride * jpeg.output_height);
	assert(pixels != NULL);
	while (jpeg.output_scanline < jpeg.output_height) {
		JSAMPROW row = pixels + stride * jpeg.output_scanline;

		jpeg_read_scanlines(&jpeg, &row, 1);
	}
	jpeg_finish_decompress(&jpeg);
	jpeg_destroy_decompress(&jpeg);
	return pixels;
}
