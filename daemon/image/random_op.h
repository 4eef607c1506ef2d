/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * A random transform as its user wrote it: the ranges from which the numbers of image operations are
 * drawn for each sample. Plain values; they cross a socket as parts of a plan. Names and meanings are
 * torchvision's; a pair is the least and the greatest value.
 */
enum random_kind {
	RANDOM_CROP = 1,
	RANDOM_RESIZED_CROP,
	RANDOM_FLIP_HORIZONTAL,
	RANDOM_FLIP_VERTICAL,
	RANDOM_ROTATION,
	RANDOM_AFFINE,
	RANDOM_COLOUR_JITTER,
	RANDOM_GREY,
	RANDOM_BLUR,
	RANDOM_ERASING,
};

struct random_op {
	uint32_t kind;          /* enum random_kind */
	uint32_t transform;     /* place in the pipeline: part of the key of what is drawn */
	uint32_t width, height; /* CROP, RESIZED_CROP: of the result */
	uint32_t filter;        /* RESIZED_CROP, ROTATION, AFFINE: enum resample_filter */
	uint32_t left, top, right, bottom; /* CROP: padding before it */
	uint32_t pad_if_needed;            /* CROP: 0 or 1 */
	uint32_t mode;                     /* CROP: enum window_mode of the padding */
	uint8_t fill[4];     /* CROP, ROTATION, AFFINE: per channel; the fourth is 0 */
	uint32_t expand;     /* ROTATION: 0 or 1 */
	uint32_t has_centre; /* ROTATION, AFFINE: 0 = the middle */
	double centre_x, centre_y;
	double p;                      /* FLIP_*, GREY, ERASING: 0 .. 1 */
	double degrees[2];             /* ROTATION, AFFINE */
	double translate[2];           /* AFFINE: of x and y, fractions 0 .. 1; 0, 0: none */
	double scale[2];               /* RESIZED_CROP, ERASING: of the area; AFFINE: 1, 1: none */
	double ratio[2];               /* RESIZED_CROP, ERASING: width / height, more than 0 */
	double shear_x[2], shear_y[2]; /* AFFINE: degrees; 0, 0: none */
	uint32_t jitter;               /* COLOUR_JITTER: which are changed, bits of enum jitter */
	double brightness[2], contrast[2], saturation[2]; /* COLOUR_JITTER: 0 or more */
	double hue[2];                                    /* COLOUR_JITTER: -0.5 .. 0.5 */
	uint32_t kernel_width, kernel_height;             /* BLUR: odd */
	double sigma[2];                                  /* BLUR: more than 0 */
	uint32_t values;       /* ERASING: how many of `value`, 1 or the channels */
	uint32_t random_value; /* ERASING: 1 = normally distributed in place of `value` */
	double value[3];
};

enum jitter {
	JITTER_BRIGHTNESS = 1,
	JITTER_CONTRAST = 2,
	JITTER_SATURATION = 4,
	JITTER_HUE = 8,
};
