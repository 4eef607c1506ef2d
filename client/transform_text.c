/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_text.h"

#include "client/transform_forms.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NESTING_MAX = 8, NAMED = PARAMETERS_MAX + 1, LIST_MAX = 320 };

/* A name as it stands in the text, cut to a printable length for "%.*s". */
#define SHOWN(scanner, token)                                                                      \
	(token).length > 40 ? 40 : (int)(token).length, (scanner)->text + (token).at

/* "mean, std, inplace" */
static const char *list_parameters(const struct signature *signature, char text[LIST_MAX])
{
	size_t used = 0;

	for (size_t i = 0; i < signature->count && used < LIST_MAX; i++)
		used += (size_t)snprintf(text + used, LIST_MAX - used, "%s%s", i ? ", " : "",
			signature->parameters[i].name);
	return signature->count ? text : "no arguments";
}

/* Names that older versions of torchvision had. */
static const char *new_name(const struct scanner *scanner, struct token name)
{
	if (token_is(scanner, name, "resample"))
		return "; it is called interpolation now";
	if (token_is(scanner, name, "fillcolor"))
		return "; it is called fill now";
	return "";
}

/* Which parameter comes next: named by `name =`, or the next one by position. */
static int choose_parameter(struct scanner *scanner, const struct signature *signature,
	size_t *positional, size_t *parameter)
{
	size_t before = scanner->at;
	struct token name = scan_name(scanner);
	char list[LIST_MAX];

	if (name.length > 0 && scan_take(scanner, '=')) {
		*positional = NAMED;
		for (*parameter = 0; *parameter < signature->count; ++*parameter) {
			if (token_is(scanner, name, signature->parameters[*parameter].name))
				return 0;
		}
		return scan_error(scanner, name.at, "%s has no argument '%.*s'; it takes %s%s",
			signature->name, SHOWN(scanner, name), list_parameters(signature, list),
			new_name(scanner, name));
	}
	scanner->at = before;
	scan_peek(scanner);
	if (*positional == NAMED && signature->count > 0)
		return scan_error(scanner, scanner->at,
			"an argument without a name cannot follow one with a name");
	if (*positional >= signature->count)
		return scan_error(scanner, scanner->at, "too many arguments: %s takes %s",
			signature->name, list_parameters(signature, list));
	*parameter = (*positional)++;
	return 0;
}

/* One argument; its value begins at *place. */
static int parse_argument(struct scanner *scanner, const struct parameter *parameter,
	struct transform_text_step *step, size_t *place)
{
	struct literal literal;
	int r = literal_parse(scanner, &literal);

	*place = literal.at;
	if (r == 0)
		r = parameter->form(scanner, parameter, &literal, (char *)step + parameter->field);
	if (r < 0)
		return r;
	if (!scan_take(scanner, ',') && scan_peek(scanner) != ')')
		return scan_expected(scanner, "',' or ')'");
	return 0;
}

static int parse_arguments(struct scanner *scanner, const struct signature *signature,
	struct transform_text_step *step)
{
	bool given[PARAMETERS_MAX] = {false};
	size_t places[PARAMETERS_MAX] = {0};
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
			return scan_error(scanner, at, "%s is given twice",
				signature->parameters[parameter].name);
		given[parameter] = true;
		r = parse_argument(
			scanner, &signature->parameters[parameter], step, &places[parameter]);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < signature->required; i++) {
		if (!given[i])
			return scan_error(scanner, scanner->at, "%s needs %s, as in %s",
				signature->name, signature->parameters[i].name, signature->example);
	}
	scanner->at++;
	return transform_arguments_check(scanner, step, places);
}

/* One value stands for all channels, so it can be repeated until both lists are of one length. */
static void repeat_value(struct transform_text_values *values, size_t count)
{
	while (values->count < count)
		values->values[values->count++] = values->values[0];
}

static int unknown_name(struct scanner *scanner, struct token name)
{
	const char *text = scanner->text + name.at;
	const char *foreign = transform_name_foreign(text, name.length), *near;
	char list[LIST_MAX];

	if (foreign)
		return scan_error(scanner, name.at, "%.*s is not supported: %s",
			SHOWN(scanner, name), foreign);
	near = transform_name_suggest(text, name.length);
	if (scan_peek(scanner) != '(')
		return scan_error(scanner, name.at,
			"'%.*s' is no call of a transform: if it is a variable, write here what it "
			"stands for%s%s%s",
			SHOWN(scanner, name), near ? ", such as " : "", near ? near : "",
			near ? "(...)" : "");
	if (near)
		return scan_error(scanner, name.at,
			"no transform is called '%.*s'; did you mean %s?", SHOWN(scanner, name),
			near);
	transform_signature_list(list, sizeof(list));
	return scan_error(scanner, name.at, "no transform is called '%.*s'; there are %s",
		SHOWN(scanner, name), list);
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
	if (token_is(scanner, *name, "Sequential"))
		return scan_error(scanner, name->at,
			"Sequential is not supported: write Compose([...]) around the transforms");
	return scan_error(scanner, parts[0].at,
		"the module '%.*s' is not known here: write transforms.%.*s or just %.*s",
		SHOWN(scanner, parts[0]), SHOWN(scanner, *name), SHOWN(scanner, *name));
}

static int parse_step(struct scanner *scanner, struct token name)
{
	const struct signature *signature = transform_signature_find(scanner, name);
	struct transform_text *pipeline = scanner->pipeline;
	struct transform_text_step step;
	int r;

	if (!signature)
		return unknown_name(scanner, name);
	step = signature->defaults;
	r = parse_arguments(scanner, signature, &step);
	if (r < 0)
		return r;
	repeat_value(&step.mean, step.std.count);
	repeat_value(&step.std, step.mean.count);
	if (pipeline->count == PROTOCOL_TRANSFORMS_MAX)
		return scan_error(
			scanner, name.at, "more than %d transforms", PROTOCOL_TRANSFORMS_MAX);
	pipeline->steps[pipeline->count++] = step;
	return 0;
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

/* "transform =" or "self.transform =" before a pasted pipeline. */
static void skip_assignment(struct scanner *scanner)
{
	size_t length;

	do {
		length = scan_name(scanner).length;
	} while (length > 0 && scan_take(scanner, '.'));
	if (length == 0 || !scan_take(scanner, '='))
		scanner->at = 0;
}

int transform_text_parse(struct transform_text *pipeline, const char *text)
{
	struct scanner scanner = {.text = text, .pipeline = pipeline};

	*pipeline = (struct transform_text){.count = 0};
	skip_assignment(&scanner);
	return parse_list(&scanner, 0, 0);
}
