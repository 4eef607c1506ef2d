/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_scan.h"

#include <float.h>
#include <math.h>
#include <string.h>

static int parse_channels(struct scanner *scanner, uint32_t *channels)
{
	struct number number;
	int r = scan_number(scanner, &number);

	if (r < 0)
		return r;
	if (!number.integer || (number.value != 1 && number.value != 3))
		return scan_error(scanner, number.at, "num_output_channels must be 1 or 3");
	*channels = number.value;
	return 0;
}

/* `inplace` and `antialias` say how torch works, not what comes out of PIL images. */
static int parse_bool(struct scanner *scanner)
{
	size_t before = scanner->at;
	struct token token = scan_name(scanner);

	if (token_is(scanner, token, "True") || token_is(scanner, token, "False"))
		return 0;
	scanner->at = before;
	return scan_expected(scanner, "True or False");
}

static bool take_none(struct scanner *scanner)
{
	size_t before = scanner->at;

	if (token_is(scanner, scan_name(scanner), "None"))
		return true;
	scanner->at = before;
	return false;
}

static int refuse_arithmetic(struct scanner *scanner)
{
	if (scan_peek(scanner) && strchr("+-*/%", scan_peek(scanner)))
		return scan_error(scanner, scanner->at,
			"arithmetic is not understood here: write the resulting number");
	return 0;
}

/* One value of `mean` or `std`: torch makes a float32 of Python's double. */
static int parse_value(
	struct scanner *scanner, const char *parameter, struct transform_text_values *values)
{
	struct number number;
	float value;
	int r = scan_number(scanner, &number);

	if (r < 0)
		return r;
	/* The largest double that still rounds to FLT_MAX lies half a step above it. */
	if (!(fabs(number.value) < FLT_MAX + 0x1p103))
		return scan_error(scanner, number.at, "too large for float32");
	value = (float)number.value;
	if (parameter[0] == 's' && value == 0)
		return scan_error(scanner, number.at,
			"std must not be 0 (in float32): pixels are divided by it");
	if (values->count == TRANSFORM_TEXT_VALUES_MAX)
		return scan_error(scanner, number.at,
			"%s has more values than an image has channels (%d)", parameter,
			TRANSFORM_TEXT_VALUES_MAX);
	values->values[values->count++] = value;
	return refuse_arithmetic(scanner);
}

/* A tuple or list of numbers, or one number for all channels. */
static int parse_values(
	struct scanner *scanner, const char *parameter, struct transform_text_values *values)
{
	char close = scan_take(scanner, '(') ? ')' : scan_take(scanner, '[') ? ']' : 0;
	size_t open = scanner->at - 1;

	values->count = 0;
	if (!close) {
		char first = scan_peek(scanner);

		if (!first || !strchr("+-.0123456789", first))
			return scan_expected(scanner, "numbers in parentheses, like (0.5,)");
		return parse_value(scanner, parameter, values);
	}
	while (!scan_take(scanner, close)) {
		int r = parse_value(scanner, parameter, values);

		if (r < 0)
			return r;
		if (!scan_take(scanner, ',') && scan_peek(scanner) != close)
			return scan_expected(scanner, close == ')' ? "',' or ')'" : "',' or ']'");
	}
	if (values->count != 1 && values->count != TRANSFORM_TEXT_VALUES_MAX)
		return scan_error(scanner, open, "%s has %zu values; images have 1 or %d channels",
			parameter, values->count, TRANSFORM_TEXT_VALUES_MAX);
	return 0;
}

/* ---- whole numbers ---- */

struct range {
	const char *parameter;
	uint32_t least, most;
	bool counts[TRANSFORM_TEXT_NUMBERS_MAX + 1]; /* how many numbers a sequence may have */
	const char *forms;                           /* the same for people */
};

static int parse_integer(struct scanner *scanner, const struct range *range, uint32_t *value)
{
	struct number number;
	int r = scan_number(scanner, &number);

	if (r < 0)
		return r;
	if (!number.integer || number.value < range->least || number.value > range->most)
		return scan_error(scanner, number.at, "%s must be a whole number from %u to %u",
			range->parameter, range->least, range->most);
	*value = (uint32_t)number.value;
	return refuse_arithmetic(scanner);
}

/* A tuple or list of whole numbers, or one alone. */
static int parse_integers(
	struct scanner *scanner, const struct range *range, struct transform_text_numbers *numbers)
{
	char close = scan_take(scanner, '(') ? ')' : scan_take(scanner, '[') ? ']' : 0;
	size_t open = scanner->at - 1;

	numbers->count = 0;
	if (!close) {
		char first = scan_peek(scanner);

		if (!first || !strchr("+-.0123456789", first))
			return scan_expected(scanner, range->forms);
		numbers->count = 1;
		return parse_integer(scanner, range, &numbers->values[0]);
	}
	while (!scan_take(scanner, close)) {
		int r;

		scan_peek(scanner);
		if (numbers->count == TRANSFORM_TEXT_NUMBERS_MAX)
			return scan_error(scanner, scanner->at,
				"%s has too many values; it takes %s", range->parameter,
				range->forms);
		r = parse_integer(scanner, range, &numbers->values[numbers->count++]);
		if (r < 0)
			return r;
		if (!scan_take(scanner, ',') && scan_peek(scanner) != close)
			return scan_expected(scanner, close == ')' ? "',' or ')'" : "',' or ']'");
	}
	if (!range->counts[numbers->count])
		return scan_error(scanner, open, "%s has %zu values; it takes %s", range->parameter,
			numbers->count, range->forms);
	return 0;
}

static const struct range sizes = {
	"size", 1, TRANSFORM_TEXT_EDGE_MAX, {false, true, true}, "a number or (height, width)"};
static const struct range max_sizes = {.parameter = "max_size", 1, TRANSFORM_TEXT_EDGE_MAX};
static const struct range paddings = {"padding", 0, TRANSFORM_TEXT_EDGE_MAX,
	{false, true, true, false, true},
	"a number, (left and right, top and bottom) or (left, top, right, bottom)"};
static const struct range fills = {
	"fill", 0, 255, {false, true, false, true}, "a number or (red, green, blue)"};
static const struct range codes = {.parameter = "interpolation", 0, 5};

/* ---- names ---- */

/* The last part of a dotted name; what stands before it must be one of `prefixes`. */
static int parse_constant(
	struct scanner *scanner, const char *const *prefixes, const char *what, struct token *last)
{
	char prefix[64] = "";
	size_t length = 0, begin;

	scan_peek(scanner);
	begin = scanner->at;
	*last = scan_name(scanner);
	while (last->length > 0 && scan_take(scanner, '.')) {
		if (length + last->length + 2 > sizeof(prefix))
			break;
		if (length > 0)
			prefix[length++] = '.';
		memcpy(prefix + length, scanner->text + last->at, last->length);
		length += last->length;
		prefix[length] = '\0';
		*last = scan_name(scanner);
	}
	for (size_t i = 0; prefixes[i] && last->length > 0; i++) {
		if (strcmp(prefix, prefixes[i]) == 0)
			return 0;
	}
	scanner->at = begin;
	return scan_expected(scanner, what);
}

static int parse_interpolation(
	struct scanner *scanner, enum transform_text_interpolation *interpolation)
{
	/* Pillow's numbers, which torchvision takes too */
	static const enum transform_text_interpolation by_code[] = {TRANSFORM_TEXT_NEAREST,
		TRANSFORM_TEXT_LANCZOS, TRANSFORM_TEXT_BILINEAR, TRANSFORM_TEXT_BICUBIC,
		TRANSFORM_TEXT_BOX, TRANSFORM_TEXT_HAMMING};
	static const struct {
		const char *name;
		enum transform_text_interpolation interpolation;
	} names[] = {
		{"NEAREST", TRANSFORM_TEXT_NEAREST}, {"BILINEAR", TRANSFORM_TEXT_BILINEAR},
		{"BICUBIC", TRANSFORM_TEXT_BICUBIC}, {"LANCZOS", TRANSFORM_TEXT_LANCZOS},
		{"BOX", TRANSFORM_TEXT_BOX}, {"HAMMING", TRANSFORM_TEXT_HAMMING},
		{"ANTIALIAS", TRANSFORM_TEXT_LANCZOS}, /* older Pillow */
	};
	static const char *const prefixes[] = {"InterpolationMode", "transforms.InterpolationMode",
		"T.InterpolationMode", "torchvision.transforms.InterpolationMode",
		"F.InterpolationMode", "transforms.functional.InterpolationMode",
		"torchvision.transforms.functional.InterpolationMode", "Image", "PIL.Image",
		"Image.Resampling", "PIL.Image.Resampling", "Resampling", NULL};
	char first = scan_peek(scanner);
	struct token name;
	uint32_t code;
	int r;

	if (first && strchr("+-.0123456789", first)) {
		r = parse_integer(scanner, &codes, &code);
		if (r == 0)
			*interpolation = by_code[code];
		return r;
	}
	r = parse_constant(
		scanner, prefixes, "an interpolation like InterpolationMode.BICUBIC", &name);
	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (token_is(scanner, name, names[i].name)) {
			*interpolation = names[i].interpolation;
			return 0;
		}
	}
	return scan_error(scanner, name.at,
		"no interpolation is called '%.*s'; there are NEAREST, BILINEAR, BICUBIC, LANCZOS, "
		"BOX and HAMMING",
		name.length > 40 ? 40 : (int)name.length, scanner->text + name.at);
}

/* A string of Python without escapes. */
static int parse_padding_mode(struct scanner *scanner, enum transform_text_padding *mode)
{
	static const char *const names[] = {"constant", "edge", "reflect", "symmetric"};
	char quote = scan_peek(scanner);
	size_t at = scanner->at;
	struct token name;

	if ((quote == '\'' || quote == '"') && scan_take(scanner, quote)) {
		name = scan_name(scanner);
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (name.at == at + 1 && token_is(scanner, name, names[i]) &&
				scanner->text[scanner->at] == quote) {
				scanner->at++;
				*mode = (enum transform_text_padding)(TRANSFORM_TEXT_CONSTANT + i);
				return 0;
			}
		}
	}
	scanner->at = at;
	return scan_expected(scanner, "'constant', 'edge', 'reflect' or 'symmetric'");
}

/* True, False, None or, as newer torchvision has it, "warn". */
static int parse_antialias(struct scanner *scanner)
{
	char quote = scan_peek(scanner);
	size_t at = scanner->at;

	if (quote == '\'' || quote == '"') {
		if (strncmp(scanner->text + at + 1, "warn", 4) == 0 &&
			scanner->text[at + 5] == quote) {
			scanner->at += 6;
			return 0;
		}
		return scan_expected(scanner, "True, False or None");
	}
	return take_none(scanner) ? 0 : parse_bool(scanner);
}

static int parse_max_size(struct scanner *scanner, uint32_t *max_size)
{
	if (take_none(scanner)) {
		*max_size = 0;
		return 0;
	}
	return parse_integer(scanner, &max_sizes, max_size);
}

/* ---- arguments ---- */

static int parse_resize(struct scanner *scanner, struct transform_text_step *step, size_t parameter)
{
	switch (parameter) {
	case 0: return parse_integers(scanner, &sizes, &step->size);
	case 1: return parse_interpolation(scanner, &step->interpolation);
	case 2: return parse_max_size(scanner, &step->max_size);
	default: return parse_antialias(scanner);
	}
}

static int parse_pad(struct scanner *scanner, struct transform_text_step *step, size_t parameter)
{
	switch (parameter) {
	case 0: return parse_integers(scanner, &paddings, &step->padding);
	case 1: return parse_integers(scanner, &fills, &step->fill);
	default: return parse_padding_mode(scanner, &step->padding_mode);
	}
}

int transform_argument_parse(
	struct scanner *scanner, struct transform_text_step *step, size_t parameter)
{
	switch (step->kind) {
	case TRANSFORM_TEXT_GRAYSCALE: return parse_channels(scanner, &step->channels);
	case TRANSFORM_TEXT_RESIZE: return parse_resize(scanner, step, parameter);
	case TRANSFORM_TEXT_CENTER_CROP: return parse_integers(scanner, &sizes, &step->size);
	case TRANSFORM_TEXT_PAD: return parse_pad(scanner, step, parameter);
	default: break;
	}
	if (parameter == 2)
		return parse_bool(scanner);
	return parse_values(scanner, parameter == 0 ? "mean" : "std",
		parameter == 0 ? &step->mean : &step->std);
}

int transform_arguments_check(
	struct scanner *scanner, const struct transform_text_step *step, const size_t *places)
{
	if (step->kind != TRANSFORM_TEXT_RESIZE || step->max_size == 0)
		return 0;
	if (step->size.count == 2)
		return scan_error(scanner, places[2],
			"max_size goes with the size of the shorter edge only, not with (height, "
			"width)");
	if (step->max_size <= step->size.values[0])
		return scan_error(scanner, places[2], "max_size must be greater than size, %u",
			step->size.values[0]);
	return 0;
}
