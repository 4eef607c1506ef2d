/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/idx_pixels.h"

#include <stddef.h>

/* A big-endian 16-bit value as a byte. */
static uint8_t narrow(const uint8_t *value, bool clip)
{
	if (!clip)
		return value[0];
	return value[0] != 0 ? UINT8_MAX : value[1];
}

void idx_pixels(const struct index_header *header, const uint8_t *bytes, bool clip, uint8_t *pixels)
{
	size_t count = (size_t)header->width * header->height, channels = header->channels;
	bool wide = header->pixels & INDEX_PIXELS_16BIT,
	     planar = header->pixels & INDEX_PIXELS_PLANAR;
	size_t bytes_per_value = wide ? 2 : 1;
	/* From one pixel to the next, and from one channel to the next, in the file. */
	size_t pixel_step = bytes_per_value * (planar ? 1 : channels);
	size_t channel_step = bytes_per_value * (planar ? count : 1);

	clip = clip && channels == 1;
	for (size_t i = 0; i < count; i++) {
		for (size_t c = 0; c < channels; c++) {
			const uint8_t *value = bytes + i * pixel_step + c * channel_step;

			*pixels++ = wide ? narrow(value, clip) : *value;
		}
	}
}
