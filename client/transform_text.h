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
	TRANSFORM_TEXT_ERROR_MAX = 384,
};

enum transform_text_kind {
	TRANSFORM_TEXT_GRAYSCALE,
	TRANSFORM_TEXT_TO_TENSOR,
	TRANSFORM_TEXT_NORMALIZE,
};

struct transform_text_values {
	size_t count; /* 1 or TRANSFORM_TEXT_VALUES_MAX */
	float values[TRANSFORM_TEXT_VALUES_MAX];
};

struct transform_text_step {
	enum transform_text_kind kind;
	uint32_t channels;                      /* Grayscale: 1 or 3 */
	struct transform_text_values mean, std; /* Normalize: of one length, finite; std is not 0 */
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
