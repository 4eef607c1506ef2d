/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/catalog.h"

#include "daemon/image/decode/decode.h"
#include "daemon/serve/intake.h"
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

/* Nobody wants the index that is being made. */
static void abandon_indexing(struct dataset *dataset)
{
	indexer_abandon(dataset->indexer);
	intake_abandon(dataset->intake);
	dataset->indexer = NULL;
	dataset->intake = NULL;
	index_store_finish(&dataset->store);
}

void dataset_unref(struct dataset *dataset)
{
	if (dataset == NULL || --dataset->references > 0)
		return;
	abandon_indexing(dataset);
	intake_release_consume(dataset->loop, &dataset->index, dataset->index_fd, dataset->data_fd);
	free(dataset->class_samples);
	bad_samples_finish(&dataset->bad);
	for (size_t i = 0; i < dataset->also_read_count; i++)
		free(dataset->also_read[i]);
	free(dataset->also_read);
	free(dataset->name);
	free(dataset->path);
	free(dataset->options);
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

	dataset->found = samples;
}

static void tell_progress(struct dataset *dataset)
{
	struct dataset_waiter *waiter;

	dataset->round++;
	/* From the start after each call: telling one may cancel others. */
	for (waiter = dataset->waiters; waiter != NULL;) {
		if (waiter->round == dataset->round) {
			waiter = waiter->next;
			continue;
		}
		waiter->round = dataset->round;
		waiter->progress(waiter, dataset->found);
		waiter = dataset->waiters;
	}
}

static void on_failed(const char *why, void *data)
{
	struct dataset *dataset = data;

	dataset->indexer = NULL;
	index_store_finish(&dataset->store);
	dataset->state = DATASET_STATE_FAILED;
	dataset->has_failed = true;
	error_set(&dataset->error, 0, "%s", why);
	escape_sanitize(
		dataset->error.text); /* it comes from a process that has seen hostile bytes */
	log_error("data set %s: %s", dataset->name, dataset->error.text);
	tell_waiters(dataset);
}

static void start_indexing(struct dataset *dataset, bool may_reuse);

static const char *origin_text(enum index_origin origin)
{
	switch (origin) {
	case INDEX_REUSED: return ", from the saved index";
	case INDEX_BUILT_AND_SAVED: return ", the index is saved";
	default: return "";
	}
}

static void log_ready(const struct dataset *dataset, const struct intake_result *result)
{
	const struct index_header *header = dataset->index.header;
	char problem[ERROR_TEXT_MAX];

	/* Each Open tries it again, and the log has it all already. */
	if (dataset->renewed && dataset_unsized(dataset))
		return;
	log_info("data set %s: %" PRIu64 " samples in %u classes at %s (%s)%s", dataset->name,
		dataset->found, header->classes, escape(dataset->path).text,
		index_kind_name(header->kind), origin_text(result->origin));
	if (result->kept < 0)
		log_notice("data set %s: the index cannot be saved: %s", dataset->name,
			strerror(-result->kept));
	if (header->hidden_skipped > 0)
		log_notice("data set %s: %u hidden entries were left out", dataset->name,
			header->hidden_skipped);
	if (header->empty_classes > 0)
		log_notice("data set %s: %u of %u classes have no samples", dataset->name,
			header->empty_classes, header->classes);
	if (dataset_unsized(dataset)) {
		index_problem(&dataset->index, problem, sizeof(problem));
		log_error("data set %s: %s", dataset->name, problem);
	}
}

static void become_ready(struct dataset *dataset, const struct intake_result *result)
{
	dataset->index = result->index;
	dataset->index_fd = result->index_fd;
	dataset->data_fd = result->data_fd;
	dataset->state = DATASET_STATE_READY;
	dataset->found = dataset->index.header->samples;
	log_ready(dataset, result);
	if (dataset->has_failed && dataset->catalog != NULL)
		dataset->catalog->recovered(dataset->catalog->data);
	dataset->has_failed = false;
	tell_waiters(dataset);
}

static void on_checked(struct intake_result *result, void *data)
{
	struct dataset *dataset = data;

	dataset->intake = NULL;
	if (result->checked == 0) {
		become_ready(dataset, result);
	} else if (result->origin == INDEX_REUSED && dataset->may_reuse &&
		   dataset->catalog != NULL) {
		log_notice("data set %s: the saved index is not used: %s", dataset->name,
			result->error.text);
		start_indexing(dataset, false);
	} else {
		on_failed(result->error.text, dataset);
	}
}

static void on_indexed(
	int index_fd, int data_fd, enum index_origin origin, const char *note, void *data)
{
	struct dataset *dataset = data;
	struct error_text text;

	dataset->indexer = NULL;
	if (note[0] != '\0' && !dataset->renewed) {
		error_set(&text, 0, "%s", note);
		escape_sanitize(text.text);
		log_info("data set %s: %s", dataset->name, text.text);
	}
	dataset->intake = intake_start_consume(dataset->loop, dataset->path, index_fd, data_fd,
		origin, &dataset->store, on_checked, dataset);
	if (dataset->intake == NULL)
		on_failed("out of memory", dataset);
}

static void start_indexing(struct dataset *dataset, bool may_reuse)
{
	static const struct indexer_ops ops = {
		.progress = on_progress,
		.indexed = on_indexed,
		.failed = on_failed,
	};
	struct catalog *catalog = dataset->catalog;
	/* Only its own roots: one on a file server that hangs must not hold up the others. */
	const struct worker_settings settings = {
		.program = catalog->program,
		.sandbox = catalog->sandbox,
		.roots = (const char *const *)dataset->also_read,
		.root_count = dataset->also_read_count,
	};
	struct indexer_request request = {
		.path = dataset->path,
		.options = dataset->options,
		.max_memory = catalog->max_memory,
		.max_pixels = catalog->max_pixels,
	};
	struct error_text error;

	dataset->state = DATASET_STATE_INDEXING;
	dataset->found = 0;
	dataset->loop = catalog->loop;
	if (index_store_open(&dataset->store, catalog->index_dir, dataset->name, &error) < 0 &&
		!dataset->renewed)
		log_warning(
			"data set %s: its index cannot be saved: %s", dataset->name, error.text);
	request.saved_fd = may_reuse ? dataset->store.saved_fd : -1;
	dataset->may_reuse = request.saved_fd >= 0;
	request.save_fd = dataset->store.save_fd;
	dataset->indexer = indexer_start(catalog->loop, &settings, &request, &ops, dataset, &error);
	if (dataset->indexer == NULL)
		on_failed(error.text, dataset);
}

enum { TICK_MS = 1000 };

static void on_tick(uv_timer_t *tick)
{
	const struct catalog *catalog = tick->data;
	bool anybody = false;

	for (size_t i = 0; i < catalog->count; i++) {
		tell_progress(catalog->datasets[i]);
		anybody |= catalog->datasets[i]->waiters != NULL;
	}
	if (!anybody)
		uv_timer_stop(tick);
}

void dataset_wait(struct dataset *dataset, struct dataset_waiter *waiter)
{
	waiter->dataset = dataset;
	waiter->next = dataset->waiters;
	dataset->waiters = waiter;
	if (dataset->catalog != NULL && !uv_is_active((uv_handle_t *)&dataset->catalog->tick))
		uv_timer_start(&dataset->catalog->tick, on_tick, TICK_MS, TICK_MS);
	if (dataset->state == DATASET_STATE_FAILED && dataset->catalog != NULL)
		start_indexing(dataset, true);
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

static bool copy_roots(struct dataset *dataset, const struct catalog_entry *entry)
{
	for (size_t i = 0; i < entry->also_read_count; i++) {
		dataset->also_read[i] = strdup(entry->also_read[i]);
		if (dataset->also_read[i] == NULL)
			return false;
		dataset->also_read_count++;
	}
	if (entry->options.classes == NULL)
		return true;
	dataset->also_read[dataset->also_read_count] = strdup(entry->options.classes);
	return dataset->also_read[dataset->also_read_count++] != NULL;
}

static struct dataset *dataset_create(struct catalog *catalog, const struct catalog_entry *entry)
{
	struct dataset *dataset = calloc(1, sizeof(*dataset));

	if (dataset == NULL)
		return NULL;
	dataset->references = 1;
	dataset->catalog = catalog;
	dataset->index_fd = dataset->data_fd = -1;
	dataset->store = (struct index_store)INDEX_STORE_NULL;
	dataset->name = strdup(entry->name);
	dataset->path = strdup(entry->path);
	dataset->options = dataset_options_dup_text(&entry->options);
	dataset->also_read = calloc(entry->also_read_count + 2, sizeof(*dataset->also_read));
	if (dataset->name == NULL || dataset->path == NULL || dataset->options == NULL ||
		dataset->also_read == NULL || !copy_roots(dataset, entry)) {
		dataset_unref(dataset);
		return NULL;
	}
	return dataset;
}

struct dataset *catalog_renew(struct dataset *dataset)
{
	struct catalog *catalog = dataset->catalog;
	struct catalog_entry entry = {
		.name = dataset->name,
		.path = dataset->path,
		.also_read = dataset->also_read,
		.also_read_count = dataset->also_read_count,
	};
	struct dataset *renewed;
	size_t i = 0;

	if (catalog == NULL || !dataset_options_parse(dataset->options, &entry.options))
		return dataset;
	if (entry.options.classes != NULL)
		entry.also_read_count--; /* copy_roots has appended it */
	renewed = dataset_create(catalog, &entry);
	if (renewed == NULL)
		return dataset;
	while (catalog->datasets[i] != dataset)
		i++;
	catalog->datasets[i] = renewed;
	dataset->catalog = NULL;
	dataset_unref(dataset);
	renewed->renewed = true;
	start_indexing(renewed, false);
	return renewed;
}

const uint64_t *dataset_class_samples(struct dataset *dataset)
{
	const struct index *index = &dataset->index;

	if (dataset->class_samples != NULL)
		return dataset->class_samples;
	dataset->class_samples = calloc(index->header->classes, sizeof(*dataset->class_samples));
	for (uint64_t i = 0; dataset->class_samples != NULL && i < index->header->samples; i++)
		dataset->class_samples[index->samples[i].label]++;
	return dataset->class_samples;
}

static void let_go(struct dataset **datasets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct dataset *dataset = datasets[i];

		dataset->catalog = NULL;
		if (dataset->state == DATASET_STATE_INDEXING && dataset->waiters != NULL) {
			abandon_indexing(dataset);
			on_failed("the configuration was reloaded; open the stream again", dataset);
		}
		dataset_unref(dataset);
	}
	free(datasets);
}

int catalog_set(struct catalog *catalog, const struct catalog_entry *entries, size_t count)
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
	catalog->datasets = datasets;
	catalog->count = count;
	let_go(old, old_count);
	for (size_t i = 0; i < count; i++)
		start_indexing(datasets[i], true);
	return 0;
}

void catalog_init(struct catalog *catalog, uv_loop_t *loop)
{
	*catalog = (struct catalog){.loop = loop, .max_pixels = DECODE_MAX_PIXELS};
	uv_timer_init(loop, &catalog->tick);
	catalog->tick.data = catalog;
}

void catalog_finish(struct catalog *catalog)
{
	uv_close((uv_handle_t *)&catalog->tick, NULL);
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
