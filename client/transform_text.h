/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/frame.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A pipeline as a torchvision user writes it:
 *
 *   Grayscale(num_output_channels=1), ToTensor(), Normalize((0.5,), (0.5,))
 *   transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean=[0.5], std=[0.5])])
 *
 * Python's own notation: tuples or lists, trailing commas, line breaks, comments, all its forms of
 * numbers. Values become float32 by way of double, as torch.as_tensor makes them. Whether the steps
 * fit together and fit the data set is for the daemon to say.
 */
enum {
	TRANSFORM_TEXT_VALUES_MAX = 3, /* channels of an image */
	TRANSFORM_TEXT_NUMBERS_MAX = 4,
	TRANSFORM_TEXT_EDGE_MAX = 65535, /* pixels in one number */
	TRANSFORM_TEXT_ERROR_MAX = 384,
};

enum transform_text_kind {
	TRANSFORM_TEXT_GRAYSCALE,
	TRANSFORM_TEXT_TO_TENSOR,
	TRANSFORM_TEXT_NORMALIZE,
	TRANSFORM_TEXT_RESIZE,
	TRANSFORM_TEXT_CENTER_CROP,
	TRANSFORM_TEXT_PAD,
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

struct transform_text_values {
	size_t count; /* 1 or TRANSFORM_TEXT_VALUES_MAX */
	float values[TRANSFORM_TEXT_VALUES_MAX];
};

struct transform_text_numbers {
	size_t count;
	uint32_t values[TRANSFORM_TEXT_NUMBERS_MAX];
};

struct transform_text_step {
	enum transform_text_kind kind;
	uint32_t channels;                      /* Grayscale: 1 or 3 */
	struct transform_text_values mean, std; /* Normalize: of one length, finite; std is not 0 */

	struct transform_text_numbers size; /* Resize, CenterCrop: 1, or height and width */
	enum transform_text_interpolation interpolation; /* Resize */
	uint32_t max_size;                               /* Resize: 0, or more than the size */
	struct transform_text_numbers padding;           /* Pad: 1, 2 or 4 */
	struct transform_text_numbers fill;              /* Pad: 0, 1 or 3, up to 255 */
	enum transform_text_padding padding_mode;        /* Pad */
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
