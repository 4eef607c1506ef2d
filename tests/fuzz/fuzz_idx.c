/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a pair of IDX files: a data set whose samples lie in its pixels and whose labels are
 * classes, or one line that says why not. An input is a byte of flags, the length of the labels file in
 * two bytes (the most significant first), that file, and the images file.
 */
#include "daemon/data/dataset.h"
#include "daemon/data/idx_pixels.h"
#include "daemon/data/memfd.h"
#include "daemon/util/ownership.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#ifdef NDEBUG
#error "the target needs assert"
#endif

enum {
	GZIP_IMAGES = 1 << 0, /* mutations seldom get behind a checksum by themselves */
	GZIP_LABELS = 1 << 1,
	LISTED = 1 << 2, /* with a list of three classes */
	FRONT_BYTES = 3,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The files are memfds, found by links of the names that belong together. */
static struct fixture {
	char folder[32], images[64], labels[64];
	int images_fd, labels_fd;
	struct label_set list;
} fixture;

static void remove_fixture(void)
{
	unlink(fixture.images);
	unlink(fixture.labels);
	rmdir(fixture.folder);
	label_set_finish(&fixture.list);
}

static int make_file(char *path, size_t path_size, const char *name)
{
	char target[32];
	int fd = memfd_new(name);

	assert(fd >= 0);
	snprintf(path, path_size, "%s/%s", fixture.folder, name);
	snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
	assert(symlink(target, path) == 0);
	return fd;
}

static void make_fixture(void)
{
	if (fixture.folder[0])
		return;
	strcpy(fixture.folder, "/tmp/fuzz_idx.XXXXXX");
	assert(mkdtemp(fixture.folder));
	fixture.images_fd =
		make_file(fixture.images, sizeof(fixture.images), "f-images-idx3-ubyte");
	fixture.labels_fd =
		make_file(fixture.labels, sizeof(fixture.labels), "f-labels-idx1-ubyte");
	assert(label_set_add(&fixture.list, "a", 1, 1) == 0);
	assert(label_set_add(&fixture.list, "b", 1, 2) == 1);
	assert(label_set_add(&fixture.list, "c", 1, 3) == 2);
	atexit(remove_fixture);
}

static void fill_file(int fd, const uint8_t *bytes, size_t length, bool gzip)
{
	assert(ftruncate(fd, 0) == 0);
	assert(lseek(fd, 0, SEEK_SET) == 0);
	if (gzip) {
		gzFile file = gzdopen(dup(fd), "wb1");

		assert(file && gzwrite(file, bytes, (unsigned)length) == (int)length);
		assert(gzclose(file) == Z_OK);
	} else {
		assert(length == 0 || write(fd, bytes, length) == (ssize_t)length);
	}
}

/* The pixels of a sample, in buffers that end where they must. */
static void check_sample(const struct index *index, uint64_t i, int data_fd)
{
	const struct index_sample *sample = &index->samples[i];
	size_t pixels =
		(size_t)index->header->width * index->header->height * index->header->channels;
	_cleanup_free_ uint8_t *bytes = malloc(sample->length), *out = malloc(pixels);

	assert(bytes && out && sample->length == index_pixel_bytes(index->header));
	assert(pread(data_fd, bytes, sample->length, (off_t)sample->offset) == sample->length);
	idx_pixels(index->header, bytes, i % 2, out);
}

static void check_index(const struct index_builder *builder, int data_fd, bool listed)
{
	struct error_text error;
	struct index index;
	_cleanup_fd_ int fd = index_builder_seal(builder);
	int32_t highest = 0;

	assert(fd >= 0);
	if (index_map(&index, fd, true, &error) != 0) {
		fprintf(stderr, "%s\n", error.text);
		assert(0);
	}
	assert(index.header->kind == INDEX_IDX);
	assert((off_t)index.header->data_bytes == lseek(data_fd, 0, SEEK_END));
	for (uint64_t i = 0; i < index.header->samples; i++) {
		if (index.samples[i].label > highest)
			highest = index.samples[i].label;
	}
	assert(index.header->classes == (listed ? 3 : (uint32_t)highest + 1));
	check_sample(&index, 0, data_fd);
	check_sample(&index, index.header->samples - 1, data_fd);
	index_unmap(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dataset_request request = {.max_memory = 1 << 20, .max_pixels = 1 << 16};
	struct index_builder builder = INDEX_BUILDER_NULL;
	struct error_text error = {""};
	_cleanup_fd_ int data_fd = -1;
	size_t labels;
	int r;

	if (size < FRONT_BYTES)
		return -1;
	make_fixture();
	labels = (size_t)(data[1] << 8 | data[2]);
	if (labels > size - FRONT_BYTES)
		labels = size - FRONT_BYTES;
	fill_file(fixture.labels_fd, data + FRONT_BYTES, labels, data[0] & GZIP_LABELS);
	fill_file(fixture.images_fd, data + FRONT_BYTES + labels, size - FRONT_BYTES - labels,
		data[0] & GZIP_IMAGES);
	request.path = fixture.images;
	request.class_list = data[0] & LISTED ? &fixture.list : NULL;

	r = dataset_idx_build(&request, fixture.images, &builder, &data_fd, &error);
	assert(r == 0 || r == DATASET_UNUSABLE);
	if (r == 0)
		check_index(&builder, data_fd >= 0 ? data_fd : fixture.images_fd, data[0] & LISTED);
	else
		assert(error.text[0] != '\0' && !strchr(error.text, '\n'));
	index_builder_finish(&builder);
	return 0;
}
