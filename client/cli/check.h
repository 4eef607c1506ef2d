/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/check_walk.h"
#include "client/cli/cli.h"
#include "client/stoker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The parts of `stoker check`: what is named on the command line becomes sources, each is opened at a
 * daemon as one data set of digests, and whatever comes is told.
 */
enum check_kind {
	CHECK_NAME,    /* a data set of the running daemon */
	CHECK_DATASET, /* a data set at a path */
	CHECK_FILES,   /* image files: a manifest of them is made */
};

struct check_source {
	enum check_kind kind;
	char *path; /* NAME: the name; DATASET: an absolute path; FILES: NULL */
	struct check_files files;
};

struct check_sources {
	struct check_source *list;
	size_t count, capacity;
};

/* What one run tells, and what it has found so far. */
struct check {
	const struct cli *cli;
	bool digest;
	bool exif_orientation, grey16_clip; /* as in struct stoker_options */
	uint64_t workers;                   /* of a private daemon */
	bool workers_given;
	FILE *out; /* for bad files and the summary: stdout, unless digests go there */
	uint64_t images, bad;
	double seconds; /* spent on streams */
	bool failed;    /* something could not be checked at all */
};

/* ---- check_source.c ---- */

/* Add what an argument names; files in a row become one source. 0 or -ENOMEM. */
int check_sources_add(struct check_sources *sources, const char *argument);
void check_sources_finish(struct check_sources *sources);

/* ---- check_run.c ---- */

/* Decode the data set `name` of the daemon and tell what is found; `files` are its samples' names in
 * order, or NULL: the daemon is asked. CLI_OK, however many are bad, or CLI_FAILED after saying why. */
int check_run(struct check *check, struct stoker *stoker, const char *name,
	const struct check_files *files);

/* ---- check_private.c ---- */

/* Check sources that are no names with a stokerd of our own. */
void check_private(struct check *check, const struct check_source *sources, size_t count);
