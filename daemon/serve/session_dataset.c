/* SPDX-License-Identifier: Apache-2.0 */
/* What all requests about a data set have in common. */
#include "daemon/serve/session.h"

#include "daemon/util/escape.h"

#include <stdio.h>

static void refuse_unknown(
	struct session *session, const void *name, size_t length, uint32_t request)
{
	const struct catalog *catalog = &session->service->catalog;
	char text[ERROR_TEXT_MAX];
	int used = snprintf(text, sizeof(text), "no data set is called \"%s\"; ",
		escape_bytes(name, length).text);

	if (catalog->count == 0)
		snprintf(text + used, sizeof(text) - (size_t)used,
			"this daemon serves none: start it with --dataset NAME=PATH");
	else
		used += snprintf(text + used, sizeof(text) - (size_t)used, "there is");
	for (size_t i = 0; i < catalog->count && used < (int)sizeof(text) - 80; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used, "%s %s",
			i > 0 ? "," : "", catalog->datasets[i]->name);
	session_refuse(session, STOKER__V1__ERROR_CODE__ERROR_UNKNOWN_DATASET, request, 0, text);
}

struct dataset *session_find_dataset(
	struct session *session, const void *name, size_t length, uint32_t request)
{
	struct dataset *dataset = catalog_find(&session->service->catalog, name, length);

	if (dataset == NULL)
		refuse_unknown(session, name, length, request);
	return dataset;
}

struct error_text session_dataset_failure(const struct dataset *dataset)
{
	struct error_text text;

	error_set(&text, 0, "data set %s: %s", dataset->name, dataset->error.text);
	return text;
}

void session_send_indexing(struct session *session, uint32_t request, uint64_t samples)
{
	Stoker__V1__Indexing indexing = STOKER__V1__INDEXING__INIT;

	indexing.request = request;
	indexing.samples = samples;
	session_send(session, &SERVER_MESSAGE(INDEXING, indexing, &indexing), -1);
}
