/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How a PNG picture lies: the chunks of metadata that Pillow's getexif() looks at. EXIF data are in
 * eXIf (PNG specification, third edition, 11.3.4.6), or, as ImageMagick writes them, in a text of
 * hexadecimal digits; where those have no orientation, an XMP text may. Of several chunks of one kind
 * the last counts; those behind the picture only where no eXIf stands in front of it.
 */
struct png_chunk {
	const uint8_t *data; /* in the file */
	uint32_t length;
	char type[5];
};

struct png_metadata {
	struct png_chunk exif;         /* data NULL = there is none, likewise below */
	struct png_chunk profile, xmp; /* tEXt, zTXt or iTXt */
	bool complete;                 /* no later chunk counts */
};

#define PNG_METADATA_NULL                                                                          \
	{                                                                                          \
		.complete = false                                                                  \
	}

/* The next chunk of the file, which may be of any type. */
void png_metadata_note(struct png_metadata *metadata, const struct png_chunk *chunk);

/* The picture's data begin. */
void png_metadata_end_front(struct png_metadata *metadata);

/* 1 .. 8 in `orientation`; 0 or -ENOMEM. A text takes at most 2 MiB of memory meanwhile; longer ones are
 * not read. */
int png_metadata_orientation(const struct png_metadata *metadata, uint32_t *orientation);
