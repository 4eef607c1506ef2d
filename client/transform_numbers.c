/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_forms.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- what all have in common ---- */

/* Is it None, where that leaves the field as it is? */
static bool takes_none(const struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal)
{
	return (parameter->allows & ALLOWS_NONE) && literal_is(scanner, literal, "None");
}

/* A sequence of as many values as the parameter may have, or one number. */
static int check_shape(
	struct scanner *scanner, const struct parameter *parameter, const struct literal *literal)
{
	if (literal->kind == LITERAL_NUMBER && (parameter->allows & ALLOWS_NUMBER))
		return 0;
	if (literal->kind != LITERAL_SEQUENCE)
		return literal_expected(scanner, literal, parameter->wanted);
	if (!(parameter->counts >> literal->count & 1))
		return scan_error(scanner, literal->at, "%s has %zu value%s; it takes %s",
			parameter->name, literal->count, literal->count == 1 ? "" : "s",
			parameter->wanted);
	return 0;
}

/* Within the parameter's range? A NaN is not. */
static int check_range(
	struct scanner *scanner, const struct parameter *parameter, const struct number *number)
{
	if (number->value >= parameter->least && number->value <= parameter->most)
		return 0;
	return scan_error(scanner, number->at, "%s must be from %.10g to %.10g", parameter->name,
		parameter->least, parameter->most);
}

/* ---- whole numbers ---- */

static int take_whole(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, size_t i, uint32_t *value)
{
	struct number number = literal->numbers[i];

	if (!number.integer &&
		(((parameter->allows & ALLOWS_CUT) && literal->kind == LITERAL_NUMBER) ||
			((parameter->allows & ALLOWS_INTEGRAL) &&
				number.value == trunc(number.value)))) {
		number.integer = true;
		number.value = trunc(number.value);
	}
	if (!number.integer ||
		!(number.value >= parameter->least && number.value <= parameter->most))
		return scan_error(scanner, number.at, "%s must be a whole number from %.0f to %.0f",
			parameter->name, parameter->least, parameter->most);
	*value = (uint32_t)number.value;
	return 0;
}

int form_whole_numbers(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	struct transform_text_numbers *numbers = field;
	int r;

	if (takes_none(scanner, parameter, literal))
		return 0;
	r = check_shape(scanner, parameter, literal);
	for (size_t i = 0; i < literal->count && r == 0; i++)
		r = take_whole(scanner, parameter, literal, i, &numbers->values[i]);
	numbers->count = literal->count;
	return r;
}

int form_kernel(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	const struct transform_text_numbers *numbers = field;
	int r = form_whole_numbers(scanner, parameter, literal, field);

	for (size_t i = 0; r == 0 && i < numbers->count; i++) {
		if (numbers->values[i] % 2 == 0)
			return scan_error(
				scanner, literal->numbers[i].at, "%s must be odd", parameter->name);
	}
	return r;
}

int form_whole_number(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	if (takes_none(scanner, parameter, literal))
		return 0;
	if (literal->kind != LITERAL_NUMBER)
		return literal_expected(scanner, literal, parameter->wanted);
	return take_whole(scanner, parameter, literal, 0, field);
}

int form_channels(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	const struct number *number = &literal->numbers[0];
	uint32_t *channels = field;

	if (literal->kind != LITERAL_NUMBER)
		return literal_expected(scanner, literal, parameter->wanted);
	if (!number->integer || (number->value != 1 && number->value != 3))
		return scan_error(scanner, number->at, "%s must be 1 or 3", parameter->name);
	*channels = (uint32_t)number->value;
	return 0;
}

/* ---- float32 ---- */

/* Does Python's double make a finite float32? The largest that still rounds to FLT_MAX lies half a step
 * above it. */
static int check_float32(struct scanner *scanner, const struct number *number)
{
	if (fabs(number->value) < FLT_MAX + 0x1p103)
		return 0;
	return scan_error(scanner, number->at, "too large for float32");
}

int form_float32s(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	struct transform_text_values *values = field;
	int r = 0;

	if (literal->kind != LITERAL_NUMBER && literal->kind != LITERAL_SEQUENCE)
		return literal_expected(scanner, literal, parameter->wanted);
	if (literal->count != 1 && literal->count != TRANSFORM_TEXT_VALUES_MAX)
		return scan_error(scanner, literal->at,
			"%s has %zu values; images have 1 or %d channels", parameter->name,
			literal->count, TRANSFORM_TEXT_VALUES_MAX);
	for (size_t i = 0; i < literal->count && r == 0; i++) {
		r = check_float32(scanner, &literal->numbers[i]);
		if (r == 0)
			values->values[i] = (float)literal->numbers[i].value;
	}
	values->count = literal->count;
	return r;
}

int form_divisors(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	const struct transform_text_values *values = field;
	int r = form_float32s(scanner, parameter, literal, field);

	for (size_t i = 0; r == 0 && i < values->count; i++) {
		if (values->values[i] == 0)
			return scan_error(scanner, literal->numbers[i].at,
				"%s must not be 0 (in float32): pixels are divided by it",
				parameter->name);
	}
	return r;
}

/* ---- doubles ---- */

int form_number(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	double *value = field;

	if (literal->kind != LITERAL_NUMBER)
		return literal_expected(scanner, literal, parameter->wanted);
	*value = literal->numbers[0].value;
	return check_range(scanner, parameter, &literal->numbers[0]);
}

int form_doubles(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	struct transform_text_doubles *doubles = field;
	int r;

	if (takes_none(scanner, parameter, literal))
		return 0;
	r = check_shape(scanner, parameter, literal);
	for (size_t i = 0; i < literal->count && r == 0; i++) {
		r = check_range(scanner, parameter, &literal->numbers[i]);
		doubles->values[i] = literal->numbers[i].value;
		if (r == 0 && i % 2 == 1 && !(parameter->allows & ALLOWS_ANY_ORDER) &&
			doubles->values[i - 1] > doubles->values[i])
			r = scan_error(scanner, literal->numbers[i].at,
				"%s takes the least value first: this one is below the one before "
				"it",
				parameter->name);
	}
	doubles->count = literal->count;
	return r;
}

/* A number x alone stands for the range from `centre` - x to `centre` + x. */
static int take_around(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, struct transform_text_doubles *doubles, double centre)
{
	const struct number *number = &literal->numbers[0];
	double most = parameter->most - centre;

	if (literal->kind != LITERAL_NUMBER)
		return form_doubles(scanner, parameter, literal, doubles);
	if (!(number->value >= 0 && number->value <= most))
		return scan_error(scanner, number->at, "%s, as one number, must be from 0 to %.10g",
			parameter->name, most);
	doubles->count = 2;
	doubles->values[0] = fmax(centre - number->value, parameter->least);
	doubles->values[1] = centre + number->value;
	return 0;
}

int form_symmetric(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	return take_around(scanner, parameter, literal, field, 0);
}

int form_constant(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	struct transform_text_doubles *doubles = field;
	int r = form_doubles(scanner, parameter, literal, field);

	if (r == 0 && doubles->count == 1) {
		doubles->values[1] = doubles->values[0];
		doubles->count = 2;
	}
	return r;
}

/* A range that leaves everything as it is counts as none. */
static void drop_neutral(struct transform_text_doubles *doubles, double neutral)
{
	if (doubles->values[0] == neutral && doubles->values[1] == neutral)
		*doubles = (struct transform_text_doubles){.count = 0};
}

int form_factor(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	int r = take_around(scanner, parameter, literal, field, 1);

	if (r == 0)
		drop_neutral(field, 1);
	return r;
}

int form_shift(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	int r = take_around(scanner, parameter, literal, field, 0);

	if (r == 0)
		drop_neutral(field, 0);
	return r;
}

int form_erasing_value(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field)
{
	struct transform_text_step *step = field;
	int r;

	if (literal->kind == LITERAL_STRING && token_is(scanner, literal->token, "random")) {
		step->random_value = true;
		return 0;
	}
	r = check_shape(scanner, parameter, literal);
	for (size_t i = 0; i < literal->count && r == 0; i++) {
		r = check_float32(scanner, &literal->numbers[i]);
		step->value.values[i] = literal->numbers[i].value;
	}
	step->value.count = literal->count;
	return r;
}
