/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/transform.h"

/*
 * The second half of transform_compile: what follows ToTensor. All of it is a function of a byte, so
 * the 256 values of each channel are carried through the steps, rounded as torch rounds them.
 */
struct compiler {
	struct transform_plan *plan;
	struct error_text *error;
	bool is_any_size;       /* the picture's size is left to chance at this point */
	uint32_t tensor;        /* dtype of the tensor; 0 as long as it is a picture */
	const char *to_tensor;  /* what made a tensor of it */
	bool has_random_values; /* a RandomErasing with value='random' has come */
	float values[3][256];   /* of the tensor, per output channel */
};

/* Each of these: 0 or TRANSFORM_REFUSED. */
int compile_to_tensor(struct compiler *compiler, const char *name, enum pixel_dtype dtype);
int compile_convert(struct compiler *compiler, enum pixel_dtype dtype);
int compile_normalize(struct compiler *compiler, const struct transform_step *step);
int compile_erasing(struct compiler *compiler, const struct random_op *op);

/* Set the plan's dtype and its table. */
int compile_output(struct compiler *compiler, enum pixel_dtype dtype);
