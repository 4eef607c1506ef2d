/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/dataset.h"
#include "daemon/data/idx_header.h"
#include "daemon/data/memfd.h"
#include "daemon/data/order.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	COPY_BYTES = 256 * 1024,
	PROGRESS_STEP = 1000,
};

static int check_images(const struct dataset_request *request, const struct unpack *file,
	const struct idx_header *header, struct error_text *error)
{
	uint64_t pixels = (uint64_t)header->dims[1] * header->dims[2];

	if (header->dims[0] > ORDER_SAMPLES_MAX)
		return error_set(error, DATASET_UNUSABLE,
			"%s: declares %" PRIu32 " images: at most %" PRIu32 " are supported",
			escape(file->path).text, header->dims[0], (uint32_t)ORDER_SAMPLES_MAX);
	if (pixels > request->max_pixels || pixels > UINT32_MAX)
		return error_set(error, DATASET_UNUSABLE,
			"%s: declares images of %" PRIu32 "x%" PRIu32
			" pixels: over the limit of %" PRIu64 " pixels",
			escape(file->path).text, header->dims[2], header->dims[1],
			request->max_pixels);
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

/* Where "images-idx3" or "images.idx3" stands in a file name, or NULL. */
static const char *find_mark(const char *name)
{
	for (const char *at = name; (at = strstr(at, "images")); at++) {
		if ((at[6] == '-' || at[6] == '.') && strncmp(at + 7, "idx3", 4) == 0)
			return at;
	}
	return NULL;
}

bool dataset_idx_is_images(const char *name)
{
	return find_mark(name) != NULL;
}

/* Candidate number `i` for the labels of `images`: with the same and the other separator, without and
 * with .gz. False after the last. */
static bool labels_path(const char *images, const char *mark, unsigned i, char *path, size_t size)
{
	const char *rest = mark + strlen("images-idx3");
	int length = (int)strlen(rest);
	bool gzip = length >= 3 && strcmp(rest + length - 3, ".gz") == 0;
	char separator = mark[6], other = separator == '-' ? '.' : '-';

	if (i >= 4)
		return false;
	snprintf(path, size, "%.*slabels%cidx1%.*s%s", (int)(mark - images), images,
		i < 2 ? separator : other, gzip ? length - 3 : length, rest,
		(i % 2 == 1) != gzip ? ".gz" : "");
	return true;
}

static int open_labels(struct unpack *labels, const char *images, char *path, size_t size,
	struct error_text *error)
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
	}
	if (r != -ENOENT)
		return r;
	labels_path(images, mark, 0, path, size);
	return error_set(error, DATASET_UNUSABLE,
		"%s: the labels are missing (.gz or not): put them there", escape(path).text);
}

/* The labels of `count` images, as many bytes; the caller frees. */
static int read_labels(
	const char *images, uint32_t count, uint8_t **values, struct error_text *error)
{
	char path[INDEX_PATH_MAX + 8];
	struct unpack labels = UNPACK_NULL;
	struct idx_header header;
	size_t got;
	int r = open_labels(&labels, images, path, sizeof(path), error);

	if (r == 0)
		r = idx_read_header(&labels, &header, IDX_LABEL_DIMS, error);
	if (r == 0 && header.dims[0] != count)
		r = error_set(error, DATASET_UNUSABLE,
			"%s: has %" PRIu32 " labels for %" PRIu32
			" images: the files do not belong together",
			escape(path).text, header.dims[0], count);
	if (r == 0 && !labels.gzip)
		r = idx_check_plain_size(&labels, &header, error);
	if (r == 0) {
		*values = malloc(count);
		r = *values ? unpack_read(&labels, *values, count, &got, error)
			    : error_set(error, -ENOMEM, "%s: %s", escape(path).text,
				      strerror(ENOMEM));
	}
	if (r == 0 && got < count)
		r = idx_refuse_size(&labels, &header, got, error);
	if (r == 0)
		r = idx_check_end(&labels, &header, error);
	unpack_close(&labels);
	return r;
}

/* ---- the index ---- */

static int add_samples(const struct dataset_request *request, struct index_builder *builder,
	const struct idx_header *header, const uint8_t *labels)
{
	uint32_t image = (uint32_t)(header->payload / header->dims[0]);
	unsigned classes = 0;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < header->dims[0]; i++) {
		r = index_add_range(
			builder, header->length + (uint64_t)i * image, image, labels[i]);
		if (labels[i] >= classes)
			classes = labels[i] + 1u;
	}
	for (unsigned i = 0; r == 0 && i < classes; i++) {
		char name[16];

		r = index_add_class(builder, name, (size_t)snprintf(name, sizeof(name), "%u", i));
	}
	if (r == 0 && request->progress)
		request->progress(header->dims[0], request->progress_data);
	return r;
}

int dataset_idx_build(const struct dataset_request *request, const char *images_path,
	struct index_builder *builder, int *data_fd, struct error_text *error)
{
	_cleanup_free_ uint8_t *labels = NULL;
	struct unpack file = UNPACK_NULL;
	struct idx_header header;
	int r = unpack_open(&file, images_path, error);

	if (r == -ENOENT)
		r = error_set(
			error, DATASET_UNUSABLE, "%s: does not exist", escape(images_path).text);
	if (r == 0)
		r = idx_read_header(&file, &header, IDX_IMAGE_DIMS, error);
	if (r == 0)
		r = check_images(request, &file, &header, error);
	if (r == 0 && !file.gzip)
		r = idx_check_plain_size(&file, &header, error);
	if (r == 0)
		r = read_labels(images_path, header.dims[0], &labels, error);
	if (r == 0 && file.gzip)
		r = unpack_images(request, &file, &header, data_fd, error);
	if (r == 0) {
		builder->header.kind = INDEX_IDX;
		builder->header.data_in_memfd = file.gzip;
		builder->header.data_bytes = header.length + header.payload;
		builder->header.height = header.dims[1];
		builder->header.width = header.dims[2];
		builder->header.channels = 1;
		r = add_samples(request, builder, &header, labels);
		if (r == 0)
			r = index_set_root(builder, images_path, strlen(images_path));
		if (r < 0)
			error_set(error, r, "%s: %s", escape(images_path).text, strerror(-r));
	}
	unpack_close(&file);
	return r;
}
