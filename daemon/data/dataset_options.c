/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/dataset.h"

#include <stdio.h>
#include <string.h>

/* The path stands last, since it may hold any byte. */
#define CLASSES "classes="

char *dataset_options_dup_text(const struct dataset_options *options)
{
	char *text;

	if (asprintf(&text, "%s%s%s%s", options->take_hidden ? "take_hidden," : "",
		    options->allow_empty ? "allow_empty," : "", options->classes ? CLASSES : "",
		    options->classes ? options->classes : "") < 0)
		return NULL;
	return text;
}

/* Go over `word` and the comma behind it. */
static bool skip(const char **text, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(*text, word, length) != 0 || (*text)[length] != ',')
		return false;
	*text += length + 1;
	return true;
}

bool dataset_options_parse(const char *text, struct dataset_options *options)
{
	*options = (struct dataset_options){.classes = NULL};
	options->take_hidden = skip(&text, "take_hidden");
	options->allow_empty = skip(&text, "allow_empty");
	if (strncmp(text, CLASSES "/", strlen(CLASSES "/")) == 0) {
		options->classes = text + strlen(CLASSES);
		return true;
	}
	return text[0] == '\0';
}
