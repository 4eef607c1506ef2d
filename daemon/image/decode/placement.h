/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Where a picture's pixels go when it is turned as its EXIF orientation says: pixel (x, y) of the file
 * is pixel number start + x step_x + y step_y of the result. Rows are put into their places as they
 * are decoded, so that a turned picture takes no more memory than another.
 */
struct placement {
	ptrdiff_t start, step_x, step_y;
};

/* For a picture that is width x height in the file; any other orientation than 2 .. 8 leaves it. */
struct placement placement_of(uint32_t orientation, uint32_t width, uint32_t height);

/* That of a smaller picture: its pixel (x, y) is pixel (x0 + x dx, y0 + y dy) of the one that
 * `whole` is for. */
struct placement placement_part(
	const struct placement *whole, uint32_t x0, uint32_t y0, uint32_t dx, uint32_t dy);

/* Put `count` rows, the first of which is row y of the file, into `pixels`; each has `width` pixels of
 * `channels` (1 or 3) bytes, and begins `stride` bytes behind the one before. */
void placement_put(const struct placement *placement, uint8_t *pixels, uint32_t channels,
	uint32_t y, const uint8_t *rows, uint32_t width, size_t stride, uint32_t count);
