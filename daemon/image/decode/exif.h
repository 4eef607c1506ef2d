/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * EXIF data: a TIFF header and the directory that it points to (TIFF 6.0, section 2; CIPA DC-008). Read
 * as Pillow's getexif() does it, which is more generous than the specification: any number type will do
 * for the orientation, the last of several entries counts, and a directory that is cut short, or has a
 * value outside the data, ends there. Nothing is allocated, and no byte outside `tiff` is looked at.
 */
enum {
	EXIF_NONE = 0,    /* there is no orientation */
	EXIF_UPRIGHT = 1, /* as it lies; also what unusable data and values count for */
	EXIF_ORIENTATION_MAX = 8,
};

/* EXIF_NONE, or 1 .. 8: which corner of the picture the first pixel is (tag 0x0112). */
uint32_t exif_orientation(const uint8_t *tiff, size_t length);

/* The same of the contents of a JPEG file's APP1 segment that begins with "Exif\0". */
uint32_t exif_segment_orientation(const uint8_t *segment, size_t length);

/* Is it one of those that turn a picture on its side? */
static inline int exif_swaps(uint32_t orientation)
{
	return orientation > 4;
}
