/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a pipeline: it parses into steps within their ranges, whose protobuf form the daemon takes,
 * also within their ranges; or the error has a place. */
#include "client/transform_message.h"
#include "daemon/image/draw.h"
#include "daemon/serve/open_transform.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what the parser makes ---- */

static void check_values(const struct transform_text_values *values, bool divisor)
{
	assert(values->count >= 1 && values->count <= TRANSFORM_TEXT_VALUES_MAX);
	for (size_t i = 0; i < values->count; i++) {
		assert(isfinite(values->values[i]));
		assert(!divisor || values->values[i] != 0);
	}
}

/* `counts`: bit n is set where there may be n numbers. */
static void check_numbers(const struct transform_text_numbers *numbers, unsigned int counts,
	uint32_t least, uint32_t most)
{
	assert(counts >> numbers->count & 1);
	for (size_t i = 0; i < numbers->count; i++)
		assert(numbers->values[i] >= least && numbers->values[i] <= most);
}

static void check_doubles(const struct transform_text_doubles *doubles, unsigned int counts,
	double least, double most)
{
	assert(counts >> doubles->count & 1);
	for (size_t i = 0; i < doubles->count; i++)
		assert(doubles->values[i] >= least && doubles->values[i] <= most);
}

static void check_resize(const struct transform_text_step *step)
{
	assert(step->interpolation >= TRANSFORM_TEXT_NEAREST &&
		step->interpolation <= TRANSFORM_TEXT_HAMMING);
	assert(step->max_size == 0 ||
		(step->size.count == 1 && step->max_size > step->size.values[0] &&
			step->max_size <= TRANSFORM_TEXT_EDGE_MAX));
}

/* Members of other kinds are nothing, so that all are checked for all kinds. */
static void check_step(const struct transform_text_step *step)
{
	const double far = TRANSFORM_TEXT_NUMBER_MAX;

	check_numbers(&step->size, 1 | 2 | 4, 1, TRANSFORM_TEXT_EDGE_MAX);
	check_numbers(&step->padding, 1 | 2 | 4 | 16, 0, TRANSFORM_TEXT_EDGE_MAX);
	check_numbers(&step->fill, 1 | 2 | 8, 0, 255);
	check_numbers(&step->kernel_size, 1 | 2 | 4, 1, TRANSFORM_TEXT_KERNEL_MAX);
	check_doubles(&step->scale, 1 | 4, 0, far);
	check_doubles(&step->ratio, 1 | 4, 1 / far, far);
	check_doubles(&step->degrees, 1 | 4, -far, far);
	check_doubles(&step->center, 1 | 4, -far, far);
	check_doubles(&step->translate, 1 | 4, 0, 1);
	check_doubles(&step->shear, 1 | 4 | 16, -far, far);
	check_doubles(&step->brightness, 1 | 4, 0, far);
	check_doubles(&step->contrast, 1 | 4, 0, far);
	check_doubles(&step->saturation, 1 | 4, 0, far);
	check_doubles(&step->hue, 1 | 4, -0.5, 0.5);
	check_doubles(&step->sigma, 1 | 4, 1 / far, far);
	check_doubles(&step->value, 1 | 2 | 8, -INFINITY, INFINITY);
	assert(step->p >= 0 && step->p <= 1);
	assert(step->padding_mode <= TRANSFORM_TEXT_SYMMETRIC);
	if (step->kind == TRANSFORM_TEXT_GRAYSCALE)
		assert(step->channels == 1 || step->channels == 3);
	if (step->kind == TRANSFORM_TEXT_NORMALIZE) {
		check_values(&step->mean, false);
		check_values(&step->std, true);
		assert(step->mean.count == step->std.count);
	}
	if (step->kind == TRANSFORM_TEXT_RESIZE)
		check_resize(step);
}

/* ---- what the daemon makes of it ---- */

static void check_served(struct transform_text *pipeline)
{
	struct transform_messages messages;
	Stoker__V1__Open open = STOKER__V1__OPEN__INIT, *received;
	size_t length;
	uint8_t *packed;

	transform_messages_fill(&messages, pipeline);
	open.transforms = messages.pointers;
	open.n_transforms = pipeline->count;
	length = stoker__v1__open__get_packed_size(&open);
	assert(length < FRAME_CLIENT_MAX);
	packed = malloc(length + 1);
	assert(packed && stoker__v1__open__pack(&open, packed) == length);
	received = stoker__v1__open__unpack(NULL, length, packed);
	assert(received && received->n_transforms == pipeline->count);
	for (size_t i = 0; i < received->n_transforms; i++) {
		struct transform_step step = {.kind = 0};
		struct error_text error = {""};

		assert(open_transform_parse(&step, received->transforms[i], &error) == 0);
		if (step.kind == TRANSFORM_RANDOM)
			assert(random_op_valid(&step.random, 3));
	}
	stoker__v1__open__free_unpacked(received, NULL);
	free(packed);
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
		check_served(&pipeline);
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
