/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/decode/decode.h"

#include <stdbool.h>

struct png_metadata;

/*
 * The chunks of a PNG file (PNG specification, third edition, sections 5 and 11), looked at before
 * libpng takes any memory. Nothing is unpacked and nothing allocated.
 */
struct png_header {
	uint32_t width, height;
	uint8_t bit_depth;   /* 1 2 4 8 16, per sample */
	uint8_t colour_type; /* 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA */
	bool interlaced;     /* Adam7 */
};

/* Signature and IHDR: 0 or DECODE_BAD. The first 33 bytes of a file suffice. */
int png_read_header(const uint8_t *bytes, size_t length, const struct decode_options *options,
	struct png_header *header, struct error_text *error);

/* Bytes of the picture in the file before compression: each row with its filter. Of an interlaced one
 * they are a few more, which are not counted. */
uint64_t png_pixel_bytes(const struct png_header *header);

/*
 * Is every chunk before IEND whole, and would Pillow accept those that libpng is not asked to read?
 * 0 and the offset of IEND in `end`, or DECODE_BAD. IEND itself may be damaged or cut behind its
 * type; Pillow looks no further either.
 *
 * Pillow looks into metadata and refuses pictures for it; its users train without
 * them, so do ours. Two things it does are left out: metadata is never unpacked, so a text or ICC
 * profile that expands beyond measure costs nothing and passes; and of an animation only a first
 * frame that fills the picture is taken.
 *
 * `metadata` gets those chunks that say how the picture lies, as far as the walk came.
 */
int png_check_chunks(const uint8_t *bytes, size_t length, const struct png_header *header,
	struct png_metadata *metadata, size_t *end, struct error_text *error);
