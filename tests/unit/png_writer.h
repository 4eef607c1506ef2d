/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A growing file in memory. Zero to begin with; `bytes` is freed by its owner. */
struct png_file {
	uint8_t *bytes;
	size_t length;
};

/* What a test wants written, by libpng, with every filter in turn. */
struct png_picture {
	uint32_t width, height;
	int colour_type, bit_depth; /* as in IHDR */
	int interlaced;             /* 0 or 1 */
	int palette;                /* entries; colour type 3 only */
	int with_gamma;             /* add gAMA 1.0, which must change nothing */
	int with_transparency;      /* add tRNS, likewise */
};

/* The sample of channel c at (x, y), 0 .. 2^bit_depth - 1, or below `palette`. */
uint32_t png_sample(const struct png_picture *picture, uint32_t x, uint32_t y, uint32_t c);
/* Channel c of palette entry i. */
uint8_t png_palette(uint32_t i, uint32_t c);
uint32_t png_channels(const struct png_picture *picture);

void png_file_write(struct png_file *file, const struct png_picture *picture);

/* Insert a chunk at `offset`; its CRC is right unless `crc_error` is flipped into it. */
void png_file_insert(struct png_file *file, size_t offset, const char *type, const void *data,
	uint32_t length, uint32_t crc_error);
/* Offset of the first chunk of this type. */
size_t png_file_find(const struct png_file *file, const char *type);
void png_file_finish(struct png_file *file);
