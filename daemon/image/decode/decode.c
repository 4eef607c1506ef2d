/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/decode.h"

#include <inttypes.h>
#include <string.h>

enum format {
	FORMAT_PNG,
	FORMAT_JPEG,
	FORMAT_OTHER,
};

static enum format format_of(const void *bytes, size_t length)
{
	static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
	static const uint8_t jpeg[] = {0xff, 0xd8, 0xff};

	if (length >= sizeof(png) && memcmp(bytes, png, sizeof(png)) == 0)
		return FORMAT_PNG;
	if (length >= sizeof(jpeg) && memcmp(bytes, jpeg, sizeof(jpeg)) == 0)
		return FORMAT_JPEG;
	return FORMAT_OTHER;
}

static int refuse(size_t length, struct error_text *error)
{
	if (length == 0)
		return error_set(error, DECODE_BAD, "empty file");
	return error_set(error, DECODE_BAD, "not PNG or JPEG");
}

int image_decode(const void *bytes, size_t length, enum decode_colour colour,
	const struct decode_options *options, struct image *image, struct error_text *error)
{
	image->high_byte = false;
	switch (format_of(bytes, length)) {
	case FORMAT_PNG: return image_decode_png(bytes, length, colour, options, image, error);
	case FORMAT_JPEG: return image_decode_jpeg(bytes, length, colour, options, image, error);
	case FORMAT_OTHER: break;
	}
	return refuse(length, error);
}

int image_probe(const void *bytes, size_t length, const struct decode_options *options,
	struct picture_info *info, struct error_text *error)
{
	switch (format_of(bytes, length)) {
	case FORMAT_PNG: return image_probe_png(bytes, length, options, info, error);
	case FORMAT_JPEG: return image_probe_jpeg(bytes, length, options, info, error);
	case FORMAT_OTHER: break;
	}
	return refuse(length, error);
}

int image_check_length(const struct picture_info *info, uint64_t length, struct error_text *error)
{
	if (length <= DECODE_FILE_EXTRA + info->file_pixels)
		return 0;
	return error_set(error, DECODE_BAD,
		"%" PRIu64 " MiB are too much for a picture of %u x %u pixels", length >> 20,
		info->width, info->height);
}
