/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_parts.h"

#include "daemon/suggest.h"
#include "daemon/util/escape.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(const struct config_source *source, struct error_text *error)
{
	return error_set(error, -ENOMEM, "%s: out of memory", source->where);
}

int config_parse_size(const char *text, uint64_t *bytes)
{
	unsigned shift = 0;
	unsigned long long number;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno != 0)
		return -ERANGE;
	switch (*end) {
	case 'K': shift = 10; break;
	case 'M': shift = 20; break;
	case 'G': shift = 30; break;
	case '\0': break;
	default: return -EINVAL;
	}
	if (shift != 0 && end[1] != '\0')
		return -EINVAL;
	if (number > (uint64_t)INT64_MAX >> shift)
		return -ERANGE;
	*bytes = (uint64_t)number << shift;
	return 0;
}

/* Store a copy of `path`, made absolute and without slashes at its end, in *result. */
static int set_path(char **result, const char *path, const struct config_source *source,
	struct error_text *error)
{
	char *absolute;
	size_t length;

	if (path[0] == '\0')
		return error_set(error, -EINVAL, "%s: the path is empty", source->where);
	if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
		return error_set(error, -EINVAL,
			"%s: '~' is not replaced here; write the whole path", source->where);
	while (path[0] == '.' && path[1] == '/') {
		for (path++; *path == '/'; path++)
			;
	}
	if (path[0] == '/')
		absolute = strdup(path);
	else if (path[0] == '\0' || strcmp(path, ".") == 0)
		absolute = strdup(source->directory);
	else if (asprintf(&absolute, "%s/%s",
			 strcmp(source->directory, "/") == 0 ? "" : source->directory, path) < 0)
		absolute = NULL;
	if (absolute == NULL)
		return out_of_memory(source, error);
	length = strlen(absolute);
	while (length > 1 && absolute[length - 1] == '/')
		absolute[--length] = '\0';
	free(*result);
	*result = absolute;
	return 0;
}

static int set_socket(struct config *config, const struct config_source *source, const char *value,
	struct error_text *error)
{
	int r = set_path(&config->socket_path, value, source, error);
	size_t length = r == 0 ? strlen(config->socket_path) : 0;

	if (length > CONFIG_SOCKET_PATH_MAX)
		return error_set(error, -EINVAL,
			"%s: %s: the path of a socket may have %d bytes, this one has %zu",
			source->where, escape(config->socket_path).text, CONFIG_SOCKET_PATH_MAX,
			length);
	return r;
}

static int set_workers(struct config *config, const struct config_source *source, const char *value,
	struct error_text *error)
{
	char *end;
	long workers;

	if (strcmp(value, "auto") == 0) {
		config->workers = CONFIG_WORKERS_AUTO;
		return 0;
	}
	errno = 0;
	workers = strtol(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end != '\0' || errno != 0 ||
		workers > CONFIG_WORKERS_MAX)
		return error_set(error, -EINVAL,
			"%s: '%s' is not a number from 0 to %d, nor 'auto'", source->where,
			escape(value).text, CONFIG_WORKERS_MAX);
	config->workers = (int)workers;
	return 0;
}

static int set_memory(struct config *config, const struct config_source *source, const char *value,
	struct error_text *error)
{
	uint64_t bytes;
	int r = config_parse_size(value, &bytes);

	if (r < 0)
		return error_set(error, -EINVAL,
			"%s: '%s' is not a size: write bytes, or a number with K, M or G, such as 512M",
			source->where, escape(value).text);
	if (bytes < CONFIG_MEMORY_MIN)
		return error_set(error, -EINVAL, "%s: '%s' is too little: at least 1M",
			source->where, escape(value).text);
	config->memory = bytes;
	return 0;
}

/* A whole number from 1 to `most`. False: `value` is none. */
static bool parse_number(const char *value, unsigned long most, unsigned long *number)
{
	char *end;

	errno = 0;
	*number = strtoul(value, &end, 10);
	return isdigit((unsigned char)value[0]) && *end == '\0' && errno == 0 && *number >= 1 &&
	       *number <= most;
}

static int set_image_timeout(struct config *config, const struct config_source *source,
	const char *value, struct error_text *error)
{
	unsigned long seconds;

	if (!parse_number(value, CONFIG_TIMEOUT_MAX, &seconds))
		return error_set(error, -EINVAL, "%s: '%s' is not a number of seconds from 1 to %d",
			source->where, escape(value).text, CONFIG_TIMEOUT_MAX);
	config->image_timeout = (uint32_t)seconds;
	return 0;
}

static int set_max_pixels(struct config *config, const struct config_source *source,
	const char *value, struct error_text *error)
{
	unsigned long pixels;

	if (!parse_number(value, CONFIG_PIXELS_MAX, &pixels))
		return error_set(error, -EINVAL,
			"%s: '%s' is not a number of pixels from 1 to %" PRIu64, source->where,
			escape(value).text, CONFIG_PIXELS_MAX);
	config->max_pixels = pixels;
	return 0;
}

static int set_index_dir(struct config *config, const struct config_source *source,
	const char *value, struct error_text *error)
{
	return set_path(&config->index_dir, value, source, error);
}

static int set_sandbox(struct config *config, const struct config_source *source, const char *value,
	struct error_text *error)
{
	if (strcmp(value, "auto") == 0)
		config->sandbox = CONFIG_SANDBOX_AUTO;
	else if (strcmp(value, "require") == 0)
		config->sandbox = CONFIG_SANDBOX_REQUIRE;
	else
		return error_set(error, -EINVAL, "%s: '%s' is neither 'require' nor 'auto'",
			source->where, escape(value).text);
	return 0;
}

static int set_log_level(struct config *config, const struct config_source *source,
	const char *value, struct error_text *error)
{
	static const char *const levels[] = {"error", "warning", "notice", "info", "debug"};
	const char *near = suggest(value, levels, sizeof(levels) / sizeof(levels[0]));
	int level = log_level_parse(value);

	if (level < 0 && near != NULL)
		return error_set(error, -EINVAL, "%s: unknown level '%s'; did you mean '%s'?",
			source->where, escape(value).text, near);
	if (level < 0)
		return error_set(error, -EINVAL,
			"%s: unknown level '%s': error, warning, notice, info or debug",
			source->where, escape(value).text);
	config->log_level = (enum log_level)level;
	return 0;
}

const char *const config_keys[] = {"socket", "workers", "memory", "index_dir", "sandbox",
	"log_level", "image_timeout", "max_pixels", NULL};
const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]) - 1;

/* In the order of config_keys. */
static int (*const setters[])(struct config *, const struct config_source *, const char *,
	struct error_text *) = {set_socket, set_workers, set_memory, set_index_dir, set_sandbox,
	set_log_level, set_image_timeout, set_max_pixels};

int config_set(struct config *config, const char *key, const struct config_source *source,
	const char *value, struct error_text *error)
{
	for (size_t i = 0; i < config_key_count; i++) {
		if (strcmp(key, config_keys[i]) == 0)
			return setters[i](config, source, value, error);
	}
	return error_set(error, -EINVAL, "%s: unknown key", source->where);
}

static int set_choice(bool *choice, const char *no, const char *yes,
	const struct config_source *source, const char *value, struct error_text *error)
{
	*choice = strcmp(value, yes) == 0;
	if (*choice || strcmp(value, no) == 0)
		return 0;
	return error_set(error, -EINVAL, "%s: '%s' is neither '%s' nor '%s'", source->where,
		escape(value).text, no, yes);
}

const char *const config_dataset_keys[] = {
	"path", "also_read", "hidden", "allow_empty", "classes", NULL};
const size_t config_dataset_key_count =
	sizeof(config_dataset_keys) / sizeof(config_dataset_keys[0]) - 1;

int config_set_dataset(struct config *config, const char *key, const struct config_source *source,
	const char *value, struct error_text *error)
{
	struct config_dataset *dataset = &config->datasets[config->dataset_count - 1];

	if (strcmp(key, "hidden") == 0)
		return set_choice(&dataset->take_hidden, "skip", "take", source, value, error);
	if (strcmp(key, "allow_empty") == 0)
		return set_choice(&dataset->allow_empty, "no", "yes", source, value, error);
	return set_path(&dataset->classes, value, source, error);
}

static void dataset_finish(struct config_dataset *dataset)
{
	for (size_t i = 0; i < dataset->also_read_count; i++)
		free(dataset->also_read[i]);
	free(dataset->also_read);
	free(dataset->classes);
	free(dataset->path);
	free(dataset->name);
	*dataset = (struct config_dataset){.name = NULL};
}

static int check_name(const char *name, size_t length, const struct config_source *source,
	struct error_text *error)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

	if (length == 0)
		return error_set(error, -EINVAL, "%s: the data set has no name", source->where);
	if (length > CONFIG_DATASET_NAME_MAX)
		return error_set(error, -EINVAL,
			"%s: the name of a data set may have %d bytes, '%s' has %zu", source->where,
			CONFIG_DATASET_NAME_MAX, escape_bytes(name, length).text, length);
	if (strspn(name, allowed) < length)
		return error_set(error, -EINVAL,
			"%s: '%s': names of data sets are made of letters, digits, '.', '_' and '-'",
			source->where, escape_bytes(name, length).text);
	return 0;
}

static struct config_dataset *find_dataset(
	const struct config *config, const char *name, size_t length)
{
	for (size_t i = 0; i < config->dataset_count; i++) {
		struct config_dataset *dataset = &config->datasets[i];

		if (strncmp(dataset->name, name, length) == 0 && dataset->name[length] == '\0')
			return dataset;
	}
	return NULL;
}

const struct config_dataset *config_find_dataset(const struct config *config, const char *name)
{
	return find_dataset(config, name, strlen(name));
}

int config_add_dataset(struct config *config, const char *name, size_t name_length,
	const char *path, const struct config_source *source, struct error_text *error)
{
	struct config_dataset *old = find_dataset(config, name, name_length), *list;
	struct config_dataset added = {.from_flag = source->flag};
	int r = check_name(name, name_length, source, error);

	if (r == 0 && old != NULL && old->from_flag == source->flag)
		return error_set(error, -EINVAL,
			"%s: the data set '%s' is given twice: as %s and as %s", source->where,
			old->name, escape(old->path).text, escape(path).text);
	if (r == 0)
		r = set_path(&added.path, path, source, error);
	if (r < 0)
		return r;
	added.name = strndup(name, name_length);
	if (added.name == NULL)
		goto no_memory;
	if (old != NULL) {
		dataset_finish(old);
		*old = added;
		return 0;
	}
	list = reallocarray(config->datasets, config->dataset_count + 1, sizeof(*list));
	if (list == NULL)
		goto no_memory;
	config->datasets = list;
	list[config->dataset_count++] = added;
	return 0;
no_memory:
	dataset_finish(&added);
	return out_of_memory(source, error);
}

int config_add_also_read(struct config *config, const char *path,
	const struct config_source *source, struct error_text *error)
{
	struct config_dataset *dataset = &config->datasets[config->dataset_count - 1];
	char **list = reallocarray(dataset->also_read, dataset->also_read_count + 1, sizeof(*list));
	int r;

	if (list == NULL)
		return out_of_memory(source, error);
	dataset->also_read = list;
	list[dataset->also_read_count] = NULL;
	r = set_path(&list[dataset->also_read_count], path, source, error);
	if (r == 0)
		dataset->also_read_count++;
	return r;
}

void config_finish(struct config *config)
{
	for (size_t i = 0; i < config->dataset_count; i++)
		dataset_finish(&config->datasets[i]);
	free(config->datasets);
	free(config->config_path);
	free(config->socket_path);
	free(config->index_dir);
	free(config->directory);
	*config = (struct config)CONFIG_NULL;
}
