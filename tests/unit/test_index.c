/* SPDX-License-Identifier: Apache-2.0 */
/* The sample table: what was built is what is mapped, and nothing that lies is mapped at all. */
#include "daemon/data/index.h"
#include "daemon/data/memfd.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* A table's bytes, to be bent before they are mapped. */
struct table {
	uint8_t bytes[4096];
	size_t length;
};

static struct index_header *header_of(struct table *table)
{
	return (struct index_header *)table->bytes;
}

static struct index_sample *samples_of(struct table *table)
{
	return (struct index_sample *)(table->bytes + sizeof(struct index_header));
}

static struct index_class *classes_of(struct table *table)
{
	return (struct index_class *)(samples_of(table) + header_of(table)->samples);
}

static void build_folder(struct index_builder *builder, const char *root)
{
	builder->header.kind = INDEX_FOLDER;
	builder->header.width = 28;
	builder->header.height = 20;
	builder->header.channels = 3;
	builder->header.hidden_skipped = 5;
	assert_int_equal(index_set_root(builder, root, strlen(root)), 0);
	assert_int_equal(index_add_class(builder, "cat", 3), 0);
	assert_int_equal(index_add_path(builder, "cat/1.png", 9, 0), 0);
	assert_int_equal(index_add_path(builder, "cat/deep/2.png", 14, 0), 0);
	assert_int_equal(index_add_class(builder, "d\xff", 2), 0);
	assert_int_equal(index_add_path(builder, "d\xff/\n.png", 8, 1), 0);
}

static void build_idx(struct index_builder *builder)
{
	builder->header.kind = INDEX_IDX;
	builder->header.width = 4;
	builder->header.height = 3;
	builder->header.channels = 1;
	builder->header.data_bytes = 16 + 2 * 12;
	assert_int_equal(index_set_root(builder, "/d/images", 9), 0);
	assert_int_equal(index_add_class(builder, "0", 1), 0);
	assert_int_equal(index_add_range(builder, 16, 12, 0), 0);
	assert_int_equal(index_add_range(builder, 28, 12, 0), 0);
}

static int seal(struct index_builder *builder)
{
	int fd = index_builder_seal(builder);

	assert_true(fd >= 0);
	index_builder_finish(builder);
	return fd;
}

static int folder_fd(const char *root)
{
	struct index_builder builder = INDEX_BUILDER_NULL;

	build_folder(&builder, root);
	return seal(&builder);
}

static int idx_fd(void)
{
	struct index_builder builder = INDEX_BUILDER_NULL;

	build_idx(&builder);
	return seal(&builder);
}

static void read_table(struct table *table, int fd)
{
	ssize_t n = pread(fd, table->bytes, sizeof(table->bytes), 0);

	assert_true(n > 0);
	table->length = (size_t)n;
	close_fd(fd);
}

static int map_table(struct index *index, const struct table *table, struct error_text *error)
{
	int fd = memfd_new("test"), r;

	assert_true(fd >= 0);
	assert_int_equal(memfd_append(fd, table->bytes, table->length), 0);
	assert_int_equal(memfd_seal(fd), 0);
	r = index_map(index, fd, true, error);
	close_fd(fd);
	return r;
}

/* It is refused for the reason that has this word in it. */
static void refused(const struct table *table, const char *word)
{
	struct error_text error = {""};
	struct index index;

	assert_int_equal(map_table(&index, table, &error), -EBADMSG);
	assert_null(index.header);
	if (!strstr(error.text, word))
		fail_msg("'%s' has no '%s'", error.text, word);
}

static void test_folder_round_trip(void **state)
{
	int fd = folder_fd("/data/train");
	struct error_text error;
	struct index index;
	uint32_t length;
	char text[400];

	(void)state;
	assert_int_equal(index_map(&index, fd, true, &error), 0);
	close(fd);
	assert_int_equal(index.header->samples, 3);
	assert_int_equal(index.header->classes, 2);
	assert_int_equal(index.header->width, 28);
	assert_int_equal(index.header->height, 20);
	assert_int_equal(index.header->hidden_skipped, 5);
	assert_int_equal(index.samples[1].label, 0);
	assert_int_equal(index.samples[2].label, 1);
	assert_memory_equal(index_path(&index, 1, &length), "cat/deep/2.png", 14);
	assert_int_equal(length, 14);
	assert_memory_equal(index.blob + index.classes[1].offset, "d\xff", 2);
	assert_memory_equal(index.blob + index.header->root_offset, "/data/train", 11);

	index_describe(&index, 0, text, sizeof(text));
	assert_string_equal(text, "/data/train/cat/1.png");
	index_describe(&index, 2, text, sizeof(text));
	assert_string_equal(text, "/data/train/d\\xff/\\x0a.png");
	index_describe(&index, 0, text, 8);
	assert_string_equal(text, "/data/t");
	index_unmap(&index);
	assert_null(index.header);
	index_unmap(&index);
}

static void test_idx_round_trip(void **state)
{
	int fd = idx_fd();
	struct error_text error;
	struct index index;
	char text[400];

	(void)state;
	assert_int_equal(index_map(&index, fd, false, &error), 0);
	close(fd);
	assert_int_equal(index.fingerprint, 0);
	assert_int_equal(index.header->data_bytes, 40);
	assert_int_equal(index.samples[1].offset, 28);
	index_describe(&index, 1, text, sizeof(text));
	assert_string_equal(text, "/d/images#1");
	index_unmap(&index);
}

static void test_describe_root_directory_and_long_names(void **state)
{
	struct index_builder builder = INDEX_BUILDER_NULL;
	char path[INDEX_PATH_MAX + 1], text[400];
	struct error_text error;
	struct index index;
	int fd;

	(void)state;
	build_folder(&builder, "/");
	memset(path, 'x', sizeof(path));
	memcpy(path + INDEX_PATH_MAX - 9, "/last.png", 9);
	assert_int_equal(index_add_path(&builder, path, INDEX_PATH_MAX, 0), 0);
	fd = seal(&builder);
	assert_int_equal(index_map(&index, fd, true, &error), 0);
	close(fd);
	index_describe(&index, 0, text, sizeof(text));
	assert_string_equal(text, "/cat/1.png");
	index_describe(&index, 3, text, sizeof(text));
	assert_non_null(strstr(text, "..."));
	assert_non_null(strstr(text, "/last.png"));
	index_unmap(&index);
}

static void test_fingerprint(void **state)
{
	struct table table, other;
	struct index a, b;
	struct error_text error;
	uint8_t *path;

	(void)state;
	read_table(&table, folder_fd("/data/train"));
	read_table(&other, folder_fd("/elsewhere"));
	assert_int_equal(map_table(&a, &table, &error), 0);
	assert_int_equal(map_table(&b, &other, &error), 0);
	assert_true(a.fingerprint == b.fingerprint); /* the same data set at another place */
	index_unmap(&b);

	samples_of(&table)[0].label = 1;
	assert_int_equal(map_table(&b, &table, &error), 0);
	assert_true(a.fingerprint != b.fingerprint);
	index_unmap(&b);
	samples_of(&table)[0].label = 0;
	path = memmem(table.bytes, table.length, "1.png", 5);
	path[0] = '7';
	assert_int_equal(map_table(&b, &table, &error), 0);
	assert_true(a.fingerprint != b.fingerprint);
	index_unmap(&b);
	index_unmap(&a);
}

static void test_every_seal_is_needed(void **state)
{
	static const int seals[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE};
	struct error_text error;
	struct index index;
	struct table table;

	(void)state;
	read_table(&table, folder_fd("/r"));
	for (size_t without = 0; without < 3; without++) {
		int fd = memfd_new("test");

		assert_int_equal(memfd_append(fd, table.bytes, table.length), 0);
		for (size_t i = 0; i < 3; i++) {
			if (i != without)
				assert_int_equal(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
		}
		assert_int_equal(index_map(&index, fd, true, &error), -EBADMSG);
		assert_non_null(strstr(error.text, "seal"));
		close(fd);
	}
}

static void test_not_a_memfd(void **state)
{
	struct error_text error;
	struct index index;
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(index_map(&index, fd, true, &error), -EBADMSG);
	close(fd);
	assert_int_equal(index_map(&index, -1, true, &error), -EBADMSG);
}

/* A table of holes would take its memory when the reader looks at it. */
static void test_holes(void **state)
{
	struct error_text error;
	struct index index;
	struct table table;
	int fd = memfd_new("test");

	(void)state;
	read_table(&table, folder_fd("/r"));
	header_of(&table)->blob_bytes += UINT64_C(1) << 40;
	assert_int_equal(memfd_append(fd, table.bytes, table.length), 0);
	assert_int_equal(ftruncate(fd, (off_t)(table.length + (UINT64_C(1) << 40))), 0);
	assert_int_equal(memfd_seal(fd), 0);
	assert_int_equal(index_map(&index, fd, true, &error), -EBADMSG);
	assert_non_null(strstr(error.text, "holes"));
	close(fd);
}

static void test_sizes(void **state)
{
	struct table table;
	size_t whole;

	(void)state;
	read_table(&table, folder_fd("/r"));
	whole = table.length;
	for (table.length = 0; table.length < whole; table.length++)
		refused(&table, "");
	table.length = whole + 1;
	refused(&table, "size");
	table.length = whole;

#define BENT(field, value, word)                                                                   \
	do {                                                                                       \
		struct table bent = table;                                                         \
		field = (value);                                                                   \
		refused(&bent, word);                                                              \
	} while (0)
	BENT(header_of(&bent)->magic, 0, "not an index");
	BENT(header_of(&bent)->samples, 4, "size");
	BENT(header_of(&bent)->samples, UINT64_MAX, "size");
	BENT(header_of(&bent)->samples, UINT64_C(1) << 60, "size");
	BENT(header_of(&bent)->classes, UINT32_MAX, "size");
	BENT(header_of(&bent)->blob_bytes, UINT64_MAX, "size");
	BENT(header_of(&bent)->blob_bytes, 0, "size");
}

static void test_header(void **state)
{
	struct table table;

	(void)state;
	read_table(&table, folder_fd("/r"));
	BENT(header_of(&bent)->kind, 0, "kind");
	BENT(header_of(&bent)->kind, 77, "kind");
	BENT(header_of(&bent)->width, 0, "size");
	BENT(header_of(&bent)->height, 0, "size");
	BENT(header_of(&bent)->channels, 0, "channels");
	BENT(header_of(&bent)->channels, 2, "channels");
	BENT(header_of(&bent)->pixels, INDEX_PIXELS_16BIT, "pixel format");
	BENT(header_of(&bent)->empty_classes, 2, "empty classes");
	BENT(header_of(&bent)->orientation, 9, "orientation");
	BENT(header_of(&bent)->data_in_memfd, 1, "data");
	BENT(header_of(&bent)->data_bytes, 1, "data");
	BENT(header_of(&bent)->root_length, 0, "root");
	BENT(header_of(&bent)->root_length, INDEX_PATH_MAX + 1, "root");
	BENT(header_of(&bent)->root_offset, UINT64_MAX, "root");
	BENT(header_of(&bent)->root_offset, header_of(&bent)->blob_bytes - 1, "root");
	BENT(header_of(&bent)->root_offset, 0, "root"); /* "ca" does not start with a slash */
	BENT(bent.bytes[bent.length - 1], 0, "NUL");
	BENT(classes_of(&bent)[1].length, 0, "class");
	BENT(classes_of(&bent)[1].length, INDEX_CLASS_NAME_MAX + 1, "class");
	BENT(classes_of(&bent)[1].length, UINT32_MAX, "class");
	BENT(classes_of(&bent)[0].offset, UINT64_MAX, "class");
	BENT(samples_of(&bent)[2].label, 2, "label");
	BENT(samples_of(&bent)[2].label, -1, "label");
	BENT(samples_of(&bent)[2].label, INT32_MIN, "label");
	BENT(samples_of(&bent)[0].length, UINT32_MAX, "range");
	BENT(samples_of(&bent)[0].offset, UINT64_MAX, "range");
	BENT(samples_of(&bent)[0].offset, header_of(&bent)->blob_bytes - 8, "range");
	BENT(samples_of(&bent)[0].length, 0, "path");
}

static void test_idx_fields(void **state)
{
	struct table table;

	(void)state;
	read_table(&table, idx_fd());
	BENT(header_of(&bent)->data_in_memfd, 2, "data");
	BENT(header_of(&bent)->data_bytes, 39, "range");
	BENT(header_of(&bent)->data_bytes, 0, "range");
	BENT(header_of(&bent)->channels, 3, "image");
	BENT(header_of(&bent)->pixels, INDEX_PIXELS_16BIT, "image");
	BENT(header_of(&bent)->pixels, INDEX_PIXELS_PLANAR, "pixel format");
	BENT(header_of(&bent)->pixels, 4, "pixel format");
	BENT(header_of(&bent)->pixels, UINT32_MAX, "pixel format");
	BENT(header_of(&bent)->width, 5, "image");
	BENT(header_of(&bent)->width, UINT32_MAX, "image");
	BENT(samples_of(&bent)[1].offset, 29, "range");
	BENT(samples_of(&bent)[1].offset, UINT64_MAX - 4, "range");
	BENT(samples_of(&bent)[1].length, 11, "image");
	BENT(samples_of(&bent)[1].length, 0, "image");
}

static int map_with_path(const char *path, size_t length)
{
	struct index_builder builder = INDEX_BUILDER_NULL;
	struct error_text error;
	struct index index;
	int fd, r;

	build_folder(&builder, "/r");
	assert_int_equal(index_add_path(&builder, path, length, 0), 0);
	fd = seal(&builder);
	r = index_map(&index, fd, true, &error);
	index_unmap(&index);
	close(fd);
	return r;
}

static void test_path_safety(void **state)
{
	static const char *const unsafe[] = {"/etc/passwd", "..", "../x", "a/..", "a/../b",
		"a/b/../../../x", "a//b", "a/", "/", ".", "./a", "a/./b", "a/.", "//", "../"};
	static const char *const safe[] = {
		"a", "...", "..a", "a..", ".a", "a/..b", "a/b../c", ".../x", "a/...", "-", " "};

	(void)state;
	for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
		assert_int_equal(map_with_path(unsafe[i], strlen(unsafe[i])), -EBADMSG);
	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
		assert_int_equal(map_with_path(safe[i], strlen(safe[i])), 0);
}

static void test_path_too_long(void **state)
{
	char path[INDEX_PATH_MAX + 1];

	(void)state;
	memset(path, 'x', sizeof(path));
	assert_int_equal(map_with_path(path, sizeof(path)), -EBADMSG);
	assert_int_equal(map_with_path(path, sizeof(path) - 1), 0);
}

static void test_empty(void **state)
{
	struct index_builder builder = INDEX_BUILDER_NULL;
	struct error_text error;
	struct index index;
	int fd = seal(&builder);

	(void)state;
	assert_int_equal(index_map(&index, fd, true, &error), -EBADMSG);
	close(fd);
}

/* Any byte may take any of some values: it is refused, or everything that it says can be used. */
static void test_bent_bytes(void **state)
{
	static const uint8_t values[] = {0x00, 0x01, 0x2e, 0x2f, 0x7f, 0x80, 0xff};
	struct error_text error;
	struct table table;
	int mapped = 0;

	(void)state;
	read_table(&table, folder_fd("/r"));
	for (size_t at = 0; at < table.length; at++) {
		for (size_t v = 0; v < sizeof(values); v++) {
			struct table bent = table;
			struct index index;
			char text[400];

			bent.bytes[at] = values[v];
			if (map_table(&index, &bent, &error) < 0)
				continue;
			for (uint64_t i = 0; i < index.header->samples; i++)
				index_describe(&index, i, text, sizeof(text));
			index_unmap(&index);
			mapped++;
		}
	}
	assert_true(mapped > 0);
}

static void test_a_million_samples(void **state)
{
	struct index_builder builder = INDEX_BUILDER_NULL;
	struct error_text error;
	struct index index;
	uint32_t length;
	char path[64];
	int fd;

	(void)state;
	build_folder(&builder, "/r");
	for (int i = 0; i < 1000000; i++) {
		int n = snprintf(path, sizeof(path), "cat/%07d.png", i);

		assert_int_equal(index_add_path(&builder, path, (size_t)n, i & 1), 0);
	}
	fd = seal(&builder);
	assert_int_equal(index_map(&index, fd, true, &error), 0);
	close(fd);
	assert_int_equal(index.header->samples, 1000003);
	assert_memory_equal(index_path(&index, 1000002, &length), "cat/0999999.png", 15);
	assert_true(index.bytes / 1000003 < 100);
	index_unmap(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folder_round_trip),
		cmocka_unit_test(test_idx_round_trip),
		cmocka_unit_test(test_describe_root_directory_and_long_names),
		cmocka_unit_test(test_fingerprint),
		cmocka_unit_test(test_every_seal_is_needed),
		cmocka_unit_test(test_not_a_memfd),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_idx_fields),
		cmocka_unit_test(test_path_safety),
		cmocka_unit_test(test_path_too_long),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_bent_bytes),
		cmocka_unit_test(test_a_million_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
