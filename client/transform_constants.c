/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_forms.h"

#include <string.h>

/* A name as it stands in the text, cut to a printable length for "%.*s". */
#define SHOWN(scanner, token)                                                                      \
	(token).length > 40 ? 40 : (int)(token).length, (scanner)->text + (token).at

struct constant {
	const char *name;
	uint32_t value;
};

/* Does one of `prefixes` stand before the name? */
static bool has_prefix(const struct literal *literal, const char *const *prefixes)
{
	if (literal->kind != LITERAL_NAME || literal->token.length == 0)
		return false;
	for (size_t i = 0; prefixes[i]; i++) {
		if (strcmp(literal->prefix, prefixes[i]) == 0)
			return true;
	}
	return false;
}

static const struct constant *find_constant(const struct scanner *scanner,
	const struct literal *literal, const struct constant *constants)
{
	for (; constants->name; constants++) {
		if (token_is(scanner, literal->token, constants->name))
			return constants;
	}
	return NULL;
}

/* ---- interpolation ---- */

static int take_interpolation(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, enum transform_text_interpolation *interpolation)
{
	/* Pillow's numbers, which torchvision takes too */
	static const enum transform_text_interpolation by_code[] = {TRANSFORM_TEXT_NEAREST,
		TRANSFORM_TEXT_LANCZOS, TRANSFORM_TEXT_BILINEAR, TRANSFORM_TEXT_BICUBIC,
		TRANSFORM_TEXT_BOX, TRANSFORM_TEXT_HAMMING};
	static const struct constant names[] = {
		{"NEAREST", TRANSFORM_TEXT_NEAREST},
		{"BILINEAR", TRANSFORM_TEXT_BILINEAR},
		{"BICUBIC", TRANSFORM_TEXT_BICUBIC},
		{"LANCZOS", TRANSFORM_TEXT_LANCZOS},
		{"BOX", TRANSFORM_TEXT_BOX},
		{"HAMMING", TRANSFORM_TEXT_HAMMING},
		{"ANTIALIAS", TRANSFORM_TEXT_LANCZOS}, /* older Pillow */
		{NULL, 0},
	};
	static const char *const prefixes[] = {"InterpolationMode", "transforms.InterpolationMode",
		"T.InterpolationMode", "torchvision.transforms.InterpolationMode",
		"F.InterpolationMode", "TF.InterpolationMode", "functional.InterpolationMode",
		"transforms.functional.InterpolationMode", "T.functional.InterpolationMode",
		"torchvision.transforms.functional.InterpolationMode", "Image", "PIL.Image",
		"Image.Resampling", "PIL.Image.Resampling", "Resampling", NULL};
	const struct constant *constant;

	if (literal->kind == LITERAL_NUMBER) {
		const struct number *number = &literal->numbers[0];

		if (!number->integer || !(number->value >= 0 && number->value <= 5))
			return scan_error(scanner, number->at,
				"%s must be a whole number from 0 to 5, or a name like "
				"InterpolationMode.BICUBIC",
				parameter->name);
		*interpolation = by_code[(size_t)number->value];
		return 0;
	}
	if (!has_prefix(literal, prefixes))
		return literal_expected(
			scanner, literal, "an interpolation like InterpolationMode.BICUBIC");
	constant = find_constant(scanner, literal, names);
	if (!constant)
		return scan_error(scanner, literal->token.at,
			"no interpolation is called '%.*s'; there are NEAREST, BILINEAR, BICUBIC, "
			"LANCZOS, BOX and HAMMING",
			SHOWN(scanner, literal->token));
	*interpolation = (enum transform_text_interpolation)constant->value;
	return 0;
}

int form_interpolation(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	return take_interpolation(scanner, parameter, literal, field);
}

int form_map_interpolation(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	enum transform_text_interpolation *interpolation = field;
	int r = take_interpolation(scanner, parameter, literal, interpolation);

	if (r == 0 && *interpolation > TRANSFORM_TEXT_BICUBIC)
		return scan_error(scanner, literal->at,
			"pictures are turned with NEAREST, BILINEAR or BICUBIC only");
	return r;
}

/* ---- dtypes ---- */

int form_dtype(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	static const struct constant names[] = {
		{"uint8", TRANSFORM_TEXT_UINT8},
		{"float16", TRANSFORM_TEXT_FLOAT16},
		{"half", TRANSFORM_TEXT_FLOAT16},
		{"bfloat16", TRANSFORM_TEXT_BFLOAT16},
		{"float32", TRANSFORM_TEXT_FLOAT32},
		{"float", TRANSFORM_TEXT_FLOAT32},
		{NULL, 0},
	};
	static const char *const prefixes[] = {"torch", NULL};
	enum transform_text_dtype *dtype = field;
	const struct constant *constant;

	if (!has_prefix(literal, prefixes))
		return literal_expected(scanner, literal, parameter->wanted);
	constant = find_constant(scanner, literal, names);
	if (!constant)
		return scan_error(scanner, literal->token.at,
			"torch.%.*s is no dtype of batches; there are torch.uint8, torch.float16, "
			"torch.bfloat16 and torch.float32",
			SHOWN(scanner, literal->token));
	*dtype = (enum transform_text_dtype)constant->value;
	return 0;
}

/* ---- strings, True and False ---- */

int form_padding_mode(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	static const struct constant names[] = {
		{"constant", TRANSFORM_TEXT_CONSTANT},
		{"edge", TRANSFORM_TEXT_EDGE},
		{"reflect", TRANSFORM_TEXT_REFLECT},
		{"symmetric", TRANSFORM_TEXT_SYMMETRIC},
		{NULL, 0},
	};
	enum transform_text_padding *mode = field;
	const struct constant *constant = NULL;

	if (literal->kind == LITERAL_STRING)
		constant = find_constant(scanner, literal, names);
	if (!constant)
		return literal_expected(scanner, literal, parameter->wanted);
	*mode = (enum transform_text_padding)constant->value;
	return 0;
}

int form_bool(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	bool *value = field;

	(void)parameter;
	*value = literal_is(scanner, literal, "True");
	if (!*value && !literal_is(scanner, literal, "False"))
		return literal_expected(scanner, literal, "True or False");
	return 0;
}

int form_ignored_bool(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	bool ignored;

	(void)field;
	return form_bool(scanner, parameter, literal, &ignored);
}

/* True, False, None or, as newer torchvision has it, "warn". */
int form_antialias(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	(void)parameter;
	(void)field;
	if (literal_is(scanner, literal, "True") || literal_is(scanner, literal, "False") ||
		literal_is(scanner, literal, "None") ||
		(literal->kind == LITERAL_STRING && token_is(scanner, literal->token, "warn")))
		return 0;
	return literal_expected(scanner, literal, "True, False or None");
}
