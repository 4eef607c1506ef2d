/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/config.h"

/* What the files of the configuration share: config_value.c checks one value at a time, config.c reads
 * the file, options.c the command line, config_load.c puts them together. */
struct config_source {
	const char *where;     /* stands before every error: "--workers", "FILE:7: workers" */
	const char *directory; /* absolute; relative paths start here */
	bool flag;             /* from the command line */
};

/* Keys of the group [stokerd], up to NULL; the flag of a key has '-' for '_'. */
extern const char *const config_keys[];
extern const size_t config_key_count;

/* Check and store the value of a key that is one of config_keys. -EINVAL, -ENOMEM. */
int config_set(struct config *config, const char *key, const struct config_source *source,
	const char *value, struct error_text *error);

/* Add a data set, or replace one from the file by one from a flag. The same name twice in one place
 * is -EINVAL, as are bad names and paths; -ENOMEM. */
int config_add_dataset(struct config *config, const char *name, size_t name_length,
	const char *path, const struct config_source *source, struct error_text *error);

/* Keys of the group [dataset NAME], all but "path" and "also_read" with config_set_dataset. */
extern const char *const config_dataset_keys[];
extern const size_t config_dataset_key_count;

/* Check and store the value of such a key for the data set added last. -EINVAL, -ENOMEM. */
int config_set_dataset(struct config *config, const char *key, const struct config_source *source,
	const char *value, struct error_text *error);

/* Add a root to the data set added last. */
int config_add_also_read(struct config *config, const char *path,
	const struct config_source *source, struct error_text *error);

/* Bytes from a number with an optional K, M or G (powers of 1024). -EINVAL, -ERANGE (over 2^63-1). */
int config_parse_size(const char *text, uint64_t *bytes);

/* Apply the config file at `path` (absolute). -EBADMSG (wrong content), -errno (cannot be read). */
int config_read_file(struct config *config, const char *path, struct error_text *error);

/* Apply the command line; --config is only noted in *config_path (borrowed from argv; NULL = not
 * given). `directory` is what relative paths start from. 0, CONFIG_EXIT, -EINVAL, -ENOMEM. */
int options_apply(struct config *config, int argc, char **argv, const char *directory,
	const char **config_path, struct error_text *error);
