/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_TIMEOUT_MS = 30000 };

/* Pages are put together until the list is whole. What the daemon says of it must stay the same. */

static int not_credible(struct stoker *stoker, const char *what)
{
	return client_die(stoker, -EBADMSG, "the daemon at %s broke the protocol: a list %s",
		stoker->socket, what);
}

static int changed(struct stoker *stoker, const char *dataset)
{
	return client_error(stoker, -ESTALE,
		"data set %s was indexed anew while it was listed: ask again", dataset);
}

/* A terminated copy; names have no NUL inside, and one that had would end there for C. */
static bool copy_name(char **name, size_t *length, const ProtobufCBinaryData *bytes)
{
	*name = malloc(bytes->len + 1);
	if (!*name)
		return false;
	if (bytes->len > 0)
		memcpy(*name, bytes->data, bytes->len);
	(*name)[bytes->len] = '\0';
	*length = bytes->len;
	return true;
}

char *stoker_escape(const void *bytes, size_t length)
{
	return text_dup_escaped(bytes, length);
}

static int check_dataset(struct stoker *stoker, const char *dataset)
{
	return dataset && *dataset ? 0 : client_error(stoker, -EINVAL, "no data set is named");
}

/* ---- classes ---- */

void stoker_classes_free(struct stoker_classes *classes)
{
	if (!classes)
		return;
	for (uint32_t i = 0; i < classes->count; i++)
		free(classes->list[i].name);
	free(classes->list);
	free(classes);
}

static int ask_classes(struct stoker *stoker, const char *dataset, uint32_t first,
	Stoker__V1__ServerMessage **answer)
{
	Stoker__V1__ListClasses list = STOKER__V1__LIST_CLASSES__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	int r;

	list.request = client_next_request(stoker);
	list.dataset.data = (uint8_t *)dataset;
	list.dataset.len = strlen(dataset);
	list.first = first;
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_LIST_CLASSES;
	message.list_classes = &list;
	r = client_send(stoker, &message);
	if (r < 0)
		return r;
	return client_wait(stoker, list.request, STOKER__V1__SERVER_MESSAGE__MESSAGE_CLASSES,
		LIST_TIMEOUT_MS, answer);
}

static int add_classes(struct stoker *stoker, const char *dataset, struct stoker_classes *classes,
	const Stoker__V1__Classes *page)
{
	struct stoker_class *list;

	if (classes->count > 0 && page->fingerprint != classes->fingerprint)
		return changed(stoker, dataset);
	if (page->first != classes->count || page->total < classes->count ||
		page->n_entry > page->total - classes->count ||
		(page->n_entry == 0 && page->total > classes->count))
		return not_credible(stoker, "of classes has another length than it says");
	list = realloc(classes->list, (classes->count + page->n_entry + 1) * sizeof(*list));
	if (!list)
		return client_error(stoker, -ENOMEM, "out of memory");
	classes->list = list;
	classes->fingerprint = page->fingerprint;
	for (size_t i = 0; i < page->n_entry; i++) {
		struct stoker_class *class = &classes->list[classes->count];

		class->samples = page->entry[i]->samples;
		if (!copy_name(&class->name, &class->length, &page->entry[i]->name))
			return client_error(stoker, -ENOMEM, "out of memory");
		classes->count++;
	}
	return classes->count < page->total;
}

int stoker_classes(struct stoker *stoker, const char *dataset, struct stoker_classes **classes)
{
	struct stoker_classes *all = calloc(1, sizeof(*all));
	Stoker__V1__ServerMessage *answer;
	int r;

	*classes = NULL;
	if (!all)
		return client_error(stoker, -ENOMEM, "out of memory");
	r = check_dataset(stoker, dataset);
	if (r == 0)
		r = 1;
	while (r == 1) {
		r = ask_classes(stoker, dataset, all->count, &answer);
		if (r < 0)
			break;
		r = add_classes(stoker, dataset, all, answer->classes);
		stoker__v1__server_message__free_unpacked(answer, NULL);
	}
	if (r < 0)
		stoker_classes_free(all);
	else
		*classes = all;
	return r;
}

/* ---- samples ---- */

void stoker_samples_free(struct stoker_samples *samples)
{
	if (!samples)
		return;
	for (size_t i = 0; i < samples->count; i++)
		free(samples->list[i].path);
	free(samples->list);
	free(samples);
}

static int ask_samples(struct stoker *stoker, const char *dataset, uint64_t first, uint64_t count,
	Stoker__V1__ServerMessage **answer)
{
	Stoker__V1__ListSamples list = STOKER__V1__LIST_SAMPLES__INIT;
	Stoker__V1__ClientMessage message = STOKER__V1__CLIENT_MESSAGE__INIT;
	int r;

	list.request = client_next_request(stoker);
	list.dataset.data = (uint8_t *)dataset;
	list.dataset.len = strlen(dataset);
	list.first = first;
	list.count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
	message.message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_LIST_SAMPLES;
	message.list_samples = &list;
	r = client_send(stoker, &message);
	if (r < 0)
		return r;
	return client_wait(stoker, list.request, STOKER__V1__SERVER_MESSAGE__MESSAGE_SAMPLES,
		LIST_TIMEOUT_MS, answer);
}

/* `most` = how many are still wanted; 0 = as many as came. */
static int add_samples(struct stoker *stoker, const char *dataset, struct stoker_samples *samples,
	const Stoker__V1__Samples *page, uint64_t most)
{
	uint64_t at = samples->first + samples->count;
	uint64_t left = page->total > at ? page->total - at : 0;
	struct stoker_sample *list;

	if (samples->count > 0 && page->fingerprint != samples->fingerprint)
		return changed(stoker, dataset);
	if (page->first != at || page->n_entry > left || (most > 0 && page->n_entry > most) ||
		(page->n_entry == 0 && left > 0))
		return not_credible(stoker, "of samples has another length than it says");
	list = realloc(samples->list, (samples->count + page->n_entry + 1) * sizeof(*list));
	if (!list)
		return client_error(stoker, -ENOMEM, "out of memory");
	samples->list = list;
	samples->fingerprint = page->fingerprint;
	samples->total = page->total;
	for (size_t i = 0; i < page->n_entry; i++) {
		struct stoker_sample *sample = &samples->list[samples->count];

		sample->index = page->entry[i]->sample;
		sample->label = page->entry[i]->label;
		if (!copy_name(&sample->path, &sample->length, &page->entry[i]->path))
			return client_error(stoker, -ENOMEM, "out of memory");
		samples->count++;
	}
	return most > page->n_entry && left > page->n_entry;
}

int stoker_samples(struct stoker *stoker, const char *dataset, uint64_t first, uint64_t count,
	struct stoker_samples **samples)
{
	struct stoker_samples *all = calloc(1, sizeof(*all));
	Stoker__V1__ServerMessage *answer;
	int r;

	*samples = NULL;
	if (!all)
		return client_error(stoker, -ENOMEM, "out of memory");
	all->first = first;
	r = check_dataset(stoker, dataset);
	if (r == 0)
		r = 1;
	while (r == 1) {
		uint64_t most = count > 0 ? count - all->count : 0;

		r = ask_samples(stoker, dataset, first + all->count, most, &answer);
		if (r < 0)
			break;
		r = add_samples(stoker, dataset, all, answer->samples, most);
		stoker__v1__server_message__free_unpacked(answer, NULL);
	}
	if (r < 0)
		stoker_samples_free(all);
	else
		*samples = all;
	return r;
}
