/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"
#include "daemon/util/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * What stokerd is told: built-in defaults, then the config file (stokerd.conf.5), then the flags
 * (stokerd.8). Built with STOKER_SYSCONFDIR and STOKER_VERSION defined as strings.
 *
 *   struct config config;
 *   r = config_load(&config, argc, argv, &error);
 *   if (r == CONFIG_EXIT)           exit status 0
 *   if (r == -EINVAL)               print error, exit status 2
 *   if (r < 0)                      print error, exit status 1
 *   if (config.check_only)          config_print(&config, stdout), exit status 0
 *   ... on SIGHUP:                  config_reload(&config, &next, &error)
 *   config_finish(&config);
 */
enum config_sandbox {
	CONFIG_SANDBOX_AUTO, /* confine the workers as far as the kernel can, and say what is missing */
	CONFIG_SANDBOX_REQUIRE, /* refuse to run without no_new_privs, seccomp and Landlock */
};

enum {
	CONFIG_EXIT = 1, /* --help or --version has been printed */

	CONFIG_WORKERS_AUTO = -1,
	CONFIG_WORKERS_MAX = 1024,
	CONFIG_TIMEOUT_DEFAULT = 60, /* seconds */
	CONFIG_TIMEOUT_MAX = 86400,
	CONFIG_DATASET_NAME_MAX = 64, /* bytes */
	CONFIG_SOCKET_PATH_MAX = 107, /* bytes of sockaddr_un.sun_path without its NUL */
	CONFIG_FILE_MAX = 1 << 20,    /* bytes */
};

#define CONFIG_MEMORY_MIN (UINT64_C(1) << 20)
#define CONFIG_PIXELS_MAX UINT64_C(178956970) /* what workers have memory for; DECODE_MAX_PIXELS */

struct config_dataset {
	char *name;       /* 1..64 bytes of [A-Za-z0-9._-] */
	char *path;       /* absolute; need not exist */
	char **also_read; /* absolute paths of further roots that the workers may read */
	size_t also_read_count;
	bool take_hidden, allow_empty;
	char *classes; /* absolute path of a list of classes, or NULL */
	bool from_flag;
};

struct config {
	char *config_path; /* the file that was read, or NULL: there was none */
	char *socket_path; /* absolute, at most CONFIG_SOCKET_PATH_MAX bytes */
	int workers;       /* 0..CONFIG_WORKERS_MAX, or CONFIG_WORKERS_AUTO */
	uint64_t memory;   /* bytes, at least CONFIG_MEMORY_MIN; 0 = half of what there is */
	char *index_dir;   /* absolute; where indexes are saved; NULL = nowhere */
	enum config_sandbox sandbox;
	enum log_level log_level;
	uint32_t image_timeout; /* seconds, 1..CONFIG_TIMEOUT_MAX */
	uint64_t max_pixels;    /* of one picture, 1..CONFIG_PIXELS_MAX */
	bool check_only;        /* --check-config */
	struct config_dataset *datasets;
	size_t dataset_count;

	/* What config_reload needs: the flags (borrowed) and the directory that they are relative to. */
	int argc;
	char **argv;
	char *directory;
};

#define CONFIG_NULL                                                                                \
	{                                                                                          \
		.config_path = NULL                                                                \
	}

/* Fill `config`. `argv` is kept, and must stay, for config_reload. 0, CONFIG_EXIT, -EINVAL for a
 * wrong command line, -EBADMSG for wrong content of the file, or another negative errno (the file
 * cannot be read, no directory for the socket, -ENOMEM). `error` names flag, or file, line and key.
 * After anything but 0 there is nothing to finish. */
int config_load(struct config *config, int argc, char **argv, struct error_text *error);

/* Read the file again under the flags and the directory of `current`, which stays as it is. Results
 * as of config_load; `next` is the caller's. */
int config_reload(const struct config *current, struct config *next, struct error_text *error);

void config_finish(struct config *config);

/* The effective configuration, in the form of a config file. */
void config_print(const struct config *config, FILE *out);

/* The data set called `name`, or NULL. */
const struct config_dataset *config_find_dataset(const struct config *config, const char *name);
