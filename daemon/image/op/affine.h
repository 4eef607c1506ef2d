/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/image/op/resample.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Pictures rotated, scaled, sheared and moved, bit for bit as Pillow 9.4's Image.transform(AFFINE)
 * does it (src/libImaging/Geometry.c).
 *
 * Where the point (x, y) of the result is in the picture that it is made of:
 *   xx * x + xy * y + x0,  yx * x + yy * y + y0
 * in pixels, of which the first one reaches from 0 to 1.
 */
struct affine {
	double xx, xy, x0;
	double yx, yy, y0;
};

struct affine_point {
	double x, y;
};

/* Counter-clockwise by `degrees` around `centre`, as Pillow's Image.rotate: sine and cosine are rounded
 * to 15 decimals. Width and height are the picture's; with `expand` they become the result's, which
 * holds the whole turned picture (0 where doubles have no pixels left), and both middles coincide. */
void affine_rotation(struct affine *affine, double degrees, const struct affine_point *centre,
	bool expand, double *width, double *height);

/* What is drawn by torchvision's affine: a picture sheared, turned clockwise and scaled around `centre`,
 * then moved (transforms/functional.py, _get_inverse_affine_matrix). */
struct affine_parameters {
	double angle, shear_x, shear_y; /* degrees */
	double scale;
	struct affine_point centre, translate; /* pixels */
};

void affine_inverse(struct affine *affine, const struct affine_parameters *parameters);

/* Draw width x height pixels of `in` to `out`, another picture: the nearest pixel, or bilinear or bicubic
 * between neighbours, of which the edge's is repeated; `fill`, one value per channel, where the point is
 * not on the picture. No number is too large. 0, -ENOMEM, -EOVERFLOW. */
int affine_draw(const struct affine *affine, const struct image *in, enum resample_filter filter,
	uint32_t width, uint32_t height, const uint8_t *fill, struct image *out);
