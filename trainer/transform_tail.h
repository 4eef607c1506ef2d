/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/model.h"

#include <stdbool.h>

/*
 * With u8 batches the trainer itself applies the end of the pipeline, ToTensor() and Normalize(...),
 * to the same float values as stokerd would: v / 255, then (x - mean) / std, each rounded to float32.
 */
struct transform_tail {
	char *head; /* the steps before ToTensor, for stokerd; owned */
	uint32_t
		values; /* entries of mean and std: 1 for all channels, or one per channel; 0: none */
	float mean[MODEL_CHANNELS_MAX], std[MODEL_CHANNELS_MAX];
};

#define TRANSFORM_TAIL_NULL                                                                        \
	{                                                                                          \
		.head = NULL                                                                       \
	}

/* Split `transforms`, written as a torchvision user writes them, Compose([...]) around them or not.
 * -EINVAL: there is no ToTensor(), or something else than one Normalize follows it; -ENOMEM. */
int transform_tail_split(
	struct transform_tail *tail, const char *transforms, struct problem *problem);
void transform_tail_finish(struct transform_tail *tail);

/* Do both make the same floats of the same bytes? */
bool transform_tail_equal(const struct transform_tail *a, const struct transform_tail *b);

/* The table of model_normalise for each channel of `input`. -EINVAL: Normalize has another number of
 * channels. */
int transform_tail_table(
	const struct transform_tail *tail, struct model_input *input, struct problem *problem);
