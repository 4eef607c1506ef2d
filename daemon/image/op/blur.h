/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"

#include <stdbool.h>
#include <stdint.h>

/* A Gaussian kernel of odd width and height, with the same sigma, in pixels, both ways. */
struct blur {
	uint32_t width, height; /* BLUR_EDGE_MAX at most */
	double sigma;           /* more than 0 */
};

enum {
	BLUR_EDGE_MAX = 255,
};

/* The kernel reaches less than a picture's length beyond its edges, where pixels are reflected. */
bool blur_fits(const struct blur *blur, uint32_t width, uint32_t height);

/* Blur `in` to `out`, another picture, with a kernel that fits: torchvision's gaussian_blur of a PIL image,
 * which adds up in float32 in another order, so that a value close to a half may be rounded to the
 * other side. 0, -ENOMEM, -EOVERFLOW. */
int blur_draw(const struct blur *blur, const struct image *in, struct image *out);
