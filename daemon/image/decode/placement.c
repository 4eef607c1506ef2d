/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/placement.h"

struct placement placement_of(uint32_t orientation, uint32_t width, uint32_t height)
{
	ptrdiff_t w = (ptrdiff_t)width, h = (ptrdiff_t)height;

	switch (orientation) {
	case 2: return (struct placement){w - 1, -1, w};
	case 3: return (struct placement){w * h - 1, -1, -w};
	case 4: return (struct placement){w * (h - 1), 1, -w};
	case 5: return (struct placement){0, h, 1};
	case 6: return (struct placement){h - 1, h, -1};
	case 7: return (struct placement){w * h - 1, -h, -1};
	case 8: return (struct placement){(w - 1) * h, -h, 1};
	default: return (struct placement){0, 1, w};
	}
}

struct placement placement_part(
	const struct placement *whole, uint32_t x0, uint32_t y0, uint32_t dx, uint32_t dy)
{
	return (struct placement){
		.start = whole->start + (ptrdiff_t)x0 * whole->step_x +
			 (ptrdiff_t)y0 * whole->step_y,
		.step_x = (ptrdiff_t)dx * whole->step_x,
		.step_y = (ptrdiff_t)dy * whole->step_y,
	};
}

/* Column by column: on a picture's side those of a row are far from each other, but those of a column
 * are neighbours. */
void placement_put(const struct placement *placement, uint8_t *pixels, uint32_t channels,
	uint32_t y, const uint8_t *rows, uint32_t width, size_t stride, uint32_t count)
{
	ptrdiff_t start = placement->start + (ptrdiff_t)y * placement->step_y;

	for (uint32_t x = 0; x < width; x++) {
		ptrdiff_t at = start + (ptrdiff_t)x * placement->step_x;
		const uint8_t *in = rows + (size_t)x * channels;

		for (uint32_t i = 0; i < count; i++, at += placement->step_y, in += stride)
			for (uint32_t c = 0; c < channels; c++)
				pixels[at * (ptrdiff_t)channels + c] = in[c];
	}
}
