/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a manifest: samples with classes, or one line that says why not. No file is opened:
 * the folder that the manifest says it lies in is not there. */
#include "daemon/data/class_list.h"
#include "daemon/data/csv.h"
#include "daemon/data/dataset.h"
#include "daemon/data/memfd.h"
#include "daemon/util/ownership.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef NDEBUG
#error "the target needs assert"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every record stands on a line of its own, and holds what its fields say. */
static void check_records(int fd, char separator)
{
	struct error_text reason = {""};
	struct csv_reader csv;
	uint64_t line = 0;
	int r = csv_init(&csv, fd, separator);

	assert(r == 0 && lseek(fd, 0, SEEK_SET) == 0);
	while ((r = csv_next(&csv, &reason)) == 0) {
		assert(csv.count > 0 && csv.line > line);
		line = csv.line;
		for (uint32_t i = 0; i < csv.count; i++)
			assert(strlen(csv_field(&csv, i).text) == csv_field(&csv, i).length);
	}
	assert(r == CSV_END || (r == CSV_BAD && reason.text[0] != '\0'));
	csv_finish(&csv);
}

/* The same bytes as a list of classes: names that are there once, or one line that says why not. */
static int check_list(int fd, struct label_set *list)
{
	struct error_text error = {""};
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = class_list_read(list, path, &error);
	assert(r == 0 || (r == DATASET_UNUSABLE && !strchr(error.text, '\n')));
	for (size_t i = 0; r == 0 && i < list->count; i++) {
		const char *name = list->text + list->entries[i].name;

		assert(name[0] != '\0' && strlen(name) <= INDEX_CLASS_NAME_MAX);
		assert(label_set_find(list, name, strlen(name)) == (int64_t)i);
	}
	return r;
}

static void check_manifest(int fd, const char *path, const struct label_set *list)
{
	struct dataset_request request = {.path = path, .class_list = list, .max_pixels = 1 << 20};
	struct index_builder builder = INDEX_BUILDER_NULL;
	struct error_text error = {""};
	int r;

	assert(lseek(fd, 0, SEEK_SET) == 0);
	r = dataset_manifest_build(&request, fd, &builder, &error);
	assert(r == DATASET_UNUSABLE);
	assert(error.text[0] != '\0' && !strchr(error.text, '\n'));
	/* Only when all could be read are there classes. */
	for (uint64_t i = 0; builder.header.classes > 0 && strstr(error.text, strerror(ENOENT)) &&
			     i < builder.header.samples;
		i++) {
		assert(builder.samples[i].label >= 0);
		assert((uint32_t)builder.samples[i].label < builder.header.classes);
		assert(builder.samples[i].length > 0 &&
			builder.samples[i].length <= INDEX_PATH_MAX);
	}
	index_builder_finish(&builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_fd_ int fd = memfd_new("fuzz");
	struct label_set list = LABEL_SET_NULL;

	assert(fd >= 0 && memfd_append(fd, data, size) == 0);
	check_records(fd, ',');
	check_manifest(fd, "/nonexistent/stoker/m.csv", NULL);
	check_manifest(fd, "/nonexistent/stoker/m.tsv", NULL);
	if (check_list(fd, &list) == 0)
		check_manifest(fd, "/nonexistent/stoker/m.csv", &list);
	label_set_finish(&list);
	return 0;
}
