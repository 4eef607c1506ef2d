/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files, gzipped or not: what is in them, and each way of being broken. */
#include "tests/unit/tree.h"

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

enum { COUNT = 7, HEIGHT = 3, WIDTH = 5, IMAGE = HEIGHT * WIDTH };

struct blob {
	uint8_t bytes[8192];
	size_t length;
};

static struct tree *tree_of(void **state)
{
	return &((struct tree_fixture *)*state)->tree;
}

static struct blob idx(uint8_t type, uint8_t dims, const uint32_t *sizes, size_t payload)
{
	struct blob blob = {.bytes = {0, 0, type, dims}, .length = 4};

	for (uint8_t i = 0; i < dims; i++, blob.length += 4)
		tree_put_be32(blob.bytes + blob.length, sizes[i]);
	for (size_t i = 0; i < payload; i++)
		blob.bytes[blob.length++] = (uint8_t)(i * 37 + 5);
	return blob;
}

static struct blob images(void)
{
	return idx(0x08, 3, (const uint32_t[]){COUNT, HEIGHT, WIDTH}, COUNT * IMAGE);
}

static struct blob labels(void)
{
	static const uint8_t values[COUNT] = {3, 0, 2, 2, 9, 1, 0};
	struct blob blob = idx(0x08, 1, (const uint32_t[]){COUNT}, COUNT);

	memcpy(blob.bytes + 8, values, COUNT);
	return blob;
}

static struct blob gzip(struct blob plain)
{
	z_stream stream = {.next_in = plain.bytes, .avail_in = (unsigned)plain.length};
	struct blob packed = {.length = 0};

	assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_out = packed.bytes;
	stream.avail_out = sizeof(packed.bytes);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	packed.length = stream.total_out;
	deflateEnd(&stream);
	return packed;
}

static struct blob text(const char *string)
{
	struct blob blob = {.length = strlen(string)};

	memcpy(blob.bytes, string, blob.length);
	return blob;
}

static struct blob cut(struct blob blob, size_t length)
{
	blob.length = length;
	return blob;
}

static struct blob joined(struct blob first, struct blob second)
{
	memcpy(first.bytes + first.length, second.bytes, second.length);
	first.length += second.length;
	return first;
}

static void put(const struct tree *tree, const char *name, struct blob blob)
{
	tree_write(tree, name, blob.bytes, blob.length);
}

static void put_pair(const struct tree *tree)
{
	put(tree, IMAGES, images());
	put(tree, LABELS, labels());
}

/* The pair's table, and its pixels where they were unpacked. Returns the fingerprint. */
static uint64_t check(const struct tree *tree, const char *name, const char *file)
{
	static const int32_t expected[COUNT] = {3, 0, 2, 2, 9, 1, 0};
	struct blob pixels = images(), got;
	struct error_text error;
	struct index index;
	char describe[400];
	uint64_t fingerprint;
	int data_fd = -1;

	if (tree_open(tree, name, &index, &data_fd, &error) != 0)
		fail_msg("%s", error.text);
	assert_int_equal(index.header->kind, INDEX_IDX);
	assert_int_equal(index.header->samples, COUNT);
	assert_int_equal(index.header->classes, 10);
	assert_int_equal(index.header->width, WIDTH);
	assert_int_equal(index.header->height, HEIGHT);
	assert_int_equal(index.header->channels, 1);
	assert_int_equal(index.header->data_bytes, pixels.length);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(index.samples[i].label, expected[i]);
		assert_int_equal(index.samples[i].length, IMAGE);
		assert_int_equal(index.samples[i].offset, 16 + i * IMAGE);
	}
	for (int i = 0; i < 10; i++) {
		assert_int_equal(index.classes[i].length, 1);
		assert_int_equal(index.blob[index.classes[i].offset], '0' + i);
	}
	index_describe(&index, 6, describe, sizeof(describe));
	assert_non_null(strstr(describe, file));
	assert_string_equal(describe + strlen(describe) - 2, "#6");
	if (data_fd >= 0) {
		int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

		assert_int_equal(fcntl(data_fd, F_GET_SEALS) & seals, seals);
		assert_int_equal(pread(data_fd, got.bytes, sizeof(got.bytes), 0), pixels.length);
		assert_memory_equal(got.bytes, pixels.bytes, pixels.length);
		close(data_fd);
	}
	fingerprint = index.fingerprint;
	index_unmap(&index);
	return fingerprint;
}

/* ---- what works ---- */

static void test_plain_and_gzip_are_the_same(void **state)
{
	struct tree *tree = tree_of(state);
	struct blob packed = gzip(images());
	uint64_t fingerprint;

	put_pair(tree);
	fingerprint = check(tree, IMAGES, "/" IMAGES "#");
	assert_int_equal(check(tree, "", "/" IMAGES "#"), fingerprint);
	put(tree, "z/" IMAGES ".gz", packed);
	put(tree, "z/" LABELS ".gz", gzip(labels()));
	assert_int_equal(check(tree, "z", "/z/" IMAGES ".gz#"), fingerprint);
	assert_int_equal(check(tree, "z/" IMAGES ".gz", "/z/" IMAGES ".gz#"), fingerprint);
}

static void test_names(void **state)
{
	static const char *const names[][2] = {
		{"train-images.idx3-ubyte", "train-labels.idx1-ubyte"},
		{"train-images-idx3-ubyte", "train-labels.idx1-ubyte"},
		{"train-images.idx3-ubyte", "train-labels-idx1-ubyte.gz"},
		{"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte"},
		{"emnist-letters-train-images-idx3-ubyte",
			"emnist-letters-train-labels-idx1-ubyte"},
		{"images-idx3", "labels-idx1"},
		{"images-of-images-idx3-ubyte", "images-of-labels-idx1-ubyte"},
	};
	struct tree *tree = tree_of(state);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (int packed = 0; packed < 2; packed++) { /* by content, whatever the name */
			put(tree, names[i][0], packed ? gzip(images()) : images());
			put(tree, names[i][1], packed ? labels() : gzip(labels()));
			check(tree, "", names[i][0]);
			check(tree, names[i][0], names[i][0]);
			assert_int_equal(unlink(tree_path(tree, names[i][0])), 0);
			assert_int_equal(unlink(tree_path(tree, names[i][1])), 0);
		}
	}
}

static void test_members(void **state)
{
	struct tree *tree = tree_of(state);
	struct blob whole = images(), rest = {.length = whole.length - 50}, none = {.length = 0};

	memcpy(rest.bytes, whole.bytes + 50, rest.length);
	put(tree, LABELS, labels());
	put(tree, IMAGES ".gz", joined(gzip(cut(whole, 50)), gzip(rest)));
	check(tree, "", IMAGES);
	put(tree, IMAGES ".gz", joined(joined(gzip(none), gzip(whole)), gzip(none)));
	check(tree, "", IMAGES);
	put(tree, IMAGES ".gz", joined(gzip(whole), gzip(text("x"))));
	tree_refused(tree, "", IMAGES ".gz: longer than its header says", NULL);
}

static void test_all_labels(void **state)
{
	struct tree *tree = tree_of(state);
	struct error_text error;
	struct index index;
	struct blob values = idx(0x08, 1, (const uint32_t[]){256}, 256);

	for (int i = 0; i < 256; i++)
		values.bytes[8 + i] = (uint8_t)(255 - i);
	put(tree, IMAGES, idx(0x08, 3, (const uint32_t[]){256, 1, 1}, 256));
	put(tree, LABELS, values);
	assert_int_equal(tree_open(tree, "", &index, NULL, &error), 0);
	assert_int_equal(index.header->classes, 256);
	assert_int_equal(index.samples[0].label, 255);
	assert_int_equal(index.samples[255].label, 0);
	assert_int_equal(index.classes[255].length, 3);
	assert_memory_equal(index.blob + index.classes[255].offset, "255", 3);
	index_unmap(&index);
}

/* ---- directories ---- */

static void test_directories(void **state)
{
	struct tree *tree = tree_of(state);

	put_pair(tree);
	/* torchvision leaves both forms there: one data set, and the file needs no unpacking */
	put(tree, IMAGES ".gz", gzip(images()));
	put(tree, LABELS ".gz", gzip(labels()));
	put(tree, "README.txt", text("x"));
	put(tree, "._" IMAGES, text("x"));
	put(tree, "." IMAGES, text("x"));
	check(tree, "", "/" IMAGES "#");

	put(tree, "t10k-images-idx3-ubyte.gz", gzip(images()));
	tree_refused(tree, "", "several", "t10k-images-idx3-ubyte.gz, " IMAGES, NULL);
	for (char name[] = "a-images-idx3-ubyte"; name[0] <= 'i'; name[0]++)
		put(tree, name, images());
	tree_refused(tree, "", "a-images-idx3-ubyte, b-images-idx3-ubyte", ", ...", NULL);
	check(tree, IMAGES, "/" IMAGES "#"); /* naming one still works */
}

static void test_idx_beside_class_directories(void **state)
{
	struct tree *tree = tree_of(state);

	put_pair(tree);
	tree_png(tree, "cats/1.png", 1, 1);
	tree_refused(tree, "", "directories (cats) and IDX files (" IMAGES ")", NULL);
	check(tree, IMAGES, "/" IMAGES "#");
}

/* ---- broken images ---- */

static void refused_images(const struct tree *tree, struct blob bytes, const char *word)
{
	put(tree, IMAGES, bytes);
	tree_refused(tree, IMAGES, "/" IMAGES ": ", word, NULL);
	put(tree, IMAGES, gzip(bytes));
	tree_refused(tree, IMAGES, "/" IMAGES ": ", word, NULL);
}

static void test_foreign_content(void **state)
{
	struct tree *tree = tree_of(state);
	struct blob none = {.length = 0};

	put(tree, LABELS, labels());
	refused_images(tree, none, "is empty");
	refused_images(tree, text("<!DOCTYPE html><p>Not found"), "is a web page");
	refused_images(tree, text("\xef\xbb\xbf \n<html>"), "is a web page");
	refused_images(tree, text("PK\3\4...."), "is a zip archive");
	refused_images(tree, text("\x89PNG\r\n"), "not an IDX file (starts with 89 50 4e 47)");
	refused_images(tree, text("abc"), "ends inside its IDX header");
	put(tree, IMAGES, gzip(gzip(images())));
	tree_refused(tree, IMAGES, "is gzipped twice", NULL);
}

static void test_headers(void **state)
{
	static const struct {
		uint8_t type;
		const char *name;
	} types[] = {
		{0x09, "signed bytes"},
		{0x0c, "32-bit integers"},
		{0x0d, "32-bit floats"},
		{0x0e, "64-bit floats"},
		{0x0a, "unknown IDX element type 0x0a"},
		{0xff, "unknown IDX element type 0xff"},
	};
	static const uint32_t sizes[] = {COUNT, HEIGHT, WIDTH, 2};
	struct tree *tree = tree_of(state);

	put(tree, LABELS, labels());
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		refused_images(tree, idx(types[i].type, 3, sizes, 0), types[i].name);
	refused_images(tree, idx(0x08, 1, sizes, COUNT), "holds labels");
	refused_images(tree, idx(0x08, 2, sizes, COUNT), "has 2 dimensions");
	refused_images(tree, idx(0x08, 4, (const uint32_t[]){COUNT, 2, WIDTH, 4}, COUNT),
		"has dimensions 7x2x5x4: neither of");
	refused_images(tree, idx(0x08, 0, sizes, COUNT), "has 0 dimensions");
	for (size_t length = 4; length < 16; length++)
		refused_images(tree, cut(images(), length), "ends inside its IDX header");
}

static void test_sizes(void **state)
{
	static const struct {
		uint32_t sizes[3];
		const char *word;
	} rows[] = {
		{{0, HEIGHT, WIDTH}, "dimension of 0"},
		{{COUNT, 0, WIDTH}, "dimension of 0"},
		{{COUNT, HEIGHT, 0}, "dimension of 0"},
		{{UINT32_MAX, UINT32_MAX, UINT32_MAX}, "overflow"},
		{{UINT32_MAX, UINT32_MAX, 1}, "overflow"},
		{{UINT32_MAX, 1, 1}, "declares 4294967295 images"},
		{{1, UINT32_MAX, 1}, "1x4294967295 pixels: over the limit"},
		{{1, 1025, 1024}, "1024x1025 pixels: over the limit of 1048576"},
	};
	struct tree *tree = tree_of(state);

	put(tree, LABELS, labels());
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		refused_images(tree, idx(0x08, 3, rows[i].sizes, 100), rows[i].word);
	refused_images(tree, cut(images(), 16), "shorter");
	refused_images(tree, cut(images(), images().length - 1), "shorter");
	refused_images(tree, joined(images(), text("x")), "longer");
}

/* A small file may declare much more than memory holds: refused before any is taken. */
static void test_memory_limit(void **state)
{
	struct tree *tree = tree_of(state);
	const uint32_t sizes[] = {1025, 32, 32};
	struct blob many = idx(0x08, 1, sizes, 1025);

	put(tree, IMAGES ".gz", gzip(idx(0x08, 3, sizes, 100)));
	put(tree, LABELS, many);
	tree_refused(tree, IMAGES ".gz", "takes 1049616 bytes", "1048576", "gunzip it", NULL);
}

/* ---- broken gzip ---- */

static void test_broken_gzip(void **state)
{
	struct tree *tree = tree_of(state);
	struct blob packed = gzip(images()), bent;

	put(tree, LABELS, labels());
	for (size_t length = 2; length < packed.length; length++) {
		put(tree, IMAGES, cut(packed, length));
		tree_refused(tree, IMAGES, "cut off", NULL);
	}
	for (size_t from_end = 1; from_end <= 8; from_end++) { /* checksum and size */
		bent = packed;
		bent.bytes[bent.length - from_end] ^= 0x10;
		put(tree, IMAGES, bent);
		tree_refused(tree, IMAGES, "damaged", NULL);
	}
	put(tree, IMAGES, joined(packed, text("xyz")));
	tree_refused(tree, IMAGES, "bytes follow the end", NULL);
	put(tree, IMAGES, joined(packed, cut((struct blob){.length = 0}, 512)));
	tree_refused(tree, IMAGES, "bytes follow the end", NULL);
}

/* Whatever byte is wrong, the answer is one line or the right pixels, with every checksum right. */
static void test_bent_gzip(void **state)
{
	struct tree *tree = tree_of(state);
	struct blob packed = gzip(images()), bent;
	struct error_text error;
	struct index index;

	put(tree, LABELS, labels());
	for (size_t at = 0; at < packed.length; at++) {
		for (int bit = 0; bit < 8; bit += 3) {
			bent = packed;
			bent.bytes[at] ^= (uint8_t)(1 << bit);
			put(tree, IMAGES, bent);
			if (tree_open(tree, IMAGES, &index, NULL, &error) == 0) {
				assert_in_range(at, 3, 9); /* header fields without meaning */
				index_unmap(&index);
			} else {
				assert_string_not_equal(error.text, "");
			}
		}
	}
}

/* ---- broken labels ---- */

static void refused_labels(const struct tree *tree, struct blob bytes, const char *word)
{
	put(tree, LABELS, bytes);
	tree_refused(tree, IMAGES, "/" LABELS ": ", word, NULL);
	put(tree, LABELS, gzip(bytes));
	tree_refused(tree, IMAGES, "/" LABELS ": ", word, NULL);
}

static void test_labels(void **state)
{
	static const uint32_t sizes[] = {COUNT, 1, 1}, fewer[] = {COUNT - 1}, more[] = {COUNT + 1};
	struct tree *tree = tree_of(state);
	struct blob none = {.length = 0};

	put(tree, IMAGES, images());
	tree_refused(tree, IMAGES, "/" LABELS ": the labels are missing", NULL);
	tree_refused(tree, "", "/" LABELS ": the labels are missing", NULL);
	refused_labels(tree, none, "is empty");
	refused_labels(tree, text("<html>"), "is a web page");
	refused_labels(tree, idx(0x08, 1, fewer, COUNT - 1), "has 6 labels for 7 images");
	refused_labels(tree, idx(0x08, 1, more, COUNT + 1), "has 8 labels for 7 images");
	refused_labels(tree, idx(0x08, 1, (const uint32_t[]){UINT32_MAX}, 9), "4294967295 labels");
	refused_labels(tree, idx(0x08, 1, sizes, COUNT - 1), "shorter");
	refused_labels(tree, idx(0x08, 1, sizes, COUNT + 1), "longer");
	refused_labels(tree, idx(0x0d, 1, sizes, 4 * COUNT), "labels are 32-bit floats");
	refused_labels(tree, idx(0x08, 3, sizes, COUNT), "has 3 dimensions, but labels have 1");
	put(tree, LABELS, gzip(gzip(labels())));
	tree_refused(tree, IMAGES, "/" LABELS ": is gzipped twice", NULL);
	assert_int_equal(unlink(tree_path(tree, LABELS)), 0);
	assert_int_equal(mkfifo(tree_path(tree, LABELS), 0600), 0);
	tree_refused(tree, IMAGES, "/" LABELS ": not a regular file", NULL);
}

static void test_other_names(void **state)
{
	struct tree *tree = tree_of(state);

	put(tree, "pictures.idx", images());
	put(tree, "pictures-labels.idx", labels());
	tree_refused(tree, "pictures.idx", "does not tell where its labels are", NULL);
	tree_refused(tree, "pictures-labels.idx", "holds labels", NULL);
	/* a directory of that name is no reason to look elsewhere */
	put(tree, "images-idx3/x", images());
	tree_refused(tree, "images-idx3/x", "does not tell where its labels are", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		tree_test(test_plain_and_gzip_are_the_same),
		tree_test(test_names),
		tree_test(test_members),
		tree_test(test_all_labels),
		tree_test(test_directories),
		tree_test(test_idx_beside_class_directories),
		tree_test(test_foreign_content),
		tree_test(test_headers),
		tree_test(test_sizes),
		tree_test(test_memory_limit),
		tree_test(test_broken_gzip),
		tree_test(test_bent_gzip),
		tree_test(test_labels),
		tree_test(test_other_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
