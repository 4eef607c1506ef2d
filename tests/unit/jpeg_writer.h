/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/* A file in memory; jpeg_file_finish frees it. */
struct jpeg_file {
	uint8_t *bytes;
	size_t length;
};

/* What a test wants written, by libjpeg, at quality 100. */
struct jpeg_picture {
	uint32_t width, height;
	J_COLOR_SPACE colours; /* of the file; JCS_UNKNOWN = two channels */
	int subsampling;       /* 1 = 4:4:4, 2 = 4:2:0; of YCbCr and YCCK */
	int progressive, arithmetic;
	int restart; /* rows of MCUs between restart markers, 0 = none */
};

/* Byte c of the pixel at (x, y) as libjpeg got it: L, RGB or CMYK. Smooth, so that compression keeps
 * it nearly. */
uint8_t jpeg_sample(uint32_t x, uint32_t y, uint32_t c);
uint32_t jpeg_channels(const struct jpeg_picture *picture);

void jpeg_file_write(struct jpeg_file *file, const struct jpeg_picture *picture);

/* Put bytes in at `offset`, which may be the end. */
void jpeg_file_insert(struct jpeg_file *file, size_t offset, const void *bytes, size_t length);
/* Offset of the first marker of this kind (0xc0 ...), of its 0xff. Looks into no segment. */
size_t jpeg_file_find(const struct jpeg_file *file, uint8_t marker);
/* Offset of the last one; for SOS in a file without such bytes in its data. */
size_t jpeg_file_find_last(const struct jpeg_file *file, uint8_t marker);
void jpeg_file_finish(struct jpeg_file *file);

/* Decode by libjpeg as it comes, into L, RGB or CMYK: the caller frees. */
uint8_t *jpeg_file_read_plainly(const struct jpeg_file *file, J_COLOR_SPACE colours);
