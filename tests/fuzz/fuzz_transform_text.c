/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a pipeline: it parses into steps within their ranges, or the error has a place. */
#include "client/transform_text.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_values(const struct transform_text_values *values, bool divisor)
{
	assert(values->count >= 1 && values->count <= TRANSFORM_TEXT_VALUES_MAX);
	for (size_t i = 0; i < values->count; i++) {
		assert(isfinite(values->values[i]));
		assert(!divisor || values->values[i] != 0);
	}
}

static void check_numbers(
	const struct transform_text_numbers *numbers, uint32_t least, uint32_t most)
{
	assert(numbers->count <= TRANSFORM_TEXT_NUMBERS_MAX);
	for (size_t i = 0; i < numbers->count; i++)
		assert(numbers->values[i] >= least && numbers->values[i] <= most);
}

static void check_step(const struct transform_text_step *step)
{
	if (step->kind == TRANSFORM_TEXT_GRAYSCALE)
		assert(step->channels == 1 || step->channels == 3);
	if (step->kind == TRANSFORM_TEXT_NORMALIZE) {
		check_values(&step->mean, false);
		check_values(&step->std, true);
	}
	if (step->kind == TRANSFORM_TEXT_RESIZE || step->kind == TRANSFORM_TEXT_CENTER_CROP) {
		check_numbers(&step->size, 1, TRANSFORM_TEXT_EDGE_MAX);
		assert(step->size.count == 1 || step->size.count == 2);
	}
	if (step->kind == TRANSFORM_TEXT_RESIZE) {
		assert(step->interpolation >= TRANSFORM_TEXT_NEAREST &&
			step->interpolation <= TRANSFORM_TEXT_HAMMING);
		assert(step->max_size == 0 ||
			(step->size.count == 1 && step->max_size > step->size.values[0] &&
				step->max_size <= TRANSFORM_TEXT_EDGE_MAX));
	}
	if (step->kind == TRANSFORM_TEXT_PAD) {
		check_numbers(&step->padding, 0, TRANSFORM_TEXT_EDGE_MAX);
		check_numbers(&step->fill, 0, 255);
		assert(step->padding.count == 1 || step->padding.count == 2 ||
			step->padding.count == 4);
		assert(step->fill.count <= 1 || step->fill.count == 3);
		assert(step->padding_mode >= TRANSFORM_TEXT_CONSTANT &&
			step->padding_mode <= TRANSFORM_TEXT_SYMMETRIC);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct transform_text pipeline;
	char *text = malloc(size + 1);
	int r;

	assert(text);
	memcpy(text, data, size);
	text[size] = '\0';
	r = transform_text_parse(&pipeline, text);
	assert(pipeline.count <= PROTOCOL_TRANSFORMS_MAX);
	if (r == 0) {
		assert(pipeline.error[0] == '\0');
		for (size_t i = 0; i < pipeline.count; i++)
			check_step(&pipeline.steps[i]);
	} else {
		assert(r == -EINVAL);
		assert(pipeline.line >= 1 && pipeline.column >= 1);
		assert(pipeline.line + pipeline.column <= strlen(text) + 2);
		assert(strlen(pipeline.error) < TRANSFORM_TEXT_ERROR_MAX);
		for (const char *c = pipeline.error; *c; c++)
			assert((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f);
	}
	free(text);
	return 0;
}
