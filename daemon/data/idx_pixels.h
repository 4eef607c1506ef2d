/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/index.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * One sample of an INDEX_IDX, index_pixel_bytes() as they lie in the file, as a picture: height x width x
 * channels bytes into `pixels`. Of 16-bit values the high byte stays, as for 16-bit PNG; with `clip`
 * those of grey samples are cut off at 255 instead, as Pillow does.
 */
void idx_pixels(
	const struct index_header *header, const uint8_t *bytes, bool clip, uint8_t *pixels);
