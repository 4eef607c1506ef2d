/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and samples of a data set, page by page. */
#include "daemon/serve/session.h"

#include "daemon/data/part_name.h"
#include "daemon/serve/shared_part.h"
#include "daemon/util/ownership.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* A page is small enough for a frame, and for one turn of the loop. */
	PAGE_BYTES = FRAME_CONTROL_MAX - 64,
	PAGE_ENTRIES = 8192,
	ENTRY_BYTES = 40, /* of an entry but for its name: tags, lengths and numbers, at most */
};

/* A request; it waits where its data set is still being indexed, and then, for a part of one, until a
 * thread has drawn that. */
struct listing {
	struct dataset_waiter waiter; /* first: callbacks get this pointer */
	uv_work_t work;
	struct session *session; /* NULL when the client is gone while the thread works */
	struct listing *next;
	struct dataset *dataset; /* referenced */
	struct part_name name;
	struct shared_part *shared; /* referenced; NULL = all of the data set */
	struct part part;           /* what the list is of */
	uint64_t fingerprint;
	uint64_t *class_samples; /* of a part, when asked for */
	bool drawing;
	int drawn;    /* 0 or -errno, from the thread */
	bool classes; /* or samples */
	uint32_t request, count;
	uint64_t first;
};

/* ---- answers ---- */

/* The entries of one page: names lie one after the other in `names`. */
struct page {
	uint8_t *names;
	size_t used;  /* of PAGE_BYTES, entries included */
	size_t named; /* of `names` */
	uint32_t count, most;
};

/* Take a name into the page: where it lies now, or NULL when it does not fit. */
static uint8_t *page_add(struct page *page, const void *name, size_t length)
{
	uint8_t *place = page->names + page->named;

	if (page->count == page->most || length + ENTRY_BYTES > PAGE_BYTES - page->used)
		return NULL;
	memcpy(place, name, length);
	page->used += length + ENTRY_BYTES;
	page->named += length;
	page->count++;
	return place;
}

static uint32_t entries_from(uint64_t first, uint64_t total, uint32_t count)
{
	uint64_t left = first < total ? total - first : 0;
	uint32_t most = count > 0 && count < PAGE_ENTRIES ? count : PAGE_ENTRIES;

	return left < most ? (uint32_t)left : most;
}

/* False without memory. */
static bool send_classes(struct listing *listing, struct page *page)
{
	const struct index *index = &listing->dataset->index;
	const uint64_t *samples = listing->shared != NULL ? listing->class_samples
							  : dataset_class_samples(listing->dataset);
	Stoker__V1__Classes answer = STOKER__V1__CLASSES__INIT;
	_cleanup_free_ Stoker__V1__ClassEntry *entries = calloc(page->most + 1, sizeof(*entries));
	_cleanup_free_ Stoker__V1__ClassEntry **list = calloc(page->most + 1, sizeof(*list));

	if (samples == NULL || entries == NULL || list == NULL)
		return false;
	for (uint64_t i = listing->first; page->count < page->most; i++) {
		const struct index_class *class = &index->classes[i];
		Stoker__V1__ClassEntry *entry = &entries[page->count];
		uint8_t *name = page_add(page, index->blob + class->offset, class->length);

		if (name == NULL)
			break;
		stoker__v1__class_entry__init(entry);
		entry->name = (ProtobufCBinaryData){.len = class->length, .data = name};
		entry->samples = samples[i];
		list[page->count - 1] = entry;
	}
	answer.request = listing->request;
	answer.first = (uint32_t)listing->first;
	answer.total = index->header->classes;
	answer.fingerprint = listing->fingerprint;
	answer.n_entry = page->count;
	answer.entry = list;
	session_send(listing->session, &SERVER_MESSAGE(CLASSES, classes, &answer), -1);
	return true;
}

static bool send_samples(struct listing *listing, struct page *page)
{
	const struct index *index = &listing->dataset->index;
	Stoker__V1__Samples answer = STOKER__V1__SAMPLES__INIT;
	_cleanup_free_ Stoker__V1__SampleEntry *entries = calloc(page->most + 1, sizeof(*entries));
	_cleanup_free_ Stoker__V1__SampleEntry **list = calloc(page->most + 1, sizeof(*list));
	uint8_t path[INDEX_NAME_MAX];

	if (entries == NULL || list == NULL)
		return false;
	for (uint64_t i = listing->first; page->count < page->most; i++) {
		Stoker__V1__SampleEntry *entry = &entries[page->count];
		uint64_t sample = part_sample(&listing->part, i);
		size_t length = index_name(index, sample, path);
		uint8_t *place = page_add(page, path, length);

		if (place == NULL)
			break;
		stoker__v1__sample_entry__init(entry);
		entry->sample = sample;
		entry->label = index->samples[sample].label;
		entry->path = (ProtobufCBinaryData){.len = length, .data = place};
		list[page->count - 1] = entry;
	}
	answer.request = listing->request;
	answer.first = listing->first;
	answer.total = listing->part.count;
	answer.fingerprint = listing->fingerprint;
	answer.n_entry = page->count;
	answer.entry = list;
	session_send(listing->session, &SERVER_MESSAGE(SAMPLES, samples, &answer), -1);
	return true;
}

/* A long list is asked for page by page: its part stays drawn until the last of them. */
static void keep_part(struct session *session, struct dataset *dataset, struct shared_part *part)
{
	struct dataset *last_dataset = session->listed_dataset;
	struct shared_part *last_part = session->listed_part;

	session->listed_dataset = part != NULL ? dataset_ref(dataset) : NULL;
	session->listed_part = part != NULL ? shared_part_ref(part) : NULL;
	shared_part_unref(last_part);
	dataset_unref(last_dataset);
}

static void answer(struct listing *listing)
{
	uint64_t total =
		listing->classes ? listing->dataset->index.header->classes : listing->part.count;
	_cleanup_free_ uint8_t *names = malloc(PAGE_BYTES);
	struct session *session = listing->session;
	struct page page = {.names = names};
	bool sent = names != NULL;

	page.most = entries_from(listing->first, total, listing->count);
	if (sent)
		sent = listing->classes ? send_classes(listing, &page)
					: send_samples(listing, &page);
	if (!sent)
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, listing->request, 0,
			"out of memory");
	else if (!session->closing)
		keep_part(session, listing->dataset,
			listing->first + page.count < total ? listing->shared : NULL);
}

/* ---- waiting ---- */

static void listing_destroy(struct listing *listing)
{
	if (listing->session != NULL) {
		struct listing **link = &listing->session->listings;

		while (*link != listing)
			link = &(*link)->next;
		*link = listing->next;
		listing->session->listing_count--;
	}
	dataset_cancel(&listing->waiter);
	shared_part_unref(listing->shared);
	dataset_unref(listing->dataset);
	free(listing->class_samples);
	free(listing);
}

void session_cancel_listings(struct session *session)
{
	struct listing *listing, *next;

	keep_part(session, NULL, NULL);

	for (listing = session->listings; listing != NULL; listing = next) {
		next = listing->next;
		if (listing->drawing) {
			listing->session = NULL; /* on_drawn cleans up */
			session->listing_count--;
			uv_cancel((uv_req_t *)&listing->work);
		} else {
			listing_destroy(listing);
		}
	}
	session->listings = NULL;
}

/* The last of it: answer, or refuse with a text. */
static void finish(struct listing *listing, Stoker__V1__ErrorCode code, const char *text)
{
	struct session *session = listing->session;

	if (text == NULL)
		answer(listing);
	else
		session_refuse(session, code, listing->request, 0, text);
	/* Sending may have closed the session, and this with it. */
	if (!session->closing)
		listing_destroy(listing);
}

/* ---- parts ---- */

/* How many samples of the part each class has: 0 or -ENOMEM. */
static int count_classes(struct listing *listing)
{
	const struct index *index = &listing->dataset->index;
	const struct part *part = &listing->shared->part;

	listing->class_samples = calloc(index->header->classes, sizeof(*listing->class_samples));
	if (listing->class_samples == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < part->count; i++)
		listing->class_samples[index->samples[part_sample(part, i)].label]++;
	return 0;
}

static void draw_part(uv_work_t *work)
{
	struct listing *listing = work->data;

	listing->drawn = shared_part_fill(listing->shared);
	if (listing->drawn == 0 && listing->classes)
		listing->drawn = count_classes(listing);
}

static void on_drawn(uv_work_t *work, int status)
{
	struct listing *listing = work->data;

	listing->drawing = false;
	if (listing->session == NULL) {
		listing_destroy(listing);
		return;
	}
	if (status < 0 || listing->drawn < 0) {
		finish(listing, STOKER__V1__ERROR_CODE__ERROR_MEMORY,
			"there is no memory to draw this part of the data set");
		return;
	}
	shared_part_filled(listing->shared);
	listing->part = listing->shared->part;
	finish(listing, 0, NULL);
}

/* Refuse for a reason that continues a sentence which begins with the part's name. */
static void refuse_part(struct listing *listing, Stoker__V1__ErrorCode code, const char *why)
{
	char bounds[PART_BOUNDS_MAX];
	struct error_text text;

	part_name_format(&listing->name, bounds);
	error_set(&text, 0, "%s%s: %s", listing->dataset->name, bounds, why);
	finish(listing, code, text.text);
}

/* The data set is READY: answer at once, or when the part of it is drawn. */
static void proceed(struct listing *listing)
{
	struct service *service = listing->session->service;
	const struct index *index = &listing->dataset->index;
	uint64_t samples = index->header->samples, first, end;
	struct error_text error = {""};

	if (part_name_resolve(&listing->name, samples, &first, &end, &error) != 0) {
		refuse_part(listing, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, error.text);
		return;
	}
	listing->part.count = end - first;
	listing->fingerprint = part_fingerprint(index->fingerprint, samples, first, end);
	if (listing->part.count == samples) {
		finish(listing, 0, NULL);
		return;
	}
	listing->shared = shared_part_get(
		listing->dataset, service->loop, &service->budget, first, end, &error);
	if (listing->shared == NULL) {
		refuse_part(listing, STOKER__V1__ERROR_CODE__ERROR_MEMORY, error.text);
		return;
	}
	listing->work.data = listing;
	listing->drawing = true;
	if (uv_queue_work(service->loop, &listing->work, draw_part, on_drawn) < 0) {
		listing->drawing = false;
		finish(listing, STOKER__V1__ERROR_CODE__ERROR_INTERNAL, "out of memory");
	}
}

/* ---- the request comes in ---- */

static void on_progress(struct dataset_waiter *waiter, uint64_t samples)
{
	const struct listing *listing = (const struct listing *)waiter;

	session_send_indexing(listing->session, listing->request, samples);
}

static void on_dataset(struct dataset_waiter *waiter)
{
	struct listing *listing = (struct listing *)waiter;
	struct error_text text;

	if (listing->dataset->state == DATASET_STATE_READY) {
		proceed(listing);
		return;
	}
	text = session_dataset_failure(listing->dataset);
	finish(listing, STOKER__V1__ERROR_CODE__ERROR_DATASET, text.text);
}

/* Answer `from`, now or when its data set is indexed. */
static void start(
	struct session *session, const ProtobufCBinaryData *name, const struct listing *from)
{
	struct error_text error = {""};
	struct part_name part;
	struct dataset *dataset;
	struct listing *listing;

	if (part_name_parse(&part, name->data, name->len, &error) != 0) {
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, from->request, 0,
			error.text);
		return;
	}
	dataset = session_find_dataset(session, name->data, part.dataset_length, from->request);
	if (dataset == NULL)
		return;
	listing = session->listing_count < PROTOCOL_LISTS_MAX ? malloc(sizeof(*listing)) : NULL;
	if (listing == NULL) {
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_LIMIT, from->request, 0,
			"too many lists of this connection wait for their data set");
		return;
	}
	*listing = *from;
	listing->session = session;
	listing->name = part;
	listing->dataset = dataset_ref(dataset);
	listing->waiter.progress = on_progress;
	listing->waiter.done = on_dataset;
	listing->next = session->listings;
	session->listings = listing;
	session->listing_count++;
	if (dataset->state == DATASET_STATE_READY) {
		on_dataset(&listing->waiter);
		return;
	}
	session_send_indexing(session, from->request, dataset->found);
	if (!session->closing)
		dataset_wait(dataset, &listing->waiter);
}

void session_handle_list_classes(struct session *session, const Stoker__V1__ListClasses *list)
{
	start(session, &list->dataset,
		&(struct listing){.classes = true, .request = list->request, .first = list->first});
}

void session_handle_list_samples(struct session *session, const Stoker__V1__ListSamples *list)
{
	start(session, &list->dataset,
		&(struct listing){
			.request = list->request, .first = list->first, .count = list->count});
}
