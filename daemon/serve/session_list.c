/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and samples of a data set, page by page. */
#include "daemon/serve/session.h"

#include "daemon/data/part_name.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <string.h>

enum {
	/* A page is small enough for a frame, and for one turn of the loop. */
	PAGE_BYTES = FRAME_CONTROL_MAX - 64,
	PAGE_ENTRIES = 8192,
	ENTRY_BYTES = 40, /* of an entry but for its name: tags, lengths and numbers, at most */
};

/* A request; it waits where its data set is still being indexed. */
struct listing {
	struct dataset_waiter waiter; /* first: callbacks get this pointer */
	struct session *session;
	struct listing *next;
	struct dataset *dataset; /* referenced */
	bool classes;            /* or samples */
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
	const uint64_t *samples = dataset_class_samples(listing->dataset);
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
	answer.fingerprint = index->fingerprint;
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
		size_t length = index_name(index, i, path);
		uint8_t *place = page_add(page, path, length);

		if (place == NULL)
			break;
		stoker__v1__sample_entry__init(entry);
		entry->sample = i;
		entry->label = index->samples[i].label;
		entry->path = (ProtobufCBinaryData){.len = length, .data = place};
		list[page->count - 1] = entry;
	}
	answer.request = listing->request;
	answer.first = listing->first;
	answer.total = index->header->samples;
	answer.fingerprint = index->fingerprint;
	answer.n_entry = page->count;
	answer.entry = list;
	session_send(listing->session, &SERVER_MESSAGE(SAMPLES, samples, &answer), -1);
	return true;
}

static void answer(struct listing *listing)
{
	const struct index_header *header = listing->dataset->index.header;
	_cleanup_free_ uint8_t *names = malloc(PAGE_BYTES);
	struct page page = {.names = names};
	bool sent = names != NULL;

	page.most = entries_from(listing->first,
		listing->classes ? header->classes : header->samples, listing->count);
	if (sent)
		sent = listing->classes ? send_classes(listing, &page)
					: send_samples(listing, &page);
	if (!sent)
		session_refuse(listing->session, STOKER__V1__ERROR_CODE__ERROR_INTERNAL,
			listing->request, 0, "out of memory");
}

/* ---- waiting ---- */

static void listing_destroy(struct listing *listing)
{
	struct listing **link = &listing->session->listings;

	while (*link != listing)
		link = &(*link)->next;
	*link = listing->next;
	listing->session->listing_count--;
	dataset_cancel(&listing->waiter);
	dataset_unref(listing->dataset);
	free(listing);
}

void session_cancel_listings(struct session *session)
{
	while (session->listings != NULL)
		listing_destroy(session->listings);
}

static void on_progress(struct dataset_waiter *waiter, uint64_t samples)
{
	const struct listing *listing = (const struct listing *)waiter;

	session_send_indexing(listing->session, listing->request, samples);
}

static void on_dataset(struct dataset_waiter *waiter)
{
	struct listing *listing = (struct listing *)waiter;
	struct session *session = listing->session;
	struct error_text text;

	if (listing->dataset->state == DATASET_STATE_READY) {
		answer(listing);
	} else {
		text = session_dataset_failure(listing->dataset);
		session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_DATASET, listing->request, 0,
			text.text);
	}
	/* Sending may have closed the session, and this with it. */
	if (!session->closing)
		listing_destroy(listing);
}

/* Lists are of whole data sets: the samples in batches of a part are numbered as in those. */
static bool names_whole(struct session *session, const ProtobufCBinaryData *name, uint32_t request)
{
	struct error_text error = {""};
	struct part_name part;

	if (part_name_parse(&part, name->data, name->len, &error) == 0) {
		if (part.dataset_length == name->len)
			return true;
		error_set(&error, 0,
			"\"%s\" is a part of a data set: ask for the lists of \"%s\", whose numbers "
			"of classes and samples are the same",
			escape_bytes(name->data, name->len).text,
			escape_bytes(name->data, part.dataset_length).text);
	}
	session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, request, 0, error.text);
	return false;
}

/* Answer `from`, now or when its data set is indexed. */
static void start(
	struct session *session, const ProtobufCBinaryData *name, const struct listing *from)
{
	struct dataset *dataset;
	struct listing *listing;

	if (!names_whole(session, name, from->request))
		return;
	dataset = session_find_dataset(session, name->data, name->len, from->request);
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
