/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_parts.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_system_instance(void)
{
	const struct passwd *user;

	if (geteuid() == 0)
		return true;
	user = getpwuid(geteuid());
	return user != NULL && strcmp(user->pw_name, "stoker") == 0;
}

/* The value of an environment variable that holds an absolute path, or NULL: the XDG base directory
 * specification has relative ones ignored. */
static const char *absolute_from_env(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] == '/' ? value : NULL;
}

/* *path becomes the usual config file of this user, or NULL when there is no place for one. */
static int default_config_path(char **path)
{
	const char *config_home = absolute_from_env("XDG_CONFIG_HOME");
	const char *home = absolute_from_env("HOME");
	int r = 0;

	*path = NULL;
	if (is_system_instance())
		r = asprintf(path, "%s/stoker/stokerd.conf", STOKER_SYSCONFDIR);
	else if (config_home != NULL)
		r = asprintf(path, "%s/stoker/stokerd.conf", config_home);
	else if (home != NULL)
		r = asprintf(path, "%s/.config/stoker/stokerd.conf", home);
	return r < 0 ? -ENOMEM : 0;
}

static int set_default_socket(struct config *config, struct error_text *error)
{
	const char *runtime = absolute_from_env("XDG_RUNTIME_DIR");
	const struct config_source source = {"XDG_RUNTIME_DIR", "/", false};
	_cleanup_free_ char *path = NULL;

	if (is_system_instance())
		return config_set(config, "socket", &source, "/run/stoker/stoker.sock", error);
	if (runtime == NULL)
		return error_set(error, -ENOENT,
			"XDG_RUNTIME_DIR is not set, so the socket has no usual place: "
			"give one with --socket PATH or 'socket' in the config file");
	if (asprintf(&path, "%s/stoker/stoker.sock", runtime) < 0) {
		path = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	return config_set(config, "socket", &source, path, error);
}

/* Find and read the config file: one that was asked for must exist, the usual one need not. */
static int load_file(struct config *config, const char *asked_for, struct error_text *error)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (asked_for != NULL && asked_for[0] == '\0')
		return error_set(error, -EINVAL, "--config: the path is empty");
	if (asked_for == NULL)
		r = default_config_path(&path);
	else if (asked_for[0] == '/')
		r = (path = strdup(asked_for)) == NULL ? -ENOMEM : 0;
	else
		r = asprintf(&path, "%s/%s", config->directory, asked_for) < 0 ? -ENOMEM : 0;
	if (r < 0) {
		path = NULL;
		return error_set(error, r, "out of memory");
	}
	if (path == NULL || (asked_for == NULL && access(path, F_OK) < 0 && errno == ENOENT))
		return 0;
	r = config_read_file(config, path, error);
	if (r == 0)
		config->config_path = steal_pointer(&path);
	return r;
}

static int load(struct config *config, int argc, char **argv, const char *directory,
	struct error_text *error)
{
	struct config scratch = CONFIG_NULL;
	const char *config_path;
	int r;

	*config = (struct config){
		.workers = CONFIG_WORKERS_AUTO,
		.log_level = LOG_LEVEL_INFO,
		.image_timeout = CONFIG_TIMEOUT_DEFAULT,
		.max_pixels = CONFIG_PIXELS_MAX,
		.argc = argc,
		.argv = argv,
		.directory = strdup(directory),
	};
	if (config->directory == NULL)
		return error_set(error, -ENOMEM, "out of memory");
	/* The flags are applied over the file, but one of them names the file: read them twice. */
	r = options_apply(&scratch, argc, argv, directory, &config_path, error);
	config_finish(&scratch);
	if (r == 0)
		r = load_file(config, config_path, error);
	if (r == 0)
		r = options_apply(config, argc, argv, directory, &config_path, error);
	if (r == 0 && config->socket_path == NULL)
		r = set_default_socket(config, error);
	if (r != 0)
		config_finish(config);
	return r;
}

int config_load(struct config *config, int argc, char **argv, struct error_text *error)
{
	_cleanup_free_ char *directory = getcwd(NULL, 0);

	/* Without a working directory (removed, not readable) absolute paths still work. */
	return load(config, argc, argv, directory != NULL ? directory : "/", error);
}

int config_reload(const struct config *current, struct config *next, struct error_text *error)
{
	return load(next, current->argc, current->argv, current->directory, error);
}

/* A path as the config file wants it: its escapes are \\ and, in lists, \; and spaces in front. */
static void print_path(const char *path, bool in_list, FILE *out)
{
	for (; *path != '\0'; path++) {
		switch (*path) {
		case '\\': fputs("\\\\", out); break;
		case '\n': fputs("\\n", out); break;
		case '\t': fputs("\\t", out); break;
		case '\r': fputs("\\r", out); break;
		case ' ': fputs(path[1] == '\0' ? "\\s" : " ", out); break;
		case ';': fputs(in_list ? "\\;" : ";", out); break;
		default: fputc(*path, out);
		}
	}
}

void config_print(const struct config *config, FILE *out)
{
	static const char *const levels[] = {[LOG_LEVEL_ERROR] = "error",
		[LOG_LEVEL_WARNING] = "warning",
		[LOG_LEVEL_NOTICE] = "notice",
		[LOG_LEVEL_INFO] = "info",
		[LOG_LEVEL_DEBUG] = "debug"};

	if (config->config_path != NULL)
		fprintf(out, "# from %s and the flags\n", escape(config->config_path).text);
	else
		fprintf(out, "# no config file; from the flags\n");
	fprintf(out, "[stokerd]\nsocket = ");
	print_path(config->socket_path, false, out);
	if (config->workers == CONFIG_WORKERS_AUTO)
		fprintf(out, "\nworkers = auto\n");
	else
		fprintf(out, "\nworkers = %d\n", config->workers);
	if (config->memory == 0)
		fprintf(out, "# memory: half of what the control group or the machine has\n");
	else
		fprintf(out, "memory = %llu\n", (unsigned long long)config->memory);
	if (config->index_dir == NULL) {
		fprintf(out, "# index_dir: none; indexes are not saved\n");
	} else {
		fprintf(out, "index_dir = ");
		print_path(config->index_dir, false, out);
		fprintf(out, "\n");
	}
	fprintf(out, "sandbox = %s\nlog_level = %s\nimage_timeout = %u\nmax_pixels = %llu\n",
		config->sandbox == CONFIG_SANDBOX_REQUIRE ? "require" : "auto",
		levels[config->log_level], config->image_timeout,
		(unsigned long long)config->max_pixels);
	for (size_t i = 0; i < config->dataset_count; i++) {
		const struct config_dataset *dataset = &config->datasets[i];

		fprintf(out, "\n[dataset %s]\npath = ", dataset->name);
		print_path(dataset->path, false, out);
		fprintf(out, "\n");
		for (size_t j = 0; j < dataset->also_read_count; j++) {
			fputs(j == 0 ? "also_read = " : "", out);
			print_path(dataset->also_read[j], true, out);
			fputs(j + 1 == dataset->also_read_count ? ";\n" : ";", out);
		}
		fputs(dataset->take_hidden ? "hidden = take\n" : "", out);
		fputs(dataset->allow_empty ? "allow_empty = yes\n" : "", out);
		if (dataset->classes != NULL) {
			fputs("classes = ", out);
			print_path(dataset->classes, false, out);
			fputc('\n', out);
		}
	}
}
