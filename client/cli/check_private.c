/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths are checked by a stokerd of our own. Image files become a manifest in its directory, and the
 * directories that hold them links there, which its config names as also_read: no byte of a path then
 * has to be written in the syntax of a config file.
 */
#include "client/cli/check.h"
#include "client/cli/private_daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PATH_BYTES_MAX = 4095, /* of a path in a manifest */
	ARGUMENTS_MAX = 64,
};

struct preparation {
	const char *directory;
	FILE *config;
	unsigned links;
	int error; /* 0 or negative errno of what could not be written */
};

/* ---- the manifest ---- */

static void write_field(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text != '\0'; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

/* Of a path that is too long for it stands "/", which is no picture either. */
static void write_path(FILE *out, struct check_file *file, const char *here)
{
	char *whole = NULL;

	if (file->path[0] != '/' && asprintf(&whole, "%s/%s", here, file->path) < 0)
		whole = NULL;
	if (strlen(whole != NULL ? whole : file->path) > PATH_BYTES_MAX ||
		(whole == NULL && file->path[0] != '/')) {
		file->error = ENAMETOOLONG;
		write_field(out, "/");
	} else {
		write_field(out, whole != NULL ? whole : file->path);
	}
	fputs(",0\n", out);
	free(whole);
}

/* 0 or -errno. */
static int write_manifest(const char *path, const struct check_files *files)
{
	FILE *out = fopen(path, "we");
	char *here = getcwd(NULL, 0);
	int r = 0;

	if (out == NULL || here == NULL)
		r = -errno;
	if (r == 0)
		fputs("path,label\n", out);
	for (size_t i = 0; i < files->count && r == 0; i++)
		write_path(out, &files->list[i], here);
	if (r == 0 && ferror(out))
		r = -EIO;
	if (out != NULL && fclose(out) != 0 && r == 0)
		r = -errno;
	free(here);
	return r;
}

/* ---- the config ---- */

static int link_root(const char *root, void *data)
{
	struct preparation *preparation = data;
	char link[4096];

	snprintf(link, sizeof(link), "%s/r%u", preparation->directory, preparation->links++);
	if (symlink(root, link) < 0)
		return -errno;
	fprintf(preparation->config, "%s;", link);
	return 0;
}

/* Files as the data set "sN". */
static int prepare_files(
	struct preparation *preparation, const struct check_source *source, size_t n)
{
	char manifest[4096];
	int r;

	snprintf(manifest, sizeof(manifest), "%s/s%zu.csv", preparation->directory, n);
	r = write_manifest(manifest, &source->files);
	if (r < 0)
		return r;
	fprintf(preparation->config, "[dataset s%zu]\npath = %s\nalso_read = ", n, manifest);
	r = check_files_each_root(&source->files, link_root, preparation);
	fputc('\n', preparation->config);
	return r;
}

/* ---- the daemon ---- */

struct arguments {
	const char *list[ARGUMENTS_MAX];
	size_t count;
	char *made[ARGUMENTS_MAX]; /* freed at the end */
	size_t made_count;
};

static bool add_dataset(struct arguments *arguments, const char *path, size_t n)
{
	char *text;

	if (asprintf(&text, "s%zu=%s", n, path) < 0)
		return false;
	arguments->made[arguments->made_count++] = text;
	arguments->list[arguments->count++] = "--dataset";
	arguments->list[arguments->count++] = text;
	return true;
}

/* Everything that the daemon is to serve: 0 or -errno. */
static int prepare(const char *directory, const char *config, const struct check_source *sources,
	size_t count, struct arguments *arguments)
{
	struct preparation preparation = {.directory = directory, .config = fopen(config, "we")};
	int r = 0;

	if (preparation.config == NULL)
		return -errno;
	for (size_t i = 0; i < count && r == 0; i++) {
		if (sources[i].kind == CHECK_FILES)
			r = prepare_files(&preparation, &sources[i], i);
		else if (!add_dataset(arguments, sources[i].path, i))
			r = -ENOMEM;
	}
	if (ferror(preparation.config) && r == 0)
		r = -EIO;
	if (fclose(preparation.config) != 0 && r == 0)
		r = -errno;
	return r;
}

void check_private(struct check *check, const struct check_source *sources, size_t count)
{
	struct private_daemon daemon = PRIVATE_DAEMON_NULL;
	struct arguments arguments = {.count = 0};
	char config[4096], workers[24], name[24];
	struct stoker *stoker = NULL;
	int r = private_daemon_prepare(&daemon, check->cli), p;

	if (r == CLI_OK) {
		snprintf(config, sizeof(config), "%s/conf", daemon.directory);
		p = prepare(daemon.directory, config, sources, count, &arguments);
		if (p < 0)
			r = cli_error(
				check->cli, CLI_FAILED, "%s: %s", daemon.directory, strerror(-p));
	}
	if (r == CLI_OK) {
		arguments.list[arguments.count++] = "--config";
		arguments.list[arguments.count++] = config;
		snprintf(workers, sizeof(workers), "%" PRIu64, check->workers);
		if (check->workers_given) {
			arguments.list[arguments.count++] = "--workers";
			arguments.list[arguments.count++] = workers;
		}
		r = private_daemon_start(&daemon, check->cli, arguments.list, &stoker);
	}
	if (r != CLI_OK)
		check->failed = true;
	for (size_t i = 0; i < count && r == CLI_OK && !cli_interrupted; i++) {
		snprintf(name, sizeof(name), "s%zu", i);
		if (check_run(check, stoker, name,
			    sources[i].kind == CHECK_FILES ? &sources[i].files : NULL) != CLI_OK)
			check->failed = true;
	}
	stoker_destroy(stoker);
	private_daemon_finish(&daemon);
	cli_release_signals();
	for (size_t i = 0; i < arguments.made_count; i++)
		free(arguments.made[i]);
}
