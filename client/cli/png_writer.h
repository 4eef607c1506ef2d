/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Encodes pictures into a buffer of its own, which is used again for the next one. */
struct png_writer {
	uint8_t *bytes; /* the file */
	size_t length, capacity;
};

#define PNG_WRITER_NULL                                                                            \
	{                                                                                          \
		.bytes = NULL                                                                      \
	}

/* `pixels`: height x width x channels bytes, channels 1 (grey) or 3 (RGB). 0, -ENOMEM, or -EINVAL
 * (libpng refuses, say, a width of 0). */
int png_writer_encode(struct png_writer *writer, const uint8_t *pixels, uint32_t width,
	uint32_t height, uint32_t channels);

void png_writer_finish(struct png_writer *writer);
