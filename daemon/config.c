/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_parts.h"
#include "daemon/suggest.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATASET_GROUP "dataset "

struct config_file {
	const char *path;
	char *directory;
	GKeyFile *keys;
	GHashTable *lines; /* "GROUP\nKEY" (key "" for the group itself) -> line number */
};

static void config_file_finish(struct config_file *file)
{
	g_free(file->directory);
	g_clear_pointer(&file->keys, g_key_file_unref);
	g_clear_pointer(&file->lines, g_hash_table_unref);
}

static int line_of(const struct config_file *file, const char *group, const char *key)
{
	g_autofree char *name = g_strconcat(group, "\n", key, NULL);

	return GPOINTER_TO_INT(g_hash_table_lookup(file->lines, name));
}

/* "FILE:LINE", kept in `where`. */
static const char *place(const struct config_file *file, int line, char where[ESCAPE_MAX + 16])
{
	snprintf(where, ESCAPE_MAX + 16, "%s:%d", escape(file->path).text, line);
	return where;
}

/* Note where group and key stand; the same again is an error, which GLib would pass over. */
static int note_line(struct config_file *file, const char *group, const char *key, int line,
	struct error_text *error)
{
	char where[ESCAPE_MAX + 16];
	int first = line_of(file, group, key);

	if (first != 0)
		return error_set(error, -EBADMSG, "%s: %s%s%s[%s] stands twice, first in line %d",
			place(file, line, where), key[0] != '\0' ? "'" : "", escape(key).text,
			key[0] != '\0' ? "' in " : "", escape(group).text, first);
	g_hash_table_insert(
		file->lines, g_strconcat(group, "\n", key, NULL), GINT_TO_POINTER(line));
	return 0;
}

/* Go through the lines for what the key-file parser does not say: numbers and duplicates. */
static int scan_lines(struct config_file *file, const char *text, struct error_text *error)
{
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	g_autofree char *group = g_strdup("");
	char where[ESCAPE_MAX + 16];
	int r = 0;

	for (int i = 0; lines[i] != NULL && r == 0; i++) {
		char *line = g_strstrip(lines[i]), *equals = strchr(line, '=');
		size_t length = strlen(line);

		if (line[0] == '\0' || line[0] == '#')
			continue;
		if (line[0] == '[' && line[length - 1] == ']') {
			g_free(group);
			group = g_strndup(line + 1, length - 2);
			r = note_line(file, group, "", i + 1, error);
		} else if (line[0] == '[' || equals == NULL || equals == line) {
			r = error_set(error, -EBADMSG,
				"%s: '%s' is not [GROUP], KEY = VALUE or a comment, which starts with '#'",
				place(file, i + 1, where), escape(line).text);
		} else if (group[0] == '\0') {
			r = error_set(error, -EBADMSG,
				"%s: '%s' stands before any group; [stokerd] is missing above it",
				place(file, i + 1, where), escape(line).text);
		} else {
			*equals = '\0';
			r = note_line(file, group, g_strchomp(line), i + 1, error);
		}
	}
	return r;
}

static int read_text(const char *path, char **text, struct error_text *error)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *bytes = malloc(CONFIG_FILE_MAX + 1);
	size_t length = 0;
	ssize_t n = 0;

	if (bytes == NULL)
		return error_set(error, -ENOMEM, "%s: out of memory", escape(path).text);
	if (fd < 0)
		return error_set(error, -errno, "%s: %s", escape(path).text, strerror(errno));
	while (length <= CONFIG_FILE_MAX &&
		(n = read(fd, bytes + length, CONFIG_FILE_MAX + 1 - length)) > 0)
		length += (size_t)n;
	if (n < 0)
		return error_set(error, -errno, "%s: %s", escape(path).text, strerror(errno));
	if (length > CONFIG_FILE_MAX)
		return error_set(error, -EFBIG, "%s: a config file may have %d bytes",
			escape(path).text, CONFIG_FILE_MAX);
	bytes[length] = '\0';
	if (strlen(bytes) < length || !g_utf8_validate(bytes, (gssize)length, NULL))
		return error_set(error, -EBADMSG,
			"%s: not UTF-8 text (paths that are not UTF-8 can be given by --dataset)",
			escape(path).text);
	*text = steal_pointer(&bytes);
	return 0;
}

static int config_file_open(struct config_file *file, const char *path, struct error_text *error)
{
	_cleanup_free_ char *text = NULL;
	g_autoptr(GError) parse_error = NULL;
	_cleanup_free_ char *absolute = realpath(path, NULL);
	int r = read_text(path, &text, error);

	file->path = path;
	if (r < 0)
		return r;
	file->directory = g_path_get_dirname(absolute != NULL ? absolute : path);
	file->lines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	file->keys = g_key_file_new();
	r = scan_lines(file, text, error);
	if (r == 0 && !g_key_file_load_from_data(file->keys, text, strlen(text),
			      G_KEY_FILE_KEEP_TRANSLATIONS, &parse_error))
		r = error_set(error, -EBADMSG, "%s: %s", escape(path).text, parse_error->message);
	return r;
}

static int unknown_key(const struct config_file *file, const char *group, const char *key,
	const char *const *known, size_t count, struct error_text *error)
{
	const char *near = suggest(key, known, count);
	const char *elsewhere = suggest(key, config_keys, config_key_count);
	char where[ESCAPE_MAX + 16];

	place(file, line_of(file, group, key), where);
	if (near == NULL && elsewhere != NULL)
		return error_set(error, -EBADMSG,
			"%s: unknown key '%s' in [%s]; did you mean '%s' in [stokerd]?", where,
			escape(key).text, group, elsewhere);
	if (near != NULL)
		return error_set(error, -EBADMSG,
			"%s: unknown key '%s' in [%s]; did you mean '%s'?", where, escape(key).text,
			group, near);
	return error_set(error, -EBADMSG,
		"%s: unknown key '%s' in [%s]; stokerd.conf(5) lists the keys", where,
		escape(key).text, group);
}

/* The value of a key with its escapes resolved, or NULL and a filled `error`. */
static char *get_value(const struct config_file *file, const char *group, const char *key,
	struct error_text *error)
{
	g_autoptr(GError) bad = NULL;
	char *value = g_key_file_get_string(file->keys, group, key, &bad);
	char where[ESCAPE_MAX + 16];

	if (bad == NULL)
		return value;
	/* With an unknown escape GLib gives the value and the error. */
	g_free(value);
	error_set(error, -EBADMSG, "%s: '%s' in [%s]: %s",
		place(file, line_of(file, group, key), where), key, group, bad->message);
	return NULL;
}

static int read_main_group(
	const struct config_file *file, struct config *config, struct error_text *error)
{
	const char *group = "stokerd";
	g_auto(GStrv) keys = g_key_file_get_keys(file->keys, group, NULL, NULL);
	int r = 0;

	for (size_t i = 0; keys != NULL && keys[i] != NULL && r == 0; i++) {
		char where[ESCAPE_MAX + 64], line[ESCAPE_MAX + 16];
		struct config_source source = {where, file->directory, false};

		if (!g_strv_contains(config_keys, keys[i]))
			return unknown_key(
				file, group, keys[i], config_keys, config_key_count, error);
		g_autofree char *value = get_value(file, group, keys[i], error);
		if (value == NULL)
			return -EBADMSG;
		snprintf(where, sizeof(where), "%s: %s",
			place(file, line_of(file, group, keys[i]), line), keys[i]);
		r = config_set(config, keys[i], &source, value, error);
	}
	return r;
}

static int read_also_read(const struct config_file *file, const char *group, struct config *config,
	struct error_text *error)
{
	g_autoptr(GError) bad = NULL;
	char where[ESCAPE_MAX + 64], line[ESCAPE_MAX + 16];
	const struct config_source source = {where, file->directory, false};
	g_auto(GStrv) list = g_key_file_get_string_list(file->keys, group, "also_read", NULL, &bad);
	int r = 0;

	if (g_error_matches(bad, G_KEY_FILE_ERROR, G_KEY_FILE_ERROR_KEY_NOT_FOUND))
		return 0;
	snprintf(where, sizeof(where), "%s: also_read",
		place(file, line_of(file, group, "also_read"), line));
	if (bad != NULL)
		return error_set(error, -EBADMSG, "%s: %s", where, bad->message);
	for (size_t i = 0; list[i] != NULL && r == 0; i++)
		r = config_add_also_read(config, g_strstrip(list[i]), &source, error);
	return r;
}

/* A key that has one value and may be missing. */
static int read_dataset_key(const struct config_file *file, const char *group, const char *key,
	struct config *config, struct error_text *error)
{
	char where[ESCAPE_MAX + 64], line[ESCAPE_MAX + 16];
	const struct config_source source = {where, file->directory, false};
	g_autofree char *value = NULL;

	if (strcmp(key, "path") == 0 || strcmp(key, "also_read") == 0)
		return 0;
	value = get_value(file, group, key, error);
	if (value == NULL)
		return -EBADMSG;
	snprintf(where, sizeof(where), "%s: %s", place(file, line_of(file, group, key), line), key);
	return config_set_dataset(config, key, &source, value, error);
}

static int read_dataset_group(const struct config_file *file, const char *group,
	struct config *config, struct error_text *error)
{
	g_auto(GStrv) keys = g_key_file_get_keys(file->keys, group, NULL, NULL);
	const char *name = group + strlen(DATASET_GROUP);
	char where[ESCAPE_MAX + 16];
	const struct config_source source = {where, file->directory, false};
	g_autofree char *path = NULL;
	int r;

	for (size_t i = 0; keys[i] != NULL; i++) {
		if (!g_strv_contains(config_dataset_keys, keys[i]))
			return unknown_key(file, group, keys[i], config_dataset_keys,
				config_dataset_key_count, error);
	}
	place(file, line_of(file, group, ""), where);
	if (!g_key_file_has_key(file->keys, group, "path", NULL))
		return error_set(error, -EBADMSG, "%s: [%s] has no 'path'", where, group);
	path = get_value(file, group, "path", error);
	if (path == NULL)
		return -EBADMSG;
	r = config_add_dataset(config, name, strlen(name), path, &source, error);
	if (r == 0)
		r = read_also_read(file, group, config, error);
	for (size_t i = 0; keys[i] != NULL && r == 0; i++)
		r = read_dataset_key(file, group, keys[i], config, error);
	return r;
}

static int unknown_group(
	const struct config_file *file, const char *group, struct error_text *error)
{
	static const char *const known[] = {"stokerd", "dataset"};
	g_autofree char *word = g_strndup(group, strcspn(group, " "));
	const char *near = suggest(word, known, 2);
	char where[ESCAPE_MAX + 16];

	if (near == NULL)
		near = strchr(group, ' ') != NULL ? known[1] : known[0];
	return error_set(error, -EBADMSG, "%s: unknown group [%s]; did you mean [%s%s]?",
		place(file, line_of(file, group, ""), where), escape(group).text, near,
		near == known[1] ? " NAME" : "");
}

int config_read_file(struct config *config, const char *path, struct error_text *error)
{
	struct config_file file = {.keys = NULL};
	g_auto(GStrv) groups = NULL;
	int r = config_file_open(&file, path, error);

	if (r == 0)
		groups = g_key_file_get_groups(file.keys, NULL);
	for (size_t i = 0; r == 0 && groups[i] != NULL; i++) {
		if (strcmp(groups[i], "stokerd") == 0)
			r = read_main_group(&file, config, error);
		else if (g_str_has_prefix(groups[i], DATASET_GROUP))
			r = read_dataset_group(&file, groups[i], config, error);
		else
			r = unknown_group(&file, groups[i], error);
	}
	config_file_finish(&file);
	/* -EINVAL is a wrong command line; a wrong file is another thing to the caller. */
	return r == -EINVAL ? -EBADMSG : r;
}
