/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/catalog.h"

#include "daemon/util/escape.h"
#include "daemon/util/log.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct dataset *dataset_ref(struct dataset *dataset)
{
	dataset->references++;
	return dataset;
}

void dataset_unref(struct dataset *dataset)
{
	if (dataset == NULL || --dataset->references > 0)
		return;
	indexer_abandon(dataset->indexer);
	index_unmap(&dataset->index);
	close_fd(dataset->index_fd);
	close_fd(dataset->data_fd);
	free(dataset->name);
	free(dataset->path);
	free(dataset);
}

/* The catalog's reference keeps the data set meanwhile. */
static void tell_waiters(struct dataset *dataset)
{
	struct dataset_waiter *waiter;

	while ((waiter = dataset->waiters) != NULL) {
		dataset->waiters = waiter->next;
		waiter->dataset = NULL;
		waiter->done(waiter);
	}
}

static void on_progress(uint64_t samples, void *data)
{
	struct dataset *dataset = data;
	struct dataset_waiter *waiter;

	dataset->found = samples;
	dataset->round++;
	/* From the start after each call: telling one may cancel others. */
	for (waiter = dataset->waiters; waiter != NULL;) {
		if (waiter->round == dataset->round) {
			waiter = waiter->next;
			continue;
		}
		waiter->round = dataset->round;
		waiter->progress(waiter, samples);
		waiter = dataset->waiters;
	}
}

static void on_failed(const char *why, void *data)
{
	struct dataset *dataset = data;

	dataset->indexer = NULL;
	dataset->state = DATASET_STATE_FAILED;
	dataset->has_failed = true;
	error_set(&dataset->error, 0, "%s", why);
	escape_sanitize(
		dataset->error.text); /* it comes from a process that has seen hostile bytes */
	log_error("data set %s: %s", dataset->name, dataset->error.text);
	tell_waiters(dataset);
}

/* Is the index about the path that was asked for? A folder is that path; an IDX file is that path, or
 * stands directly in it. */
static bool index_belongs(const struct dataset *dataset)
{
	const struct index_header *header = dataset->index.header;
	const char *root = (const char *)dataset->index.blob + header->root_offset;
	size_t path = strlen(dataset->path), length = header->root_length;

	while (path > 1 && dataset->path[path - 1] == '/')
		path--;
	if (length < path || memcmp(root, dataset->path, path) != 0)
		return false;
	for (; length > path && root[path] == '/'; path++) {
	}
	if (length == path)
		return true;
	return header->kind == INDEX_IDX && memchr(root + path, '/', length - path) == NULL &&
	       root[path - 1] == '/';
}

/* Check what the index worker made: 0, or -EBADMSG with the reason. */
static int take_index(struct dataset *dataset, int index_fd, int data_fd, struct error_text *error)
{
	int r = index_map(&dataset->index, index_fd, true, error);

	if (r < 0)
		return r;
	if ((dataset->index.header->data_in_memfd != 0) == (data_fd >= 0) && index_belongs(dataset))
		return 0;
	index_unmap(&dataset->index);
	return error_set(error, -EBADMSG, "the index is not about this data set");
}

static void on_indexed(int index_fd, int data_fd, void *data)
{
	struct dataset *dataset = data;
	struct error_text error;

	if (take_index(dataset, index_fd, data_fd, &error) < 0) {
		close_fd(index_fd);
		close_fd(data_fd);
		on_failed(error.text, dataset);
		return;
	}
	dataset->indexer = NULL;
	dataset->index_fd = index_fd;
	dataset->data_fd = data_fd;
	dataset->state = DATASET_STATE_READY;
	dataset->found = dataset->index.header->samples;
	log_info("data set %s: %" PRIu64 " samples in %u classes at %s (%s)", dataset->name,
		dataset->found, dataset->index.header->classes, escape(dataset->path).text,
		index_kind_name(dataset->index.header->kind));
	if (dataset->index.header->hidden_skipped > 0)
		log_notice("data set %s: %u hidden entries were left out", dataset->name,
			dataset->index.header->hidden_skipped);
	if (dataset->has_failed && dataset->catalog != NULL)
		dataset->catalog->recovered(dataset->catalog->data);
	dataset->has_failed = false;
	tell_waiters(dataset);
}

static void start_indexing(struct dataset *dataset)
{
	static const struct indexer_ops ops = {
		.progress = on_progress,
		.indexed = on_indexed,
		.failed = on_failed,
	};
	struct catalog *catalog = dataset->catalog;
	struct error_text error;

	dataset->state = DATASET_STATE_INDEXING;
	dataset->found = 0;
	dataset->indexer = indexer_start(catalog->loop, &catalog->settings, dataset->path,
		catalog->max_memory, &ops, dataset, &error);
	if (dataset->indexer == NULL)
		on_failed(error.text, dataset);
}

void dataset_wait(struct dataset *dataset, struct dataset_waiter *waiter)
{
	waiter->dataset = dataset;
	waiter->next = dataset->waiters;
	dataset->waiters = waiter;
	if (dataset->state == DATASET_STATE_FAILED && dataset->catalog != NULL)
		start_indexing(dataset);
}

void dataset_cancel(struct dataset_waiter *waiter)
{
	struct dataset_waiter **link;

	if (waiter->dataset == NULL)
		return;
	for (link = &waiter->dataset->waiters; *link != NULL; link = &(*link)->next) {
		if (*link == waiter) {
			*link = waiter->next;
			break;
		}
	}
	waiter->dataset = NULL;
}

static struct dataset *dataset_create(struct catalog *catalog, const struct catalog_entry *entry)
{
	struct dataset *dataset = calloc(1, sizeof(*dataset));

	if (dataset == NULL)
		return NULL;
	dataset->references = 1;
	dataset->catalog = catalog;
	dataset->index_fd = dataset->data_fd = -1;
	dataset->name = strdup(entry->name);
	dataset->path = strdup(entry->path);
	if (dataset->name == NULL || dataset->path == NULL) {
		dataset_unref(dataset);
		return NULL;
	}
	return dataset;
}

static void let_go(struct dataset **datasets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct dataset *dataset = datasets[i];

		dataset->catalog = NULL;
		if (dataset->state == DATASET_STATE_INDEXING && dataset->waiters != NULL) {
			indexer_abandon(dataset->indexer);
			on_failed("the configuration was reloaded; open the stream again", dataset);
		}
		dataset_unref(dataset);
	}
	free(datasets);
}

int catalog_set(struct catalog *catalog, const struct worker_settings *settings,
	const struct catalog_entry *entries, size_t count)
{
	struct dataset **datasets = calloc(count + 1, sizeof(struct dataset *));
	struct dataset **old = catalog->datasets;
	size_t old_count = catalog->count;

	if (datasets == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		datasets[i] = dataset_create(catalog, &entries[i]);
		if (datasets[i] == NULL) {
			let_go(datasets, i);
			return -ENOMEM;
		}
	}
	catalog->settings = *settings;
	catalog->datasets = datasets;
	catalog->count = count;
	let_go(old, old_count);
	for (size_t i = 0; i < count; i++)
		start_indexing(datasets[i]);
	return 0;
}

void catalog_finish(struct catalog *catalog)
{
	let_go(catalog->datasets, catalog->count);
	catalog->datasets = NULL;
	catalog->count = 0;
}

struct dataset *catalog_find(const struct catalog *catalog, const void *name, size_t length)
{
	for (size_t i = 0; i < catalog->count; i++) {
		if (strlen(catalog->datasets[i]->name) == length &&
			memcmp(catalog->datasets[i]->name, name, length) == 0)
			return catalog->datasets[i];
	}
	return NULL;
}
