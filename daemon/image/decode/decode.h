/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/util/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Encoded bytes to pixels, by signature and never by name. What becomes of which file, and where that
 * differs from Pillow, is the table in stokerd(8), section IMAGES; this header has the rest.
 */
enum decode_colour {
	DECODE_L = 1,
	DECODE_RGB = 3,
};

enum decode_flag {
	DECODE_ORIENT = 1,      /* turn the picture as its EXIF data say */
	DECODE_GREY16_CLIP = 2, /* grey of 16 bits is clipped at 255, not its high byte taken */
	DECODE_FLAGS = 3,       /* all of them */
};

struct decode_options {
	uint64_t max_pixels; /* width x height, from the header, before memory is taken */
	uint32_t flags;      /* enum decode_flag bits */
};

/* Pillow's limit for decompression bombs (2 x Image.MAX_IMAGE_PIXELS). */
#define DECODE_MAX_PIXELS UINT64_C(178956970)

/* What a file may cost beside its pixels, in the file and decoded, so that with what else a worker needs
 * it stays below 64 MiB: that many bytes of metadata and padding in it; and what its decoder takes, to
 * the bytes of a progressive JPEG's coefficients. */
#define DECODE_FILE_EXTRA   (UINT64_C(24) << 20)
#define DECODE_MEMORY_EXTRA (UINT64_C(32) << 20)
/* Larger files are no pictures to train on. */
#define DECODE_FILE_MAX (UINT64_C(256) << 20)

enum {
	/* The bytes are no picture that we deliver; `error` says why, without the file's name. */
	DECODE_BAD = 1,
};

/* Decode `bytes` into `image`: 0, DECODE_BAD, -ENOMEM or, where limits are beyond all memory,
 * -EOVERFLOW. Only after 0 does `image` hold anything; its buffer stays usable in any case. */
int image_decode(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_options *options, struct image *image, struct error_text *error);

/* What can be known of a picture before it is decoded. */
struct picture_info {
	uint32_t width, height; /* in the file */
	uint64_t file_pixels; /* bytes that its pixels (PNG) or coefficients (JPEG) take unpacked */
	uint32_t orientation; /* by the EXIF data in the bytes that were given: 1 .. 8 */
	bool more;            /* PNG: further bytes of the file may have EXIF data too */
};

/* Width, height and orientation without decoding anything: 0, DECODE_BAD or -ENOMEM. The front of a file
 * suffices: the first 33 bytes of a PNG, a JPEG up to the data of its first scan. */
int image_probe(const void *bytes, size_t length, const struct decode_options *options,
	struct picture_info *info, struct error_text *error);

/* Can a file of `length` bytes be this picture? Else DECODE_BAD. */
int image_check_length(const struct picture_info *info, uint64_t length, struct error_text *error);

/* The decoders, called by image_decode when the signature is theirs. */
int image_decode_png(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_options *options, struct image *image, struct error_text *error);
int image_probe_png(const void *bytes, size_t length, const struct decode_options *options,
	struct picture_info *info, struct error_text *error);
int image_decode_jpeg(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_options *options, struct image *image, struct error_text *error);
int image_probe_jpeg(const void *bytes, size_t length, const struct decode_options *options,
	struct picture_info *info, struct error_text *error);
