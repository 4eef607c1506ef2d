/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/util/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Encoded bytes to pixels, by signature and never by name. The result is that of Pillow's
 * Image.open(f).convert('RGB'), or of .convert('RGB').convert('L') for DECODE_L, which is what a
 * torchvision user trains on; grey pictures give L directly, with the same values. Of an animation
 * it is the first picture. Gamma, colour profiles, transparency and EXIF orientation change nothing.
 *
 * PNG with libpng, JPEG with libjpeg-turbo: baseline, progressive and arithmetic, of 8 bits, grey, RGB,
 * YCbCr, CMYK and YCCK. CMYK bytes are taken for inverted, as Pillow takes them. Of a multi-picture
 * file (MPO) it is the first. Warnings of libjpeg pass; a JPEG that ends before its last row does not.
 *
 * Deviations from Pillow 9.4, all of them:
 *   16-bit grey                           the high byte; Pillow clips at 255, pictures turn white
 *   palette index beyond PLTE             black; Pillow's colour differs
 *   CRC error in picture data             refused; Pillow does not look
 *   palette picture without PLTE          refused; Pillow makes grey of it
 *   cut between the last row and IEND     refused; Pillow takes some of them
 *   chunks out of place, unknown critical chunks, impossible header bytes, first frame of an
 *   animation smaller than the picture    refused; Pillow takes some of them
 *   text or profile of unpacked MiBs      decoded, the metadata unread; Pillow refuses
 *   rows of more than 24 MiB              refused, to bound the memory beside the pixels
 *   JPEG of more than 500 scans           refused; each costs a pass over the whole picture
 *   JPEG with metadata (JFIF, MPF, Photoshop) or a TEM marker on which Pillow's own parser
 *   fails                                 decoded, the metadata unread
 */
enum decode_colour {
	DECODE_L = 1,
	DECODE_RGB = 3,
};

struct decode_limits {
	uint64_t max_pixels; /* width x height, from the header, before memory is taken */
};

/* Pillow's limit for decompression bombs (2 x Image.MAX_IMAGE_PIXELS). */
#define DECODE_MAX_PIXELS UINT64_C(178956970)

enum {
	/* The bytes are no picture that we deliver; `error` says why, without the file's name. */
	DECODE_BAD = 1,
};

/* Decode `bytes` into `image`: 0, DECODE_BAD, -ENOMEM or, where limits are beyond all memory,
 * -EOVERFLOW. Only after 0 does `image` hold anything; its buffer stays usable in any case. */
int image_decode(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_limits *limits, struct image *image, struct error_text *error);

/* Width and height from the header alone (the first 33 bytes of a PNG, a JPEG up to the data of its
 * first scan): 0 or DECODE_BAD. */
int image_probe(const void *bytes, size_t length, const struct decode_limits *limits,
	uint32_t *width, uint32_t *height, struct error_text *error);

/* The decoders, called by image_decode when the signature is theirs. */
int image_decode_png(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_limits *limits, struct image *image, struct error_text *error);
int image_probe_png(const void *bytes, size_t length, const struct decode_limits *limits,
	uint32_t *width, uint32_t *height, struct error_text *error);
int image_decode_jpeg(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_limits *limits, struct image *image, struct error_text *error);
int image_probe_jpeg(const void *bytes, size_t length, const struct decode_limits *limits,
	uint32_t *width, uint32_t *height, struct error_text *error);

/* Luma as Pillow's convert('L'): (19595 R + 38470 G + 7471 B + 0x8000) >> 16 (ITU-R 601-2).
 * `l` may be `rgb`. */
void image_rgb_to_l(const uint8_t *rgb, uint8_t *l, size_t pixels);
