/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"

/*
 * Colours of a picture, changed in place, bit for bit as torchvision 0.14 changes those of a PIL image.
 * The first three mix it with a black one, a grey one of its mean luma, and itself without colour, as
 * Pillow's Image.blend: in float32, cut off, clipped. 0 is the other picture, 1 changes nothing, more goes
 * away from the other one. The factor is finite.
 */
void colour_brightness(struct image *image, double factor);
void colour_contrast(struct image *image, double factor);
void colour_saturation(struct image *image, double factor);

/* Hue in Pillow's HSV of bytes, turned by trunc(255 * factor) of 255ths; factor is -0.5 .. 0.5. Nothing
 * happens to L; RGB suffers from the bytes between even by 0. */
void colour_hue(struct image *image, double factor);

/* Each pixel's luma in all channels. */
void colour_grey(struct image *image);
