/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_literal.h"

#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 32 }; /* signs and parentheses inside each other */

/* Below this a double holds every whole number, and none that was rounded. */
#define EXACT_MAX 0x1p53

/* ---- arithmetic ---- */

static int parse_sum(struct scanner *scanner, struct number *number, int depth);

/* Is what Python computes with whole numbers the same in doubles? */
static bool is_exact(const struct number *number)
{
	return !number->integer || fabs(number->value) < EXACT_MAX;
}

static int too_large(struct scanner *scanner, size_t at)
{
	return scan_error(scanner, at,
		"whole numbers beyond 2**53 cannot be computed with here: write the result");
}

static int divide_whole(struct scanner *scanner, size_t operator_at, struct number *left,
	const struct number *right)
{
	int64_t dividend, divisor, quotient;

	if (!left->integer || !right->integer)
		return scan_error(
			scanner, operator_at, "'//' is understood between whole numbers only");
	dividend = (int64_t)left->value;
	divisor = (int64_t)right->value;
	quotient = dividend / divisor;
	/* C cuts towards 0, Python rounds down. */
	if (dividend % divisor != 0 && (dividend < 0) != (divisor < 0))
		quotient--;
	left->value = (double)quotient;
	return 0;
}

/* left = left OPERATOR right; 'i' stands for //. */
static int compute(struct scanner *scanner, size_t operator_at, char operator, struct number * left,
	const struct number *right)
{
	bool whole = left->integer && right->integer;

	if (!is_exact(left))
		return too_large(scanner, left->at);
	if (!is_exact(right))
		return too_large(scanner, right->at);
	if ((operator== '/' || operator== 'i') && right->value == 0)
		return scan_error(scanner, operator_at, "division by zero");
	if (operator== 'i')
		return divide_whole(scanner, operator_at, left, right);
	left->integer = whole && operator!= '/';
	switch (operator) {
	case '+': left->value += right->value; break;
	case '-': left->value -= right->value; break;
	case '*': left->value *= right->value; break;
	default: left->value /= right->value; break;
	}
	if (left->integer)
		left->value += 0.0; /* an int has no -0 */
	return is_exact(left) ? 0 : too_large(scanner, left->at);
}

/* int(x), float(x) or round(x), after the name. */
static int parse_call(struct scanner *scanner, struct token name, struct number *number, int depth)
{
	int r;

	scan_take(scanner, '(');
	r = parse_sum(scanner, number, depth + 1);
	if (r < 0)
		return r;
	scan_take(scanner, ',');
	if (!scan_take(scanner, ')'))
		return scan_expected(scanner, "')'");
	number->at = name.at;
	if (token_is(scanner, name, "float")) {
		number->integer = false;
		return 0;
	}
	if (!(fabs(number->value) < EXACT_MAX))
		return too_large(scanner, name.at);
	/* round() takes halves to the even number, as rint does. */
	number->value =
		(token_is(scanner, name, "int") ? trunc(number->value) : rint(number->value)) + 0.0;
	number->integer = true;
	return 0;
}

/* Does a call of a function that makes a number come next? */
static bool peek_call(struct scanner *scanner, struct token *name)
{
	size_t before = scanner->at;
	bool call;

	*name = scan_name(scanner);
	call = (token_is(scanner, *name, "int") || token_is(scanner, *name, "float") ||
		       token_is(scanner, *name, "round")) &&
	       scan_peek(scanner) == '(';
	if (!call)
		scanner->at = before;
	return call;
}

/* A number, a sign and an operand, a sum in parentheses or a call. */
static int parse_operand(struct scanner *scanner, struct number *number, int depth)
{
	char first = scan_peek(scanner);
	size_t at = scanner->at;
	struct token name;
	int r;

	if (depth == DEPTH_MAX)
		return scan_error(scanner, at, "too many signs and parentheses inside each other");
	if (peek_call(scanner, &name))
		return parse_call(scanner, name, number, depth);
	if (first == '(') {
		scanner->at++;
		r = parse_sum(scanner, number, depth + 1);
		if (r == 0 && !scan_take(scanner, ')'))
			r = scan_expected(scanner, "')'");
	} else if (first == '-' || first == '+') {
		scanner->at++;
		r = parse_operand(scanner, number, depth + 1);
		if (r == 0 && first == '-')
			number->value = number->integer ? 0 - number->value : -number->value;
	} else {
		r = scan_number(scanner, number);
	}
	number->at = at;
	return r;
}

static int parse_product(struct scanner *scanner, struct number *number, int depth)
{
	int r = parse_operand(scanner, number, depth);

	while (r == 0 && (scan_peek(scanner) == '*' || scan_peek(scanner) == '/')) {
		size_t operator_at = scanner->at;
		char operator= scanner->text[scanner->at++];
		struct number right;

		if (operator== '/' && scanner->text[scanner->at] == '/') {
			scanner->at++;
			operator= 'i';
		}
		r = parse_operand(scanner, &right, depth);
		if (r == 0)
			r = compute(scanner, operator_at, operator, number, &right);
	}
	return r;
}

static int parse_sum(struct scanner *scanner, struct number *number, int depth)
{
	int r = parse_product(scanner, number, depth);

	while (r == 0 && (scan_peek(scanner) == '+' || scan_peek(scanner) == '-')) {
		size_t operator_at = scanner->at;
		char operator= scanner->text[scanner->at++];
		struct number right;

		r = parse_product(scanner, &right, depth);
		if (r == 0)
			r = compute(scanner, operator_at, operator, number, &right);
	}
	return r;
}

/* ---- values ---- */

static int parse_number(struct scanner *scanner, struct literal *literal)
{
	literal->kind = LITERAL_NUMBER;
	literal->count = 1;
	return parse_sum(scanner, &literal->numbers[0], 0);
}

/* "* 3" after a sequence, if it is there. */
static int parse_repetition(struct scanner *scanner, struct literal *literal)
{
	size_t once = literal->count;
	struct number times;
	int r;

	if (!scan_take(scanner, '*'))
		return 0;
	r = parse_operand(scanner, &times, 0);
	if (r < 0)
		return r;
	if (!times.integer)
		return scan_error(
			scanner, times.at, "a sequence is repeated a whole number of times");
	if (times.value <= 0 || once == 0) {
		literal->count = 0;
		return 0;
	}
	if (times.value > LITERAL_NUMBERS_MAX || once * (size_t)times.value > LITERAL_NUMBERS_MAX)
		return scan_error(scanner, literal->at, "this sequence has too many values");
	for (size_t i = once; i < once * (size_t)times.value; i++)
		literal->numbers[i] = literal->numbers[i - once];
	literal->count = once * (size_t)times.value;
	return 0;
}

/* Numbers with commas between, after the bracket. In parentheses, one number without a comma is no
 * tuple: then `literal` is a number, and the scanner has not moved. */
static int parse_sequence(struct scanner *scanner, struct literal *literal, char close)
{
	size_t before = scanner->at;

	literal->kind = LITERAL_SEQUENCE;
	scanner->at++;
	while (!scan_take(scanner, close)) {
		int r;

		scan_peek(scanner);
		if (literal->count == LITERAL_NUMBERS_MAX)
			return scan_error(
				scanner, scanner->at, "this sequence has too many values");
		r = parse_sum(scanner, &literal->numbers[literal->count], 0);
		if (r < 0)
			return r;
		literal->count++;
		if (scan_take(scanner, ','))
			continue;
		if (scan_peek(scanner) != close)
			return scan_expected(scanner, close == ')' ? "',' or ')'" : "',' or ']'");
		if (close == ')' && literal->count == 1) {
			literal->kind = LITERAL_NUMBER;
			scanner->at = before;
			return 0;
		}
	}
	return parse_repetition(scanner, literal);
}

/* A string without escapes, or at least none that are understood. */
static int parse_string(struct scanner *scanner, struct literal *literal, char quote)
{
	const char *begin = scanner->text + scanner->at + 1;
	size_t length = 0;

	while (begin[length] && begin[length] != quote && begin[length] != '\n')
		length++;
	if (begin[length] != quote)
		return scan_error(scanner, scanner->at, "this string has no end");
	literal->kind = LITERAL_STRING;
	literal->token = (struct token){scanner->at + 1, length};
	scanner->at += length + 2;
	return 0;
}

/* A name, perhaps after others with points. One with a longer prefix than any that we know gets one
 * that no name has. */
static void parse_name(struct scanner *scanner, struct literal *literal)
{
	size_t length = 0;

	literal->kind = LITERAL_NAME;
	literal->token = scan_name(scanner);
	while (scan_take(scanner, '.')) {
		if (length + literal->token.length + 2 > sizeof(literal->prefix)) {
			strcpy(literal->prefix, "...");
			return;
		}
		if (length > 0)
			literal->prefix[length++] = '.';
		memcpy(literal->prefix + length, scanner->text + literal->token.at,
			literal->token.length);
		length += literal->token.length;
		literal->prefix[length] = '\0';
		literal->token = scan_name(scanner);
		if (literal->token.length == 0)
			return;
	}
}

int literal_parse(struct scanner *scanner, struct literal *literal)
{
	char first = scan_peek(scanner);
	size_t before = scanner->at;
	struct token name;
	int r = 0;

	*literal = (struct literal){.kind = LITERAL_NOTHING, .at = before};
	if (first == '[' || first == '(')
		r = parse_sequence(scanner, literal, first == '(' ? ')' : ']');
	if (r < 0 || literal->kind == LITERAL_SEQUENCE)
		return r;
	if (first == '\'' || first == '"')
		return parse_string(scanner, literal, first);
	if (first && strchr("(+-.0123456789", first))
		return parse_number(scanner, literal);
	if (peek_call(scanner, &name)) {
		scanner->at = before;
		return parse_number(scanner, literal);
	}
	if (scan_name(scanner).length > 0) {
		scanner->at = before;
		parse_name(scanner, literal);
	}
	return 0;
}

bool literal_is(const struct scanner *scanner, const struct literal *literal, const char *name)
{
	return literal->kind == LITERAL_NAME && !literal->prefix[0] &&
	       token_is(scanner, literal->token, name);
}

int literal_expected(struct scanner *scanner, const struct literal *literal, const char *what)
{
	scanner->at = literal->at;
	return scan_expected(scanner, what);
}
