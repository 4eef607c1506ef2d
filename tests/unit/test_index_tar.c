/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of archives in an index, and of manifests: nothing that lies is mapped. */
#include "daemon/data/index.h"
#include "daemon/data/memfd.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A table's bytes, to be bent before they are mapped, and its parts. */
struct table {
	uint64_t bytes[512];
	size_t length;
	struct index_header *header;
	struct index_sample *samples;
	struct index_extent *extents;
	struct index_source *sources;
	char *blob;
};

static void read_table(struct table *table, struct index_builder *builder)
{
	_cleanup_fd_ int fd = index_builder_seal(builder);
	ssize_t n;

	assert_true(fd >= 0);
	index_builder_finish(builder);
	n = pread(fd, table->bytes, sizeof(table->bytes), 0);
	assert_true(n > 0);
	table->length = (size_t)n;
	table->header = (struct index_header *)table->bytes;
	table->samples = (struct index_sample *)(table->header + 1);
	table->extents = (struct index_extent *)((struct index_class *)(table->samples +
									table->header->samples) +
						 table->header->classes);
	table->sources = (struct index_source *)table->extents;
	if (table->header->kind == INDEX_TAR)
		table->sources = (struct index_source *)(table->extents + table->header->samples);
	table->blob = (char *)(table->sources + table->header->sources);
}

static void build(struct index_builder *builder, uint32_t kind)
{
	builder->header.kind = kind;
	builder->header.width = builder->header.height = 8;
	builder->header.channels = 3;
	assert_int_equal(index_set_root(builder, "/data", 5), 0);
	assert_int_equal(index_add_class(builder, "0", 1), 0);
}

static void make_tar(struct table *table)
{
	struct index_builder builder = INDEX_BUILDER_NULL;

	build(&builder, INDEX_TAR);
	assert_int_equal(index_add_source(&builder, "a.tar", 5, 2048, 17), 0);
	assert_int_equal(index_add_member(&builder, "k/0.png", 7, 0, 512, 100), 0);
	assert_int_equal(index_add_source(&builder, "b.tar", 5, 4096, 18), 0);
	assert_int_equal(index_add_member(&builder, "../1.png", 8, 0, 3996, 100), 0);
	read_table(table, &builder);
}

static void make_manifest(struct table *table, const char *path)
{
	struct index_builder builder = INDEX_BUILDER_NULL;

	build(&builder, INDEX_MANIFEST);
	assert_int_equal(index_add_path(&builder, path, strlen(path), 0), 0);
	read_table(table, &builder);
}

static int map_table(struct index *index, const struct table *table, struct error_text *error)
{
	_cleanup_fd_ int fd = memfd_new("test");

	assert_true(fd >= 0);
	assert_int_equal(memfd_append(fd, table->bytes, table->length), 0);
	assert_int_equal(memfd_seal(fd), 0);
	return index_map(index, fd, true, error);
}

static void refused(const struct table *table, const char *word)
{
	struct error_text error = {""};
	struct index index;

	assert_int_equal(map_table(&index, table, &error), -EBADMSG);
	assert_null(index.header);
	if (!strstr(error.text, word))
		fail_msg("'%s' has no '%s'", error.text, word);
}

static void described(const struct index *index, uint64_t i, const char *expected)
{
	char name[100];

	index_describe(index, i, name, sizeof(name));
	assert_string_equal(name, expected);
}

static void test_round_trip(void **state)
{
	struct error_text error;
	struct table table;
	struct index index;
	uint64_t fingerprint;

	(void)state;
	make_tar(&table);
	assert_int_equal(map_table(&index, &table, &error), 0);
	assert_int_equal(index.header->sources, 2);
	assert_int_equal(index.extents[1].offset, 3996);
	assert_int_equal(index.extents[1].length, 100);
	assert_int_equal(index.extents[1].source, 1);
	assert_int_equal(index.sources[1].bytes, 4096);
	assert_int_equal(index.sources[1].mtime_ns, 18);
	/* A member's name is never opened, so it may be any. */
	described(&index, 0, "/data/a.tar:k/0.png");
	described(&index, 1, "/data/b.tar:../1.png");
	fingerprint = index.fingerprint;
	index_unmap(&index);

	/* Packed again: the same samples. Another member: another fingerprint. */
	table.extents[1].offset = 1024;
	table.sources[1].mtime_ns = 99;
	assert_int_equal(map_table(&index, &table, &error), 0);
	assert_int_equal(index.fingerprint, fingerprint);
	index_unmap(&index);
	table.blob[table.samples[0].offset] = 'j';
	assert_int_equal(map_table(&index, &table, &error), 0);
	assert_int_not_equal(index.fingerprint, fingerprint);
	index_unmap(&index);
}

static void test_extents_that_lie(void **state)
{
	struct table table;

	(void)state;
	make_tar(&table);
	table.extents[1].source = 2;
	refused(&table, "archive");
	make_tar(&table);
	table.extents[1].source = 0;
	refused(&table, "archive");
	make_tar(&table);
	table.extents[1].length = 101;
	refused(&table, "archive");
	make_tar(&table);
	table.extents[0].offset = UINT64_MAX - 50;
	refused(&table, "archive");
	make_tar(&table);
	table.samples[0].length = 0;
	refused(&table, "path");
	make_tar(&table);
	table.samples[0].offset = table.header->blob_bytes;
	refused(&table, "sample out of range");
	make_tar(&table);
	table.length -= 8;
	refused(&table, "size");
}

static void test_sources_that_lie(void **state)
{
	static const char *const names[] = {"../ab", "a/tar", "/etc/", ".", "..", ""};
	struct table table;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		make_tar(&table);
		memcpy(table.blob + table.sources[0].offset, names[i], strlen(names[i]));
		table.sources[0].length = (uint32_t)strlen(names[i]);
		refused(&table, "name of an archive");
	}
	make_tar(&table);
	table.sources[1].offset = UINT64_MAX;
	refused(&table, "name of an archive");
	make_tar(&table);
	table.sources[1].length = 256;
	refused(&table, "name of an archive");
	make_tar(&table);
	table.header->sources = 0;
	refused(&table, "size");
	make_tar(&table);
	table.header->sources = UINT32_MAX;
	refused(&table, "size");
	/* No kind but tar has these tables. */
	make_tar(&table);
	table.header->kind = INDEX_MANIFEST;
	refused(&table, "size");
	make_manifest(&table, "a-long-enough-name-to-hide-a-table-of-archives-in.png");
	table.header->sources = 1;
	table.header->blob_bytes -= sizeof(struct index_source);
	refused(&table, "number of archives");
	make_manifest(&table, "a.png");
	table.header->kind = INDEX_TAR + 1;
	refused(&table, "unknown kind");
}

static void test_manifest_paths(void **state)
{
	struct error_text error;
	struct table table;
	struct index index;

	(void)state;
	make_manifest(&table, "/else/where.png");
	assert_int_equal(map_table(&index, &table, &error), 0);
	described(&index, 0, "/else/where.png");
	index_unmap(&index);
	/* The same path of a folder's sample would lead out of it. */
	table.header->kind = INDEX_FOLDER;
	refused(&table, "leads out");
	make_manifest(&table, "./../a.png");
	assert_int_equal(map_table(&index, &table, &error), 0);
	described(&index, 0, "/data/./../a.png");
	index_unmap(&index);
	make_manifest(&table, "a.png");
	table.samples[0].length = 0;
	refused(&table, "empty");
	make_manifest(&table, "a.png");
	table.blob[table.samples[0].offset] = '\0';
	refused(&table, "NUL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_extents_that_lie),
		cmocka_unit_test(test_sources_that_lie),
		cmocka_unit_test(test_manifest_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
