/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A pipeline as a torchvision user writes it:
 *
 *   Grayscale(num_output_channels=1), ToTensor(), Normalize((0.5,), (0.5,))
 *   transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean=[0.5], std=[0.5])])
 *
 * Python's own notation: tuples or lists, trailing commas, line breaks, comments, all its forms of
 * numbers, and arithmetic with them such as 4. / 3 or [0.5] * 3. Arguments have the names, order, forms
 * and defaults of torchvision 0.14. Values of Normalize become float32 by way of double, as
 * torch.as_tensor makes them; other fractions stay doubles, as Python has them. Whether the steps fit
 * together and fit the data set is for the daemon to say.
 */
enum {
	TRANSFORM_TEXT_VALUES_MAX = 3, /* channels of an image */
	TRANSFORM_TEXT_NUMBERS_MAX = 4,
	TRANSFORM_TEXT_EDGE_MAX = 65535, /* pixels in one number */
	TRANSFORM_TEXT_KERNEL_MAX = 255, /* pixels */
	TRANSFORM_TEXT_ERROR_MAX = 512,
};

/* No double is further from 0, and none that must be more than 0 is less than its inverse; values of
 * RandomErasing fit into float32. */
#define TRANSFORM_TEXT_NUMBER_MAX 1e6

enum transform_text_kind {
	TRANSFORM_TEXT_GRAYSCALE,
	TRANSFORM_TEXT_TO_TENSOR,
	TRANSFORM_TEXT_NORMALIZE,
	TRANSFORM_TEXT_RESIZE,
	TRANSFORM_TEXT_CENTER_CROP,
	TRANSFORM_TEXT_PAD,
	TRANSFORM_TEXT_RANDOM_CROP,
	TRANSFORM_TEXT_RANDOM_RESIZED_CROP,
	TRANSFORM_TEXT_RANDOM_HORIZONTAL_FLIP,
	TRANSFORM_TEXT_RANDOM_VERTICAL_FLIP,
	TRANSFORM_TEXT_RANDOM_ROTATION,
	TRANSFORM_TEXT_RANDOM_AFFINE,
	TRANSFORM_TEXT_COLOR_JITTER,
	TRANSFORM_TEXT_RANDOM_GRAYSCALE,
	TRANSFORM_TEXT_GAUSSIAN_BLUR,
	TRANSFORM_TEXT_RANDOM_ERASING,
	TRANSFORM_TEXT_CONVERT_IMAGE_DTYPE,
	TRANSFORM_TEXT_PIL_TO_TENSOR,
};

/* These have the numbers of the protocol. */
enum transform_text_interpolation {
	TRANSFORM_TEXT_NEAREST = 1,
	TRANSFORM_TEXT_BILINEAR,
	TRANSFORM_TEXT_BICUBIC,
	TRANSFORM_TEXT_LANCZOS,
	TRANSFORM_TEXT_BOX,
	TRANSFORM_TEXT_HAMMING,
};

enum transform_text_padding {
	TRANSFORM_TEXT_CONSTANT = 1,
	TRANSFORM_TEXT_EDGE,
	TRANSFORM_TEXT_REFLECT,
	TRANSFORM_TEXT_SYMMETRIC,
};

enum transform_text_dtype {
	TRANSFORM_TEXT_UINT8 = 1,
	TRANSFORM_TEXT_FLOAT16,
	TRANSFORM_TEXT_BFLOAT16,
	TRANSFORM_TEXT_FLOAT32,
};

struct transform_text_values {
	size_t count; /* 1 or TRANSFORM_TEXT_VALUES_MAX */
	float values[TRANSFORM_TEXT_VALUES_MAX];
};

struct transform_text_numbers {
	size_t count;
	uint32_t values[TRANSFORM_TEXT_NUMBERS_MAX];
};

struct transform_text_doubles {
	size_t count;
	double values[TRANSFORM_TEXT_NUMBERS_MAX];
};

/* Names and meanings are those of torchvision's arguments; a pair is the least and the greatest value. */
struct transform_text_step {
	enum transform_text_kind kind;
	uint32_t channels;                      /* Grayscale: 1 or 3 */
	struct transform_text_values mean, std; /* Normalize: of one length, finite; std is not 0 */

	struct transform_text_numbers size; /* Resize and crops: 1, or height and width */
	uint32_t max_size;                  /* Resize: 0, or more than the size */
	enum transform_text_interpolation
		interpolation; /* Resize, RandomResizedCrop; RandomRotation and RandomAffine:
				* NEAREST, BILINEAR or BICUBIC */
	struct transform_text_numbers padding; /* Pad: 1, 2 or 4; RandomCrop: also 0 */
	struct transform_text_numbers
		fill; /* Pad, RandomCrop, RandomRotation, RandomAffine: 0, 1 or 3, up to 255 */
	enum transform_text_padding padding_mode; /* Pad, RandomCrop */
	bool pad_if_needed;                       /* RandomCrop */

	double p; /* flips, RandomGrayscale, RandomErasing: 0 .. 1 */
	struct transform_text_doubles
		scale; /* RandomResizedCrop, RandomErasing: 2; RandomAffine: 0 or 2 */
	struct transform_text_doubles ratio;     /* RandomResizedCrop, RandomErasing: 2 */
	struct transform_text_doubles degrees;   /* RandomRotation, RandomAffine: 2 */
	struct transform_text_doubles center;    /* the same: 0, or x and y */
	bool expand;                             /* RandomRotation */
	struct transform_text_doubles translate; /* RandomAffine: 0, or 2 from 0 to 1 */
	struct transform_text_doubles shear;     /* RandomAffine: 0, 2 or 4 */

	struct transform_text_doubles brightness, contrast, saturation; /* ColorJitter: 0 or 2 */
	struct transform_text_doubles hue;         /* ColorJitter: 0, or 2 from -0.5 to 0.5 */
	struct transform_text_numbers kernel_size; /* GaussianBlur: 1, or of x and y; odd */
	struct transform_text_doubles sigma;       /* GaussianBlur: 2 */
	struct transform_text_doubles value;       /* RandomErasing: 0, 1 or 3 */
	bool random_value;                         /* RandomErasing: in place of `value` */

	enum transform_text_dtype dtype; /* ConvertImageDtype */
};

struct transform_text {
	size_t count;
	struct transform_text_step steps[PROTOCOL_TRANSFORMS_MAX];

	/* When it does not parse: where (both from 1, in characters) and why, in a sentence. */
	size_t line, column;
	char error[TRANSFORM_TEXT_ERROR_MAX];
};

/* Parse all of `text`; empty text is an empty pipeline. 0, or -EINVAL and `error`. */
int transform_text_parse(struct transform_text *pipeline, const char *text);
