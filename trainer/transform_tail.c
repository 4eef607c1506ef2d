/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/transform_tail.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Past white space and Python's comments. */
static const char *skip_space(const char *text)
{
	while (isspace((unsigned char)*text) || *text == '#')
		text += *text == '#' ? strcspn(text, "\n") : 1;
	return text;
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Does this name, and not only its beginning, stand here? */
static bool name_is(const char *text, const char *name)
{
	size_t length = strlen(name);

	return strncmp(text, name, length) == 0 && !is_name(text[length]);
}

/* Past `word` and the space after it, or NULL when something else stands there. */
static const char *skip_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(text, word, length) != 0)
		return NULL;
	return skip_space(text + length);
}

/* Past the module before a name, if one stands there. */
static const char *skip_module(const char *text)
{
	static const char *const modules[] = {"torchvision.transforms.", "transforms.", "T."};

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (strncmp(text, modules[i], strlen(modules[i])) == 0)
			return text + strlen(modules[i]);
	return text;
}

/* Past "transform =" or "self.transform =" before a pasted pipeline. */
static const char *skip_assignment(const char *text)
{
	const char *end = text;

	while (is_name(*end) || *end == '.')
		end++;
	end = skip_space(end);
	return *end == '=' ? skip_space(end + 1) : text;
}

/* Past "Compose([", or NULL when there is none. */
static const char *skip_compose(const char *text)
{
	text = skip_word(skip_module(text), "Compose");
	text = text ? skip_word(text, "(") : NULL;
	return text ? skip_word(text, "[") : NULL;
}

/* The first step of this name, not counting those inside of others. */
static const char *find_step(const char *text, const char *name)
{
	int depth = 0;
	bool begins = true;

	for (text = skip_space(text); *text; text = skip_space(text + 1)) {
		if (begins && depth == 0 && name_is(skip_module(text), name))
			return text;
		if (strchr("([", *text))
			depth++;
		else if (strchr(")]", *text))
			depth--;
		begins = depth == 0 && *text == ',';
	}
	return NULL;
}

/* One number, as Python converts it: to double, then to float32. */
static const char *parse_number(const char *text, float *value)
{
	char *end;

	*value = (float)strtod(text, &end);
	return end == text || !isfinite(*value) ? NULL : skip_space(end);
}

/* "0.5", "(0.5,)", "[0.1, 0.2, 0.3]" */
static const char *parse_values(const char *text, float *values, uint32_t *count)
{
	char close = *text == '(' ? ')' : ']';

	*count = 1;
	if (*text != '(' && *text != '[')
		return parse_number(text, values);
	text = skip_space(text + 1);
	for (*count = 0; *count < MODEL_CHANNELS_MAX && *text != close; ++*count) {
		text = parse_number(text, &values[*count]);
		if (!text || (*text != ',' && *text != close))
			return NULL;
		if (*text == ',')
			text = skip_space(text + 1);
	}
	return *count > 0 && *text == close ? skip_space(text + 1) : NULL;
}

/* `name`= may stand before the values. */
static const char *parse_argument(
	const char *text, const char *name, float *values, uint32_t *count)
{
	const char *after = skip_word(text, name);

	if (after) {
		text = skip_word(after, "=");
		if (!text)
			return NULL;
	}
	return parse_values(text, values, count);
}

/* "Normalize(mean, std)" to its end, or NULL. */
static const char *parse_normalize(struct transform_tail *tail, const char *text)
{
	uint32_t values = 0;

	text = skip_word(skip_module(text), "Normalize");
	text = text ? skip_word(text, "(") : NULL;
	text = text ? parse_argument(text, "mean", tail->mean, &tail->values) : NULL;
	text = text ? skip_word(text, ",") : NULL;
	text = text ? parse_argument(text, "std", tail->std, &values) : NULL;
	if (text && *text == ',')
		text = skip_space(text + 1);
	return text && values == tail->values ? skip_word(text, ")") : NULL;
}

/* A transform of floats that the trainer does not have, or NULL. */
static const char *find_foreign(const char *text)
{
	static const char *const names[] = {"RandomErasing", "ConvertImageDtype", "PILToTensor"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (find_step(text, names[i]))
			return names[i];
	return NULL;
}

/* `composed`: "])" must follow. */
static int parse_tail(
	struct transform_tail *tail, const char *text, bool composed, struct problem *problem)
{
	text = skip_word(skip_module(text), "ToTensor");
	text = skip_word(text, "(");
	text = text ? skip_word(text, ")") : NULL;
	if (text && *text == ',') {
		text = skip_space(text + 1);
		if (*text && *text != ']')
			text = parse_normalize(tail, text);
		if (text && *text == ',')
			text = skip_space(text + 1);
	}
	if (text && composed) {
		text = skip_word(text, "]");
		if (text && *text == ',')
			text = skip_space(text + 1);
		text = text ? skip_word(text, ")") : NULL;
	}
	if (!text || *text)
		return problem_set(problem, -EINVAL,
			"--dtype u8: the transforms must end in \"ToTensor()\" or \"ToTensor(), "
			"Normalize((mean,), (std,))\"; use --dtype f32 for others");
	for (uint32_t i = 0; i < tail->values; i++)
		if (tail->std[i] == 0.0f)
			return problem_set(
				problem, -EINVAL, "Normalize: a standard deviation is 0");
	return 0;
}

static size_t head_length(const char *steps, const char *to_tensor)
{
	size_t length = (size_t)(to_tensor - steps);

	while (length > 0 &&
		(isspace((unsigned char)steps[length - 1]) || steps[length - 1] == ','))
		length--;
	return length;
}

int transform_tail_split(
	struct transform_tail *tail, const char *transforms, struct problem *problem)
{
	const char *begin = skip_assignment(skip_space(transforms));
	const char *composed = skip_compose(begin);
	const char *steps = composed ? composed : begin;
	const char *to_tensor = find_step(steps, "ToTensor"), *foreign;

	*tail = (struct transform_tail)TRANSFORM_TAIL_NULL;
	if (!to_tensor && find_step(steps, "PILToTensor"))
		return problem_set(problem, -EINVAL,
			"--dtype u8: write ToTensor() in place of PILToTensor() and "
			"ConvertImageDtype(torch.float32), or use --dtype f32");
	if (!to_tensor)
		return problem_set(problem, -EINVAL,
			"--dtype u8: no step of the transforms is ToTensor(), which makes the "
			"values float: write them as \"Grayscale(), ToTensor(), "
			"Normalize((0.5,), (0.5,))\" or in one Compose([...])");
	foreign = find_foreign(to_tensor);
	if (foreign)
		return problem_set(problem, -EINVAL,
			"--dtype u8: %s cannot follow ToTensor(), only Normalize(mean, std) can, "
			"because the trainer makes the values float itself; use --dtype f32",
			foreign);
	tail->head = strndup(steps, head_length(steps, to_tensor));
	if (!tail->head)
		return problem_set(problem, -ENOMEM, "out of memory");
	return parse_tail(tail, to_tensor, composed, problem);
}

void transform_tail_finish(struct transform_tail *tail)
{
	free(tail->head);
	tail->head = NULL;
}

bool transform_tail_equal(const struct transform_tail *a, const struct transform_tail *b)
{
	size_t size = a->values * sizeof(a->mean[0]);

	return a->values == b->values && memcmp(a->mean, b->mean, size) == 0 &&
	       memcmp(a->std, b->std, size) == 0;
}

int transform_tail_table(
	const struct transform_tail *tail, struct model_input *input, struct problem *problem)
{
	if (tail->values > 1 && tail->values != input->channels)
		return problem_set(problem, -EINVAL,
			"Normalize has %u channels, the images have %u", tail->values,
			input->channels);
	for (uint32_t channel = 0; channel < input->channels; channel++) {
		uint32_t entry = tail->values > 1 ? channel : 0;

		for (unsigned v = 0; v < 256; v++) {
			float value = (float)v / 255.0f;

			if (tail->values > 0) {
				value -= tail->mean[entry];
				value /= tail->std[entry];
			}
			input->table[channel][v] = value;
		}
	}
	return 0;
}
