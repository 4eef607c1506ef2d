/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/cli.h"
#include "client/cli/suggest.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct cli_choice cli_dtypes[] = {
	{"u8", STOKER_U8}, {"f16", STOKER_F16}, {"bf16", STOKER_BF16}, {"f32", STOKER_F32}, {NULL}};
const struct cli_choice cli_layouts[] = {{"NCHW", STOKER_NCHW}, {"NHWC", STOKER_NHWC}, {NULL}};
const struct cli_choice cli_payloads[] = {
	{"shared", STOKER_SHARED}, {"inline", STOKER_INLINE}, {NULL}};
const struct cli_choice cli_on_bad_sample[] = {{"error", STOKER_BAD_ERROR},
	{"mask", STOKER_BAD_MASK}, {"replace", STOKER_BAD_REPLACE}, {NULL}};

const struct cli_choice cli_grey16[] = {{"high", false}, {"clip", true}, {NULL}};

const char *cli_choice_name(const struct cli_choice *choices, int value)
{
	while (choices->name != NULL && choices->value != value)
		choices++;
	return choices->name;
}

static const struct cli_option *find(
	const struct cli_option *options, const char *name, size_t length)
{
	for (; options->name != NULL; options++) {
		if (strncmp(options->name, name, length) == 0 && options->name[length] == '\0')
			return options;
	}
	return NULL;
}

static int unknown_option(const struct cli *cli, const struct cli_option *common,
	const struct cli_option *options, const char *argument)
{
	struct suggestion suggestion = suggestion_for(argument);

	for (; options->name != NULL; options++)
		suggestion_try(&suggestion, options->name);
	for (; common->name != NULL; common++)
		suggestion_try(&suggestion, common->name);
	if (suggestion.nearest != NULL)
		return cli_error(cli, CLI_USAGE, "unknown option '%s': did you mean '--%s'?",
			argument, suggestion.nearest);
	return cli_error(cli, CLI_USAGE, "unknown option '%s'; see 'stoker %s --help'", argument,
		cli->command);
}

static int set_number(const struct cli *cli, const struct cli_option *option, const char *text)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 ||
		number < option->min || number > option->max)
		return cli_error(cli, CLI_USAGE,
			"--%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, option->name,
			text, option->min, option->max);
	*(uint64_t *)option->value = number;
	return CLI_OK;
}

static int set_real(const struct cli *cli, const struct cli_option *option, const char *text)
{
	char *end;
	double number = strtod(text, &end);

	/* Written so that NaN is refused too. */
	if (end == text || *end != '\0' ||
		!(number >= (double)option->min && number <= (double)option->max))
		return cli_error(cli, CLI_USAGE,
			"--%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, option->name,
			text, option->min, option->max);
	*(double *)option->value = number;
	return CLI_OK;
}

static int set_choice(const struct cli *cli, const struct cli_option *option, const char *text)
{
	char list[128] = "";

	for (const struct cli_choice *choice = option->choices; choice->name != NULL; choice++) {
		size_t used = strlen(list);

		if (strcasecmp(text, choice->name) == 0) {
			*(int *)option->value = choice->value;
			return CLI_OK;
		}
		snprintf(list + used, sizeof(list) - used, "%s%s", used > 0 ? " or " : "",
			choice->name);
	}
	return cli_error(cli, CLI_USAGE, "--%s: '%s' is not %s", option->name, text, list);
}

static int set_value(const struct cli *cli, const struct cli_option *option, const char *text)
{
	switch (option->kind) {
	case CLI_NUMBER: return set_number(cli, option, text);
	case CLI_REAL: return set_real(cli, option, text);
	case CLI_CHOICE: return set_choice(cli, option, text);
	case CLI_FLAG: *(bool *)option->value = true; return CLI_OK;
	case CLI_TEXT: *(const char **)option->value = text; return CLI_OK;
	}
	return CLI_USAGE;
}

/* What an argument names: an option, and its value when that is attached by '=' or to the letter. */
static const struct cli_option *match(
	const struct cli_option *options, const char *argument, const char **value)
{
	const char *name = argument + 2, *equals = strchr(name, '=');

	if (argument[1] == '-') {
		*value = equals != NULL ? equals + 1 : NULL;
		return find(options, name, equals != NULL ? (size_t)(equals - name) : strlen(name));
	}
	*value = argument[2] != '\0' ? argument + 2 : NULL;
	for (; options->name != NULL; options++) {
		if (options->letter != 0 && options->letter == argument[1])
			return options;
	}
	return NULL;
}

int cli_parse(struct cli *cli, const struct cli_option *options, int argc, char **argv,
	int arguments_min, int arguments_max)
{
	bool help = false;
	const struct cli_option common[] = {
		{"socket", 0, CLI_TEXT, &cli->socket},
		{"json", 0, CLI_FLAG, &cli->json},
		{"help", 'h', CLI_FLAG, &help},
		{NULL},
	};
	bool only_arguments = false;

	cli->arguments = argv; /* filled from the front, never beyond what has been read */
	cli->argument_count = 0;
	for (int i = 0; i < argc; i++) {
		const struct cli_option *option;
		const char *value;
		int r;

		if (only_arguments || argv[i][0] != '-' || argv[i][1] == '\0') {
			cli->arguments[cli->argument_count++] = argv[i];
			continue;
		}
		if (strcmp(argv[i], "--") == 0) {
			only_arguments = true;
			continue;
		}
		option = match(options, argv[i], &value);
		if (option == NULL)
			option = match(common, argv[i], &value);
		if (option == NULL)
			return unknown_option(cli, common, options, argv[i]);
		if (option->kind == CLI_FLAG && value != NULL)
			return cli_error(cli, CLI_USAGE, "--%s takes no value", option->name);
		if (option->kind != CLI_FLAG && value == NULL && (value = argv[++i]) == NULL)
			return cli_error(cli, CLI_USAGE,
				"--%s needs a value; see 'stoker %s --help'", option->name,
				cli->command);
		r = set_value(cli, option, value);
		if (r != CLI_OK)
			return r;
		if (option->given != NULL)
			*option->given = true;
	}
	if (help) {
		fputs(cli->help, stdout);
		return CLI_DONE;
	}
	if (cli->argument_count < arguments_min)
		return cli_error(cli, CLI_USAGE, "an argument is missing. %.*s",
			(int)strcspn(cli->help, "\n"), cli->help);
	if (cli->argument_count > arguments_max)
		return cli_error(cli, CLI_USAGE, "unexpected argument '%s'; see 'stoker %s --help'",
			cli->arguments[arguments_max], cli->command);
	return CLI_OK;
}
