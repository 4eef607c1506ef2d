/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/dataset.h"
#include "daemon/data/idx_header.h"
#include "daemon/data/label_set.h"
#include "daemon/data/memfd.h"
#include "daemon/data/order.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	COPY_BYTES = 256 * 1024,
	PROGRESS_STEP = 1000,
};

/* The images file and the labels beside it. */
struct idx_pair {
	const struct dataset_request *request;
	struct unpack images;
	struct idx_header header; /* of the images */
	struct idx_shape shape;
	uint32_t image_bytes;
	int32_t *labels; /* of each image */
	int32_t highest;
};

static int check_images(struct idx_pair *pair, struct error_text *error)
{
	const struct dataset_request *request = pair->request;
	const struct idx_header *header = &pair->header;
	const char *path = pair->images.path;
	int r = idx_image_shape(&pair->images, header, &pair->shape, error);
	uint64_t pixels = (uint64_t)pair->shape.height * pair->shape.width;
	uint64_t bytes = header->payload / header->dims[0];

	if (r != 0)
		return r;
	if (header->dims[0] > ORDER_SAMPLES_MAX)
		return error_set(error, DATASET_UNUSABLE,
			"%s: declares %" PRIu32 " images: at most %" PRIu32 " are supported",
			escape(path).text, header->dims[0], (uint32_t)ORDER_SAMPLES_MAX);
	if (pixels > request->max_pixels || bytes > UINT32_MAX)
		return error_set(error, DATASET_UNUSABLE,
			"%s: declares images of %" PRIu32 "x%" PRIu32
			" pixels: over the limit of %" PRIu64 " pixels (max_pixels)",
			escape(path).text, pair->shape.width, pair->shape.height,
			request->max_pixels);
	pair->image_bytes = (uint32_t)bytes;
	return 0;
}

/* ---- pixels ---- */

static int copy_payload(const struct dataset_request *request, struct unpack *file,
	const struct idx_header *header, int fd, struct error_text *error)
{
	uint64_t image = header->payload / header->dims[0], done = 0, told = 0;
	_cleanup_free_ uint8_t *buffer = malloc(COPY_BYTES);
	int r;

	if (!buffer)
		return error_set(
			error, -ENOMEM, "%s: %s", escape(file->path).text, strerror(ENOMEM));
	r = memfd_append(fd, header->bytes, header->length);
	while (r == 0 && done < header->payload) {
		uint64_t left = header->payload - done;
		size_t got;

		r = unpack_read(file, buffer, left < COPY_BYTES ? left : COPY_BYTES, &got, error);
		if (r != 0)
			return r;
		if (got == 0)
			return idx_refuse_size(file, header, done, error);
		r = memfd_append(fd, buffer, got);
		done += got;
		if (request->progress && done / image >= told + PROGRESS_STEP) {
			told = done / image;
			request->progress(told, request->progress_data);
		}
	}
	if (r < 0)
		return error_set(error, r, "%s: no room to unpack it: %s", escape(file->path).text,
			strerror(-r));
	return idx_check_end(file, header, error);
}

/* Unpack a gzipped images file, its header included, into a sealed memfd. */
static int unpack_images(const struct dataset_request *request, struct unpack *file,
	const struct idx_header *header, int *data_fd, struct error_text *error)
{
	int r;

	if (header->payload + header->length > request->max_memory)
		return error_set(error, DATASET_UNUSABLE,
			"%s: takes %" PRIu64 " bytes of memory unpacked, and %" PRIu64
			" may be used: gunzip it, or raise `memory`",
			escape(file->path).text, header->payload + header->length,
			request->max_memory);
	r = memfd_new("stoker-idx");
	if (r < 0)
		return error_set(error, r, "%s: no room to unpack it: %s", escape(file->path).text,
			strerror(-r));
	*data_fd = r;
	r = copy_payload(request, file, header, *data_fd, error);
	if (r == 0) {
		r = memfd_seal(*data_fd);
		if (r < 0)
			error_set(
				error, r, "%s: sealing: %s", escape(file->path).text, strerror(-r));
	}
	return r;
}

/* ---- labels ---- */

/* Where "images-idx3" or "images.idx4" stands in a file name, or NULL. */
static const char *find_mark(const char *name)
{
	for (const char *at = name; (at = strstr(at, "images")); at++) {
		if ((at[6] == '-' || at[6] == '.') && strncmp(at + 7, "idx", 3) == 0 &&
			(at[10] == '3' || at[10] == '4'))
			return at;
	}
	return NULL;
}

bool dataset_idx_is_images(const char *name)
{
	return find_mark(name) != NULL;
}

/* Candidate number `i` for the labels of `images`: with the same and the other separator, without and
 * with .gz, and with each ending that tells an element type in place of another. False after the last. */
static bool labels_path(const char *images, const char *mark, unsigned i, char *path, size_t size)
{
	static const char *const types[] = {"-ubyte", "-short", "-int"};
	enum { TYPES = 3 };
	const char *rest = mark + strlen("images-idx3");
	int length = (int)strlen(rest);
	bool gzip = length >= 3 && strcmp(rest + length - 3, ".gz") == 0;
	char separator = mark[6], other = separator == '-' ? '.' : '-';
	unsigned type = i / 4;

	if (gzip)
		length -= 3;
	if (type > 0) {
		bool typed = false;

		for (unsigned k = 0; k < TYPES; k++)
			typed |= (size_t)length == strlen(types[k]) &&
				 memcmp(rest, types[k], (size_t)length) == 0;
		if (!typed || type > TYPES)
			return false;
		rest = types[type - 1];
		length = (int)strlen(rest);
	}
	snprintf(path, size, "%.*slabels%cidx1%.*s%s", (int)(mark - images), images,
		i % 4 < 2 ? separator : other, length, rest, (i % 2 == 1) != gzip ? ".gz" : "");
	return true;
}

/* Note an open file, or that there is none. */
static void note_file(
	const struct dataset_request *request, const struct unpack *file, const char *path)
{
	struct stat st;

	witness_add(request->witnesses, path, "",
		file->fd >= 0 && fstat(file->fd, &st) == 0 ? &st : NULL);
}

static int open_labels(const struct dataset_request *request, struct unpack *labels,
	const char *images, char *path, size_t size, struct error_text *error)
{
	const char *slash = strrchr(images, '/');
	const char *mark = find_mark(slash ? slash + 1 : images);
	int r = -ENOENT;

	if (!mark)
		return error_set(error, DATASET_UNUSABLE,
			"%s: its name does not tell where its labels are: rename the two files to "
			"NAME-images-idx3-ubyte and NAME-labels-idx1-ubyte",
			escape(images).text);
	for (unsigned i = 0; r == -ENOENT && labels_path(images, mark, i, path, size); i++) {
		unpack_close(labels);
		r = unpack_open(labels, path, error);
		note_file(request, labels, path);
	}
	if (r != -ENOENT)
		return r;
	labels_path(images, mark, 0, path, size);
	return error_set(error, DATASET_UNUSABLE,
		"%s: the labels are missing (.gz or not): put them there", escape(path).text);
}

static int take_label(struct idx_pair *pair, const struct unpack *file, uint32_t i, int32_t label,
	struct error_text *error)
{
	if (label < 0 || label > LABEL_NUMBER_MAX)
		return error_set(error, DATASET_UNUSABLE,
			"%s: label %" PRIu32 " is %" PRId32 ": classes are numbers from 0 to %d",
			escape(file->path).text, i, label, LABEL_NUMBER_MAX);
	pair->labels[i] = label;
	if (label > pair->highest)
		pair->highest = label;
	return 0;
}

static int32_t label_at(const uint8_t *bytes, uint32_t element)
{
	if (element == 1)
		return bytes[0];
	if (element == 2)
		return (int16_t)(bytes[0] << 8 | bytes[1]);
	return (int32_t)((uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
			 (uint32_t)bytes[2] << 8 | bytes[3]);
}

/* The numbers behind the header of a labels file. */
static int take_labels(struct idx_pair *pair, struct unpack *file, const struct idx_header *header,
	struct error_text *error)
{
	uint32_t element = idx_element_bytes(header), done = 0;
	uint8_t buffer[16 * 1024];

	while (done < header->dims[0]) {
		uint64_t left = (uint64_t)(header->dims[0] - done) * element;
		size_t got;
		int r = unpack_read(
			file, buffer, left < sizeof(buffer) ? left : sizeof(buffer), &got, error);

		for (size_t at = 0; r == 0 && at + element <= got; at += element)
			r = take_label(pair, file, done++, label_at(buffer + at, element), error);
		if (r != 0)
			return r;
		if (got < sizeof(buffer) && got < left)
			return idx_refuse_size(
				file, header, (uint64_t)done * element + got % element, error);
	}
	return idx_check_end(file, header, error);
}

/* The label of each image. */
static int read_labels(struct idx_pair *pair, struct error_text *error)
{
	char path[INDEX_PATH_MAX + 16];
	struct unpack labels = UNPACK_NULL;
	struct idx_header header;
	uint32_t count = pair->header.dims[0];
	int r = open_labels(pair->request, &labels, pair->images.path, path, sizeof(path), error);

	if (r == 0)
		r = idx_read_header(&labels, &header, IDX_LABELS, error);
	if (r == 0 && header.dims[0] != count)
		r = error_set(error, DATASET_UNUSABLE,
			"%s: has %" PRIu32 " labels for %" PRIu32
			" images: the files do not belong together",
			escape(path).text, header.dims[0], count);
	if (r == 0 && !labels.gzip)
		r = idx_check_plain_size(&labels, &header, error);
	if (r == 0) {
		pair->labels = calloc(count, sizeof(*pair->labels));
		if (!pair->labels)
			r = error_set(
				error, -ENOMEM, "%s: %s", escape(path).text, strerror(ENOMEM));
	}
	if (r == 0)
		r = take_labels(pair, &labels, &header, error);
	unpack_close(&labels);
	return r;
}

/* ---- the index ---- */

static int add_samples(
	const struct idx_pair *pair, struct index_builder *builder, struct error_text *reason)
{
	const struct dataset_request *request = pair->request;
	const struct idx_header *header = &pair->header;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < header->dims[0]; i++)
		r = index_add_range(builder, header->length + (uint64_t)i * pair->image_bytes,
			pair->image_bytes, pair->labels[i]);
	if (r == 0)
		r = label_add_classes(builder, request->class_list, pair->highest, reason);
	if (r == 0 && request->progress)
		request->progress(header->dims[0], request->progress_data);
	return r;
}

static int finish_index(
	const struct idx_pair *pair, struct index_builder *builder, struct error_text *error)
{
	const struct idx_header *header = &pair->header;
	const char *path = pair->images.path;
	struct error_text reason;
	int r;

	builder->header.kind = INDEX_IDX;
	builder->header.data_in_memfd = pair->images.gzip;
	builder->header.data_bytes = header->length + header->payload;
	builder->header.data_mtime_ns = pair->images.gzip ? 0 : pair->images.mtime_ns;
	builder->header.height = pair->shape.height;
	builder->header.width = pair->shape.width;
	builder->header.channels = pair->shape.channels;
	builder->header.pixels = (header->type == IDX_I16 ? INDEX_PIXELS_16BIT : 0) |
				 (pair->shape.planar ? INDEX_PIXELS_PLANAR : 0);
	r = add_samples(pair, builder, &reason);
	if (r == 0)
		r = index_set_root(builder, path, strlen(path));
	if (r == LABEL_SET_BAD)
		return error_set(error, DATASET_UNUSABLE, "%s: %s", escape(path).text, reason.text);
	return r < 0 ? error_set(error, r, "%s: %s", escape(path).text, strerror(-r)) : r;
}

int dataset_idx_build(const struct dataset_request *request, const char *images_path,
	struct index_builder *builder, int *data_fd, struct error_text *error)
{
	struct idx_pair pair = {.request = request, .images = UNPACK_NULL};
	int r = unpack_open(&pair.images, images_path, error);

	note_file(request, &pair.images, images_path);
	if (r == -ENOENT)
		r = error_set(
			error, DATASET_UNUSABLE, "%s: does not exist", escape(images_path).text);
	if (r == 0)
		r = idx_read_header(&pair.images, &pair.header, IDX_IMAGES, error);
	if (r == 0)
		r = check_images(&pair, error);
	if (r == 0 && !pair.images.gzip)
		r = idx_check_plain_size(&pair.images, &pair.header, error);
	if (r == 0)
		r = read_labels(&pair, error);
	if (r == 0 && pair.images.gzip)
		r = unpack_images(request, &pair.images, &pair.header, data_fd, error);
	if (r == 0)
		r = finish_index(&pair, builder, error);
	unpack_close(&pair.images);
	free(pair.labels);
	return r;
}
