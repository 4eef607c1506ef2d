/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/dataset.h"
#include "daemon/data/index.h"
#include "daemon/serve/bad_samples.h"
#include "daemon/serve/index_store.h"
#include "daemon/util/error.h"
#include "daemon/worker/indexer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/*
 * The data sets that this daemon serves, by name. Each is indexed when it is added, in a process of
 * its own, so that a hanging file server holds up nobody else; one that failed is tried again when
 * somebody asks for it. Streams hold a reference, so a reload never pulls an index away from them.
 */
enum dataset_state {
	DATASET_STATE_INDEXING,
	DATASET_STATE_READY,
	DATASET_STATE_FAILED,
};

struct dataset_waiter;
struct intake;
struct shared_part;

struct dataset {
	unsigned references;
	struct catalog *catalog; /* NULL once the catalog has let go of it */
	char *name, *path;
	char *options;    /* as dataset_options_dup_text() makes them */
	char **also_read; /* further roots that its index worker may read */
	size_t also_read_count;
	enum dataset_state state;
	bool has_failed;
	bool renewed; /* it has taken the place of one of whose samples none could be read */
	/* INDEXING: the process that builds it, then the thread that checks it. */
	uv_loop_t *loop;
	struct indexer *indexer;
	struct intake *intake;
	struct index_store store;
	bool may_reuse; /* a saved index was offered to it */
	uint64_t found; /* samples, while indexing */
	struct error_text error;
	int index_fd, data_fd; /* READY; data_fd may be -1 */
	struct index index;
	uint64_t *class_samples;   /* how many samples each class has; NULL until asked for */
	struct bad_samples bad;    /* found since it was indexed */
	bool grey16_told;          /* the log has said what becomes of grey of 16 bits */
	struct shared_part *parts; /* that streams have open; each of them holds a reference */
	struct dataset_waiter *waiters;
	unsigned round;
};

/* Somebody who waits for a data set to be indexed. Embedded by its owner. */
struct dataset_waiter {
	struct dataset *dataset;
	struct dataset_waiter *next;
	unsigned round; /* of telling about progress */
	void (*progress)(struct dataset_waiter *waiter, uint64_t samples);
	void (*done)(struct dataset_waiter *waiter); /* look at dataset->state; no longer waiting */
};

struct catalog {
	uv_loop_t *loop;
	uv_timer_t tick;               /* tells those who wait, about every second */
	const char *program, *sandbox; /* of index workers; borrowed */
	uint64_t max_memory;           /* for unpacked data of one data set */
	uint64_t max_pixels;           /* of one picture */
	const char *index_dir;         /* where indexes are saved; NULL = nowhere; borrowed */
	struct dataset **datasets;
	size_t count;
	/* A data set that had failed is ready: its path may have come into being after the workers
	 * were confined, so they must be replaced. */
	void (*recovered)(void *data);
	void *data;
};

struct catalog_entry {
	const char *name, *path;
	struct dataset_options options;
	char *const *also_read;
	size_t also_read_count;
};

/* Needs a running loop; the caller then sets program, sandbox, max_memory, max_pixels, index_dir,
 * recovered and data. */
void catalog_init(struct catalog *catalog, uv_loop_t *loop);

/* Replace what is served: everything is indexed anew. -ENOMEM leaves the old set in place. */
int catalog_set(struct catalog *catalog, const struct catalog_entry *entries, size_t count);

/* Its timer is closed by the loop, before the catalog may go. */
void catalog_finish(struct catalog *catalog);

/* Borrowed, or NULL. */
struct dataset *catalog_find(const struct catalog *catalog, const void *name, size_t length);

/* None of its first samples could be read when it was indexed, so nothing is known about their size. */
static inline bool dataset_unsized(const struct dataset *dataset)
{
	return dataset->state == DATASET_STATE_READY && dataset->index.header->width == 0;
}

/* Index a data set anew, as one that takes its place: its files may have been mended since. Returns the
 * new one, borrowed; or the same, without memory or when the catalog has let go of it. */
struct dataset *catalog_renew(struct dataset *dataset);

/* Samples of each class, counted when first asked for (READY); NULL without memory. */
const uint64_t *dataset_class_samples(struct dataset *dataset);

struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset); /* NULL is fine */

/* Wait for `dataset` (starting again if it had failed); `done` comes later, unless cancelled. */
void dataset_wait(struct dataset *dataset, struct dataset_waiter *waiter);
void dataset_cancel(struct dataset_waiter *waiter);
