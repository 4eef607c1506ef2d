/* SPDX-License-Identifier: Apache-2.0 */
/* Tar shards: hand-made archives of every dialect, and each way of being broken with its line. What
 * Python's tarfile writes and reads is compared in the integration tests. */
#include "daemon/data/shards.h"
#include "daemon/data/tar_header.h"
#include "daemon/data/tar_key.h"
#include "tree.h"

#include <stdlib.h>

enum { PICTURE_BYTES = 41 };

/* An archive under construction. */
struct archive {
	uint8_t bytes[64 * 1024];
	size_t length;
};

static void checksum(struct tar_header *header)
{
	const uint8_t *bytes = (const uint8_t *)header;
	unsigned sum = 0;

	memset(header->checksum, ' ', sizeof(header->checksum));
	for (size_t i = 0; i < sizeof(*header); i++)
		sum += bytes[i];
	snprintf(header->checksum, sizeof(header->checksum), "%06o", sum);
}

/* The header for what is appended next; the caller may bend it, and then calls checksum. */
static struct tar_header *add_header(
	struct archive *archive, char type, const char *name, size_t size)
{
	struct tar_header *header = (struct tar_header *)(archive->bytes + archive->length);

	memset(header, 0, sizeof(*header));
	memcpy(header->name, name, strlen(name));
	snprintf(header->mode, sizeof(header->mode), "%07o", 0644);
	snprintf(header->size, sizeof(header->size), "%011o", (unsigned)size);
	memcpy(header->magic, "ustar", 6);
	memcpy(header->version, "00", 2);
	header->type = type;
	checksum(header);
	archive->length += sizeof(*header);
	return header;
}

static void add_data(struct archive *archive, const void *bytes, size_t length)
{
	memcpy(archive->bytes + archive->length, bytes, length);
	archive->length += (length + 511) / 512 * 512;
}

static void add(struct archive *archive, const char *name, const void *bytes, size_t length)
{
	add_header(archive, '0', name, length);
	add_data(archive, bytes, length);
}

static void add_picture(struct archive *archive, const char *name)
{
	uint8_t png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR........\x08\0\0\0\0....\0\0\0\0IDAT";

	tree_put_be32(png + 16, 5);
	tree_put_be32(png + 20, 4);
	tree_put_be32(png + 29, (uint32_t)crc32(0, png + 12, 17));
	add(archive, name, png, sizeof(png) - 1);
}

static void add_class(struct archive *archive, const char *name, const char *text)
{
	add(archive, name, text, strlen(text));
}

static void add_sample(struct archive *archive, const char *key, const char *label)
{
	char name[100];

	snprintf(name, sizeof(name), "%s.png", key);
	add_picture(archive, name);
	snprintf(name, sizeof(name), "%s.cls", key);
	add_class(archive, name, label);
}

static void save(const struct tree *tree, const char *name, struct archive *archive)
{
	memset(archive->bytes + archive->length, 0, 1024);
	tree_write(tree, name, archive->bytes, archive->length + 1024);
}

static const struct tree *tree_of(void **state)
{
	return &((struct tree_fixture *)*state)->tree;
}

static struct archive *new_archive(void)
{
	static struct archive archive;

	memset(&archive, 0, sizeof(archive));
	return &archive;
}

/* "LABEL:SHARD:NAME@OFFSET " for each sample. */
static void assert_samples(const struct tree *tree, const char *name, const char *expected)
{
	struct error_text error;
	struct index index;
	char text[2048];
	size_t used = 0;

	text[0] = '\0';
	if (tree_open(tree, name, &index, NULL, &error) != 0)
		fail_msg("%s", error.text);
	assert_int_equal(index.header->kind, INDEX_TAR);
	assert_int_equal(index.header->width, 5);
	assert_int_equal(index.header->height, 4);
	for (uint64_t i = 0; i < index.header->samples; i++) {
		const struct index_source *source = &index.sources[index.extents[i].source];
		uint32_t length;
		const uint8_t *path = index_path(&index, i, &length);

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%d:%.*s:%.*s@%d ",
			index.samples[i].label, (int)source->length,
			(const char *)index.blob + source->offset, (int)length, (const char *)path,
			(int)index.extents[i].offset);
		assert_true(used < sizeof(text));
	}
	assert_string_equal(text, expected);
	index_unmap(&index);
}

static void test_samples(void **state)
{
	const struct tree *tree = tree_of(state);
	struct archive *archive = new_archive();
	struct error_text error;
	struct index index;
	char name[200], expected[200];

	add_header(archive, '5', "a/", 0);
	add_sample(archive, "a/0", "2");
	add_class(archive, "a/1.CLS", " 0\n");
	add_class(archive, "a/1.json", "{}");
	add_picture(archive, "a/1.PNG");
	add_class(archive, "notes.txt", "no sample");
	save(tree, "x.tar", archive);
	assert_samples(tree, "x.tar", "2:x.tar:a/0.png@1024 0:x.tar:a/1.PNG@5120 ");
	assert_int_equal(tree_open(tree, "x.tar", &index, NULL, &error), 0);
	assert_int_equal(index.header->classes, 3);
	assert_int_equal(index.extents[1].length, PICTURE_BYTES);
	index_describe(&index, 1, name, sizeof(name));
	snprintf(expected, sizeof(expected), "%s/x.tar:a/1.PNG", tree->root);
	assert_string_equal(name, expected);
	index_unmap(&index);

	/* Found by its content under another name. */
	tree_write(tree, "odd.name", archive->bytes, archive->length + 1024);
	assert_samples(tree, "odd.name", "2:odd.name:a/0.png@1024 0:odd.name:a/1.PNG@5120 ");
}

static void test_first_image_counts(void **state)
{
	const struct tree *tree = tree_of(state);
	struct archive *archive = new_archive();

	add_class(archive, "0.webp", "RIFF");
	add_picture(archive, "0.jpeg");
	add_class(archive, "0.png", "no picture");
	add_class(archive, "0.cls", "0");
	add_class(archive, "0.left.png", "of another extension");
	save(tree, "x.tar", archive);
	assert_samples(tree, "x.tar", "0:x.tar:0.jpeg@1536 ");
}

static void test_dialects(void **state)
{
	const struct tree *tree = tree_of(state);
	struct archive *archive = new_archive();
	struct tar_header *header;

	/* ustar's prefix */
	header = add_header(archive, '0', "0.cls", 1);
	memcpy(header->prefix, "long/way", 8);
	checksum(header);
	add_data(archive, "0", 1);
	add_picture(archive, "long/way/0.png");
	/* GNU: a long name, and base-256 */
	add_header(archive, 'L', "././@LongLink", 8);
	add_data(archive, "gnu/1.c", 8);
	header = add_header(archive, '0', "cut", 0);
	memset(header->size, 0, sizeof(header->size));
	header->size[0] = (char)0x80;
	header->size[11] = 1;
	checksum(header);
	add_data(archive, "0", 1);
	/* pax: path and size, which stand before the header's own */
	static const char pax[] = "18 path=pax/2.cls\n9 size=1\n";

	add_header(archive, 'g', "global", 0);
	add_header(archive, 'x', "pax", strlen(pax));
	add_data(archive, pax, strlen(pax));
	add_header(archive, '0', "ignored", 77);
	add_data(archive, "1", 1);
	add_picture(archive, "pax/2.png");
	save(tree, "x.tar", archive);
	assert_samples(tree, "x.tar", "0:x.tar:long/way/0.png@1536 1:x.tar:pax/2.png@7168 ");
}

/* It is refused with these words, under its name. */
static void assert_broken(
	const struct tree *tree, struct archive *archive, const char *word, const char *other)
{
	save(tree, "x.tar", archive);
	tree_refused(tree, "x.tar", "x.tar", word, other, NULL);
}

static void test_broken_keys(void **state)
{
	const struct tree *tree = tree_of(state);
	struct archive *archive = new_archive();

	save(tree, "x.tar", archive);
	tree_refused(tree, "x.tar", "no samples", NULL);
	add_sample(archive, "0", "0");
	add_sample(archive, "1", "0");
	add_class(archive, "0.txt", "late");
	assert_broken(tree, archive, "x.tar:0.txt", "apart from the other members");
	archive = new_archive();
	add_sample(archive, "0", "0");
	add_class(archive, "0.PNG", "again");
	assert_broken(tree, archive, "x.tar:0.PNG", "two members with this extension");
	archive = new_archive();
	add_picture(archive, "0.png");
	assert_broken(tree, archive, "x.tar:0.png", "no .cls");
	archive = new_archive();
	add_class(archive, "0.cls", "0");
	assert_broken(tree, archive, "x.tar:0", "no image");

	static const char *const classes[] = {"", " \n", "cat\ndog", "\x80\x04K\x03."};
	char long_name[1025 + 1] = {0};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		archive = new_archive();
		add_sample(archive, "0", classes[i]);
		assert_broken(tree, archive, "x.tar:0.cls", "is no class");
	}
	archive = new_archive();
	add_sample(archive, "0", memset(long_name, 'x', sizeof(long_name) - 1));
	assert_broken(tree, archive, "x.tar:0.cls", "is no class");

	static const char *const numbers[] = {"-1", "1.0", "1000000"};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		archive = new_archive();
		add_sample(archive, "0", "0");
		add_sample(archive, "1", numbers[i]);
		assert_broken(tree, archive, "x.tar:1.png: has the label", "which is no class");
	}
}

/* A .cls is text: a number, or a name. */
static void test_labels(void **state)
{
	const struct tree *tree = tree_of(state);
	struct archive *archive = new_archive();
	struct error_text error;
	struct index index;

	add_sample(archive, "0", "00000000000000000000000000000000000000000");
	add_sample(archive, "1", "999999\r\n");
	save(tree, "x.tar", archive);
	assert_samples(tree, "x.tar", "0:x.tar:0.png@512 999999:x.tar:1.png@2560 ");
	archive = new_archive();
	add_sample(archive, "0", "great white shark\n");
	add_sample(archive, "1", " 7");
	add_sample(archive, "2", "\xc3\xa4");
	add_sample(archive, "3", "Zebra");
	save(tree, "x-0.tar", archive);
	archive = new_archive();
	add_sample(archive, "4", "7");
	save(tree, "x-1.tar", archive);
	assert_samples(tree, "x-{0..1}.tar",
		"2:x-0.tar:0.png@512 0:x-0.tar:1.png@2560 3:x-0.tar:2.png@4608 "
		"1:x-0.tar:3.png@6656 0:x-1.tar:4.png@512 ");
	assert_int_equal(tree_open(tree, "x-{0..1}.tar", &index, NULL, &error), 0);
	assert_int_equal(index.header->classes, 4);
	assert_memory_equal(index.blob + index.classes[2].offset, "great white shark", 17);
	index_unmap(&index);
}

static void test_broken_archives(void **state)
{
	const struct tree *tree = tree_of(state);
	struct archive *archive = new_archive();
	struct tar_header *header;

	add_sample(archive, "0", "0");
	save(tree, "x.tar", archive);
	for (size_t length = 1; length < archive->length; length++) {
		tree_write(tree, "x.tar", archive->bytes, length);
		if (length == 1024)
			tree_refused(tree, "x.tar", "x.tar", "no .cls", NULL);
		else
			tree_refused(tree, "x.tar", "x.tar", "is cut", NULL);
	}
	/* Without its end, but whole. */
	tree_write(tree, "x.tar", archive->bytes, archive->length);
	assert_samples(tree, "x.tar", "0:x.tar:0.png@512 ");
	tree_write(tree, "x.tar", "", 0);
	tree_refused(tree, "x.tar", "is empty", NULL);

	archive->bytes[1024 + 20] ^= 1;
	assert_broken(tree, archive, "at byte 1024", "no header");
	archive = new_archive();
	header = add_header(archive, '0', "0.png", 1);
	memset(header->size, 0xff, sizeof(header->size));
	checksum(header);
	assert_broken(tree, archive, "a negative size", NULL);
	header->size[0] = (char)0x80;
	memset(header->size + 1, 0, 3);
	header->size[4] = 0x7f;
	checksum(header);
	assert_broken(tree, archive, "is cut", "0.png");
	archive = new_archive();
	add_header(archive, 'x', "pax", 3);
	add_data(archive, "9 x", 3);
	assert_broken(tree, archive, "malformed pax", NULL);
	archive = new_archive();
	add_header(archive, 'L', "long", 2 << 20);
	assert_broken(tree, archive, "more than 1 MiB", NULL);
	archive = new_archive();
	add_header(archive, 'L', "long", 4);
	add_data(archive, "name", 4);
	assert_broken(tree, archive, "without a member", NULL);
	archive = new_archive();
	add_header(archive, 'S', "0.png", 512);
	archive->length += 512;
	assert_broken(tree, archive, "x.tar:0.png", "sparse");
}

static void test_compressed(void **state)
{
	const struct tree *tree = tree_of(state);

	tree_write(tree, "x.tar", "\x1f\x8b\x08", 3);
	tree_refused(tree, "x.tar", "x.tar", "compressed (gzip)", "unpack", NULL);
	tree_write(tree, "x.tar.zst", "\x28\xb5\x2f\xfd", 4);
	tree_refused(tree, "x.tar.zst", "compressed (zstd)", NULL);
	tree_refused(tree, "", "compressed (gzip)", NULL);
}

static void test_shards(void **state)
{
	const struct tree *tree = tree_of(state);
	struct archive *archive = new_archive();

	add_sample(archive, "0", "1");
	save(tree, "t-008.tar", archive);
	save(tree, "t-009.tar", archive);
	save(tree, "t-010.tar", archive);
	save(tree, "v-1.tar", archive);
	tree_write(tree, "sub/x", "", 0);
	tree_refused(tree, "", "archives", "sub", NULL);
	assert_int_equal(unlink(tree_path(tree, "sub/x")), 0);
	assert_int_equal(rmdir(tree_path(tree, "sub")), 0);

	assert_samples(tree, "t-{008..010}.tar",
		"1:t-008.tar:0.png@512 1:t-009.tar:0.png@512 1:t-010.tar:0.png@512 ");
	assert_samples(tree, "t-00*.tar", "1:t-008.tar:0.png@512 1:t-009.tar:0.png@512 ");
	assert_samples(tree, "*-{1..1}.t*r", "1:v-1.tar:0.png@512 ");
	assert_samples(tree, "",
		"1:t-008.tar:0.png@512 1:t-009.tar:0.png@512 1:t-010.tar:0.png@512 "
		"1:v-1.tar:0.png@512 ");
	tree_refused(tree, "t-{008..011}.tar", "t-011.tar", "does not exist", NULL);
	tree_refused(tree, "t-{010..008}.tar", "backwards", NULL);
	tree_refused(tree, "w-*.tar", "w-*.tar", "matches no file", NULL);
	tree_refused(tree, "t-{0..999999999}.tar", "more than a million", NULL);
	tree_refused(tree, "nothing.tar", "does not exist", NULL);
	/* A name that looks like a pattern and is there is a name. */
	save(tree, "{1..2}.tar", archive);
	assert_samples(tree, "{1..2}.tar", "1:{1..2}.tar:0.png@512 ");
}

static void test_keys(void **state)
{
	static const struct {
		const char *name, *key, *extension;
	} cases[] = {
		{"a.png", "a", "png"},
		{"a/b.c/d.seg.png", "a/b.c/d", "seg.png"},
		{"a.", "a", ""},
		{"a/__b__.x", "a/__b__", "x"},
		{"__a__b/c.x", "__a__b/c", "x"},
		{"a", NULL, NULL},
		{"a.b/c", NULL, NULL},
		{".a.png", NULL, NULL},
		{"a/.b.png", NULL, NULL},
		{"__meta__/a.png", NULL, NULL},
		{"__meta.x__", NULL, NULL},
		{"", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tar_key key;

		assert_int_equal(tar_key_split(cases[i].name, &key), cases[i].key != NULL);
		if (!cases[i].key)
			continue;
		assert_int_equal(key.length, strlen(cases[i].key));
		assert_string_equal(key.extension, cases[i].extension);
	}
}

static void test_numbers(void **state)
{
	static const struct {
		const char field[13];
		bool good;
		int64_t value;
	} cases[] = {
		{"00000000017", true, 15},
		{"   17 \0  99", true, 15},
		{"\0", true, 0},
		{"777777777777", true, INT64_C(68719476735)},
		{"18", false, 0},
		{"1 7", false, 0},
		{"\x80\0\0\0\0\0\0\0\0\0\1\2", true, 258},
		{"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", true, INT64_MAX},
		{"\x80\0\0\0\x80\0\0\0\0\0\0\0", false, 0},
		{"\x80\1\0\0\0\0\0\0\0\0\0\0", false, 0},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", true, -1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t value;

		assert_int_equal(tar_number(cases[i].field, 12, &value), cases[i].good);
		if (cases[i].good)
			assert_int_equal(value, cases[i].value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		tree_test(test_samples),
		tree_test(test_first_image_counts),
		tree_test(test_dialects),
		tree_test(test_broken_keys),
		tree_test(test_labels),
		tree_test(test_broken_archives),
		tree_test(test_compressed),
		tree_test(test_shards),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
