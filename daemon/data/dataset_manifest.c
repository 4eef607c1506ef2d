/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest: a CSV or TSV file that names each sample's file and its label. */
#include "daemon/data/csv.h"
#include "daemon/data/dataset.h"
#include "daemon/data/entry.h"
#include "daemon/data/label_set.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PROGRESS_STEP = 1000 };

static const char *const path_names[] = {"path", "file", "filename", "image", "filepath",
	"file_name", "file_path", "image_path", NULL};
static const char *const label_names[] = {"label", "class", "target", "category", "labels",
	"class_name", "class_id", "label_id", NULL};

struct manifest {
	const struct dataset_request *request;
	struct index_builder *builder;
	struct error_text *error;
	struct csv_reader csv;
	struct label_set labels;
	uint32_t path_column, label_column;
	uint32_t fields;   /* that every record must have */
	uint64_t odd_line; /* of a first record that has no titles known here, nor an image; or 0 */
};

static bool has_ending(const char *name, const char *ending)
{
	size_t length = strlen(name), end = strlen(ending);

	return length > end && strcasecmp(name + length - end, ending) == 0;
}

bool dataset_is_manifest(const char *name)
{
	return has_ending(name, ".csv") || has_ending(name, ".tsv");
}

/* Refuse the manifest for what is wrong at the record at hand. */
static int bad_record(struct manifest *manifest, const char *what)
{
	return error_set(manifest->error, DATASET_UNUSABLE, "%s: line %" PRIu64 " %s",
		escape(manifest->request->path).text, manifest->csv.line, what);
}

static int failed(struct manifest *manifest, int code)
{
	bool fatal = code == -ENOMEM || code == -EMFILE || code == -ENFILE || code == -EOVERFLOW;

	return error_set(manifest->error, fatal ? code : DATASET_UNUSABLE, "%s: %s",
		escape(manifest->request->path).text, strerror(-code));
}

/* Read on; *end when there is no more. */
static int next_record(struct manifest *manifest, bool *end)
{
	struct error_text reason;
	int r = csv_next(&manifest->csv, &reason);

	*end = r == CSV_END;
	if (r == CSV_BAD)
		return bad_record(manifest, reason.text);
	return r < 0 ? failed(manifest, r) : 0;
}

/* The column whose title is one of `names`, or `none`. The first of the names that occurs wins. */
static uint32_t find_column(const struct csv_reader *csv, const char *const *names, uint32_t none)
{
	for (; *names; names++) {
		for (uint32_t i = 0; i < csv->count; i++) {
			if (strcasecmp(csv_field(csv, i).text, *names) == 0)
				return i;
		}
	}
	return none;
}

/* Find the columns by the first record: *is_header, or it is a sample itself. */
static int find_columns(struct manifest *manifest, bool *is_header)
{
	const struct csv_reader *csv = &manifest->csv;
	uint32_t none = csv->count, path = find_column(csv, path_names, none);
	uint32_t label = find_column(csv, label_names, none);
	bool image = entry_is_image(csv_field(csv, 0).text);

	manifest->fields = csv->count;
	*is_header = path < none && label < none;
	manifest->path_column = *is_header ? path : 0;
	manifest->label_column = *is_header ? label : 1;
	if (csv->count < 2)
		return bad_record(manifest,
			csv->separator == ','
				? "has one field: a path and a label, separated by a comma, are needed"
				: "has one field: a path and a label, separated by a tab, are needed");
	if (!*is_header && !image && path < none)
		return bad_record(manifest,
			"names a column of paths but none of labels: call that one 'label'");
	if (!*is_header && !image && label < none)
		return bad_record(manifest,
			"names a column of labels but none of paths: call that one 'path'");
	if (!*is_header && !image)
		manifest->odd_line = csv->line;
	return 0;
}

/* Labels are typed by people: blanks around them do not count. */
static struct csv_field trimmed(struct csv_field field)
{
	while (field.length > 0 && (field.text[0] == ' ' || field.text[0] == '\t')) {
		field.text++;
		field.length--;
	}
	while (field.length > 0 &&
		(field.text[field.length - 1] == ' ' || field.text[field.length - 1] == '\t'))
		field.length--;
	return field;
}

static int add_sample(struct manifest *manifest)
{
	struct index_builder *builder = manifest->builder;
	const struct csv_reader *csv = &manifest->csv;
	struct csv_field path, label;
	char name[INDEX_CLASS_NAME_MAX + 1];
	int64_t number;
	int r;

	if (csv->count != manifest->fields)
		return bad_record(manifest,
			"has another number of fields than the first: a name with a separator in it "
			"needs quotes");
	path = csv_field(csv, manifest->path_column);
	label = trimmed(csv_field(csv, manifest->label_column));
	if (path.length == 0 || path.length > INDEX_PATH_MAX)
		return bad_record(manifest,
			path.length ? "has a path of more than 4095 bytes" : "has an empty path");
	if (label.length == 0 || label.length > INDEX_CLASS_NAME_MAX)
		return bad_record(manifest,
			label.length ? "has a label of more than 1024 bytes" : "has no label");
	if (manifest->odd_line && builder->header.samples == 1 && entry_is_image(path.text)) {
		manifest->csv.line = manifest->odd_line;
		return bad_record(manifest,
			"names no image, nor columns by names known here: call them 'path' and 'label'");
	}
	memcpy(name, label.text, label.length);
	name[label.length] = '\0';
	number = label_set_add(&manifest->labels, name, label.length, csv->line);
	r = number < 0 ? (int)number
		       : index_add_path(builder, path.text, path.length, (int32_t)number);
	if (r < 0)
		return failed(manifest, r);
	if (builder->header.samples % PROGRESS_STEP == 0 && manifest->request->progress)
		manifest->request->progress(
			builder->header.samples, manifest->request->progress_data);
	return 0;
}

static int read_records(struct manifest *manifest)
{
	bool end, is_header = false;
	int r = next_record(manifest, &end);

	if (r == 0 && !end)
		r = find_columns(manifest, &is_header);
	if (r == 0 && is_header)
		r = next_record(manifest, &end);
	while (r == 0 && !end) {
		r = add_sample(manifest);
		if (r == 0)
			r = next_record(manifest, &end);
	}
	if (r == 0 && manifest->builder->header.samples == 0)
		r = error_set(manifest->error, DATASET_UNUSABLE,
			"%s: names no samples: one line for each, its path and its label",
			escape(manifest->request->path).text);
	return r;
}

/* Turn the labels' numbers of appearance into classes. */
static int settle_labels(struct manifest *manifest)
{
	struct error_text reason;
	uint64_t line;
	int r = label_set_settle(&manifest->labels, manifest->request->class_list,
		manifest->builder, &line, &reason);

	if (r == LABEL_SET_BAD)
		return error_set(manifest->error, DATASET_UNUSABLE, "%s: line %" PRIu64 " %s",
			escape(manifest->request->path).text, line, reason.text);
	return r < 0 ? failed(manifest, r) : 0;
}

/* The manifest's folder becomes the root. */
static int finish_index(struct manifest *manifest)
{
	const char *path = manifest->request->path, *slash = strrchr(path, '/');
	char folder[INDEX_PATH_MAX + 1];
	size_t length = slash == path ? 1 : (size_t)(slash - path);
	struct dataset_request request = *manifest->request;
	int r = index_set_root(manifest->builder, path, length);

	if (r < 0)
		return failed(manifest, r);
	memcpy(folder, path, length);
	folder[length] = '\0';
	request.path = folder;

	_cleanup_fd_ int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return failed(manifest, -errno);
	return dataset_probe_size(&request, fd, manifest->builder, manifest->error);
}

int dataset_manifest_build(const struct dataset_request *request, int fd,
	struct index_builder *builder, struct error_text *error)
{
	struct manifest manifest = {
		.request = request,
		.builder = builder,
		.error = error,
		.labels = LABEL_SET_NULL,
	};
	struct stat st;
	int r;

	if (fstat(fd, &st) == 0)
		witness_add(request->witnesses, request->path, "", &st);
	r = csv_init(&manifest.csv, fd, has_ending(request->path, ".tsv") ? '\t' : ',');

	builder->header.kind = INDEX_MANIFEST;
	builder->header.channels = 3; /* as ImageFolder's loader, which converts to RGB */
	r = r < 0 ? failed(&manifest, r) : read_records(&manifest);
	if (r == 0)
		r = settle_labels(&manifest);
	label_set_finish(&manifest.labels);
	if (r == 0)
		r = finish_index(&manifest);
	csv_finish(&manifest.csv);
	return r;
}
