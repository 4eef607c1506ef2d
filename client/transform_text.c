/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_text.h"

#include "client/transform_scan.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NESTING_MAX = 8, PARAMETERS_MAX = 3 };

/* A transform's parameters in torchvision's order. */
static const struct signature {
	const char *name;
	enum transform_text_kind kind;
	size_t count, required;
	const char *parameters[PARAMETERS_MAX];
} signatures[] = {
	{"Grayscale", TRANSFORM_TEXT_GRAYSCALE, 1, 0, {"num_output_channels"}},
	{"ToTensor", TRANSFORM_TEXT_TO_TENSOR, 0, 0, {NULL}},
	{"Normalize", TRANSFORM_TEXT_NORMALIZE, 3, 2, {"mean", "std", "inplace"}},
};

enum { SIGNATURES = sizeof(signatures) / sizeof(signatures[0]) };

/* A name as it stands in the text, cut to a printable length for "%.*s". */
#define SHOWN(scanner, token)                                                                      \
	(token).length > 40 ? 40 : (int)(token).length, (scanner)->text + (token).at

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

static int parse_bool(struct scanner *scanner)
{
	size_t before = scanner->at;
	struct token token = scan_name(scanner);

	if (token_is(scanner, token, "True") || token_is(scanner, token, "False"))
		return 0; /* `inplace` says how torch works, not what comes out */
	scanner->at = before;
	return scan_expected(scanner, "True or False");
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
	if (scan_peek(scanner) && strchr("+-*/%", scan_peek(scanner)))
		return scan_error(scanner, scanner->at,
			"arithmetic is not understood here: write the resulting number");
	return 0;
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

static int parse_argument(struct scanner *scanner, const struct signature *signature,
	size_t parameter, struct transform_text_step *step)
{
	if (signature->kind == TRANSFORM_TEXT_GRAYSCALE)
		return parse_channels(scanner, &step->channels);
	if (parameter == 2)
		return parse_bool(scanner);
	return parse_values(scanner, signature->parameters[parameter],
		parameter == 0 ? &step->mean : &step->std);
}

/* "mean, std, inplace" */
static const char *list_parameters(const struct signature *signature, char text[64])
{
	text[0] = '\0';
	for (size_t i = 0; i < signature->count; i++) {
		if (i > 0)
			strcat(text, ", ");
		strcat(text, signature->parameters[i]);
	}
	return signature->count ? text : "no arguments";
}

/* Which parameter comes next: named by `name =`, or the next one by position. */
static int choose_parameter(struct scanner *scanner, const struct signature *signature,
	size_t *positional, size_t *parameter)
{
	size_t before = scanner->at;
	struct token name = scan_name(scanner);
	char list[64];

	if (name.length > 0 && scan_take(scanner, '=')) {
		*positional = PARAMETERS_MAX;
		for (*parameter = 0; *parameter < signature->count; ++*parameter) {
			if (token_is(scanner, name, signature->parameters[*parameter]))
				return 0;
		}
		return scan_error(scanner, name.at, "%s has no argument '%.*s'; it takes %s",
			signature->name, SHOWN(scanner, name), list_parameters(signature, list));
	}
	scanner->at = before;
	scan_peek(scanner);
	if (*positional == PARAMETERS_MAX && signature->count > 0)
		return scan_error(scanner, scanner->at,
			"an argument without a name cannot follow one with a name");
	if (*positional >= signature->count)
		return scan_error(scanner, scanner->at, "too many arguments: %s takes %s",
			signature->name, list_parameters(signature, list));
	*parameter = (*positional)++;
	return 0;
}

static int parse_arguments(struct scanner *scanner, const struct signature *signature,
	struct transform_text_step *step)
{
	bool given[PARAMETERS_MAX] = {false};
	size_t positional = 0, parameter = 0;
	int r;

	if (!scan_take(scanner, '('))
		return scan_expected(scanner, "'('");
	while (scan_peek(scanner) != ')') {
		size_t at = scanner->at;

		r = choose_parameter(scanner, signature, &positional, &parameter);
		if (r < 0)
			return r;
		if (given[parameter])
			return scan_error(
				scanner, at, "%s is given twice", signature->parameters[parameter]);
		given[parameter] = true;
		r = parse_argument(scanner, signature, parameter, step);
		if (r < 0)
			return r;
		if (!scan_take(scanner, ',') && scan_peek(scanner) != ')')
			return scan_expected(scanner, "',' or ')'");
	}
	for (size_t i = 0; i < signature->required; i++) {
		if (!given[i])
			return scan_error(scanner, scanner->at,
				"%s needs %s, as in Normalize((0.5,), (0.5,))", signature->name,
				signature->parameters[i]);
	}
	scanner->at++;
	return 0;
}

/* One value stands for all channels, so it can be repeated until both lists are of one length. */
static void repeat_value(struct transform_text_values *values, size_t count)
{
	while (values->count < count)
		values->values[values->count++] = values->values[0];
}

static int unknown_name(struct scanner *scanner, struct token name)
{
	const char *text = scanner->text + name.at, *near;

	if (transform_name_is_foreign(text, name.length))
		return scan_error(scanner, name.at,
			"%.*s is not supported yet; Grayscale, ToTensor and Normalize are",
			SHOWN(scanner, name));
	near = transform_name_suggest(text, name.length);
	if (near)
		return scan_error(scanner, name.at,
			"no transform is called '%.*s'; did you mean %s?", SHOWN(scanner, name),
			near);
	return scan_error(scanner, name.at,
		"no transform is called '%.*s'; Grayscale, ToTensor and Normalize are supported",
		SHOWN(scanner, name));
}

/* [[torchvision.]transforms.]NAME or T.NAME: the NAME. */
static int parse_name(struct scanner *scanner, struct token *name)
{
	struct token parts[3];
	size_t count = 0;

	do {
		*name = scan_name(scanner);
		if (name->length == 0)
			return scan_expected(scanner,
				count ? "the name of a transform" : "a transform like ToTensor()");
		if (count < 3)
			parts[count] = *name;
		count++;
	} while (scan_take(scanner, '.'));

	if (count == 1 ||
		(count == 2 && (token_is(scanner, parts[0], "transforms") ||
				       token_is(scanner, parts[0], "T"))) ||
		(count == 3 && token_is(scanner, parts[0], "torchvision") &&
			token_is(scanner, parts[1], "transforms")))
		return 0;
	return scan_error(scanner, parts[0].at,
		"the module '%.*s' is not known here: write transforms.%.*s or just %.*s",
		SHOWN(scanner, parts[0]), SHOWN(scanner, *name), SHOWN(scanner, *name));
}

static int parse_step(struct scanner *scanner, struct token name)
{
	struct transform_text *pipeline = scanner->pipeline;
	struct transform_text_step step = {.channels = 1};
	int r;

	for (size_t i = 0; i < SIGNATURES; i++) {
		if (!token_is(scanner, name, signatures[i].name))
			continue;
		step.kind = signatures[i].kind;
		r = parse_arguments(scanner, &signatures[i], &step);
		if (r < 0)
			return r;
		repeat_value(&step.mean, step.std.count);
		repeat_value(&step.std, step.mean.count);
		if (pipeline->count == PROTOCOL_TRANSFORMS_MAX)
			return scan_error(scanner, name.at, "more than %d transforms",
				PROTOCOL_TRANSFORMS_MAX);
		pipeline->steps[pipeline->count++] = step;
		return 0;
	}
	return unknown_name(scanner, name);
}

static int parse_list(struct scanner *scanner, char close, int nesting);

/* ([...]) after Compose; the list may be named `transforms` and may be a tuple. */
static int parse_compose(struct scanner *scanner, struct token name, int nesting)
{
	struct token keyword;
	char close;
	int r;

	if (nesting == NESTING_MAX)
		return scan_error(scanner, name.at, "Compose stands inside Compose too often");
	if (!scan_take(scanner, '('))
		return scan_expected(scanner, "'('");
	keyword = scan_name(scanner);
	if (keyword.length > 0 &&
		(!token_is(scanner, keyword, "transforms") || !scan_take(scanner, '='))) {
		scanner->at = keyword.at;
		return scan_expected(scanner, "'[' and a list of transforms");
	}
	close = scan_take(scanner, '[') ? ']' : scan_take(scanner, '(') ? ')' : 0;
	if (!close)
		return scan_expected(scanner, "'[' and a list of transforms");
	r = parse_list(scanner, close, nesting + 1);
	if (r < 0)
		return r;
	scan_take(scanner, ',');
	return scan_take(scanner, ')') ? 0 : scan_expected(scanner, "')' after Compose's list");
}

/* Transforms with commas between, up to `close` or with 0 up to the end of the text. */
static int parse_list(struct scanner *scanner, char close, int nesting)
{
	while (scan_peek(scanner) != close) {
		struct token name;
		int r = parse_name(scanner, &name);

		if (r == 0)
			r = token_is(scanner, name, "Compose")
				    ? parse_compose(scanner, name, nesting)
				    : parse_step(scanner, name);
		if (r < 0)
			return r;
		if (!scan_take(scanner, ',') && scan_peek(scanner) != close)
			return scan_expected(scanner, close == 0     ? "',' or the end"
						      : close == ')' ? "',' or ')'"
								     : "',' or ']'");
	}
	if (close)
		scanner->at++;
	return 0;
}

int transform_text_parse(struct transform_text *pipeline, const char *text)
{
	struct scanner scanner = {.text = text, .pipeline = pipeline};

	*pipeline = (struct transform_text){.count = 0};
	return parse_list(&scanner, 0, 0);
}
