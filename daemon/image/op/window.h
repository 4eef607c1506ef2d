/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"

#include <stdint.h>

/* What stands beyond a picture's edge, as in torchvision's Pad. */
enum window_mode {
	WINDOW_CONSTANT = 1, /* the fill */
	WINDOW_EDGE,         /* the edge's pixel: 1 1 | 1 2 3 | 3 3 */
	WINDOW_REFLECT,      /* without the edge: 3 2 | 1 2 3 | 2 1 */
	WINDOW_SYMMETRIC,    /* with the edge:    2 1 | 1 2 3 | 3 2 */
};

/* A window onto a picture; it may reach beyond the picture on each side. */
struct window {
	int64_t left, top; /* of the window's first pixel; negative = beyond the edge */
	uint32_t width, height;
	enum window_mode mode;
	uint8_t fill[3]; /* constant: one per channel of the picture */
};

/* Copy what the window shows to `out`, another picture. 0, -ENOMEM, -EOVERFLOW. */
int window_copy(const struct window *window, const struct image *in, struct image *out);
