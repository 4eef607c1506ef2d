/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files of RGB and 16-bit images, and labels of every size: what is in them and what is refused. */
#include "daemon/data/idx_pixels.h"
#include "tests/unit/tree.h"

enum { U8 = 0x08, I16 = 0x0b, I32 = 0x0c };
enum { COUNT = 4, HEIGHT = 2, WIDTH = 5 };

static struct tree *tree_of(void **state)
{
	return &((struct tree_fixture *)*state)->tree;
}

/* An IDX file of these dimensions whose byte i is i * 31 + 7. */
static void write_idx(
	const struct tree *tree, const char *name, uint8_t type, const uint32_t *dims, uint8_t rank)
{
	static uint8_t bytes[8192];
	size_t length = 4 + 4u * rank, payload = type == U8 ? 1 : type == I16 ? 2 : 4;

	memcpy(bytes, (const uint8_t[]){0, 0, type, rank}, 4);
	for (uint8_t i = 0; i < rank; i++) {
		tree_put_be32(bytes + 4 + 4 * i, dims[i]);
		payload *= dims[i];
	}
	assert_true(length + payload <= sizeof(bytes));
	for (size_t i = 0; i < payload; i++)
		bytes[length + i] = (uint8_t)(i * 31 + 7);
	tree_write(tree, name, bytes, length + payload);
}

static void write_labels(const struct tree *tree, const char *name, uint8_t type, int element,
	const int32_t labels[COUNT])
{
	uint8_t bytes[8 + 4 * COUNT] = {0, 0, type, 1, 0, 0, 0, COUNT};

	for (int i = 0; i < COUNT; i++) {
		uint8_t value[4];

		tree_put_be32(value, (uint32_t)labels[i]);
		memcpy(bytes + 8 + element * i, value + 4 - element, (size_t)element);
	}
	tree_write(tree, name, bytes, (size_t)(8 + element * COUNT));
}

static void put_labels(const struct tree *tree)
{
	write_labels(tree, "a-labels-idx1-ubyte", U8, 1, (const int32_t[COUNT]){2, 0, 1, 1});
}

static void check_images(const struct tree *tree, const char *name, uint32_t channels,
	uint32_t pixels, uint32_t header_bytes)
{
	uint32_t bytes = HEIGHT * WIDTH * channels * (pixels & INDEX_PIXELS_16BIT ? 2 : 1);
	struct error_text error;
	struct index index;

	if (tree_open(tree, name, &index, NULL, &error) != 0)
		fail_msg("%s", error.text);
	assert_int_equal(index.header->kind, INDEX_IDX);
	assert_int_equal(index.header->width, WIDTH);
	assert_int_equal(index.header->height, HEIGHT);
	assert_int_equal(index.header->channels, channels);
	assert_int_equal(index.header->pixels, pixels);
	assert_int_equal(index_pixel_bytes(index.header), bytes);
	assert_int_equal(index.header->data_bytes, header_bytes + COUNT * bytes);
	assert_int_equal(index.header->samples, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		assert_int_equal(index.samples[i].offset, header_bytes + i * bytes);
		assert_int_equal(index.samples[i].length, bytes);
	}
	index_unmap(&index);
}

static void test_shapes(void **state)
{
	static const uint32_t grey[] = {COUNT, HEIGHT, WIDTH}, last[] = {COUNT, HEIGHT, WIDTH, 3},
			      first[] = {COUNT, 3, HEIGHT, WIDTH};
	struct tree *tree = tree_of(state);

	put_labels(tree);
	write_idx(tree, "a-images-idx3-ubyte", U8, grey, 3);
	check_images(tree, "", 1, 0, 16);
	write_idx(tree, "a-images-idx3-ubyte", I16, grey, 3);
	check_images(tree, "", 1, INDEX_PIXELS_16BIT, 16);
	assert_int_equal(unlink(tree_path(tree, "a-images-idx3-ubyte")), 0);

	write_idx(tree, "a-images-idx4-ubyte", U8, last, 4);
	check_images(tree, "", 3, 0, 20);
	write_idx(tree, "a-images-idx4-ubyte", I16, last, 4);
	check_images(tree, "", 3, INDEX_PIXELS_16BIT, 20);
	write_idx(tree, "a-images-idx4-ubyte", U8, first, 4);
	check_images(tree, "", 3, INDEX_PIXELS_PLANAR, 20);
	write_idx(tree, "a-images-idx4-ubyte", I16, first, 4);
	check_images(tree, "a-images-idx4-ubyte", 3, INDEX_PIXELS_16BIT | INDEX_PIXELS_PLANAR, 20);
}

static void test_shapes_that_are_none(void **state)
{
	static const struct {
		uint32_t dims[4];
		const char *words;
	} rows[] = {
		{{COUNT, HEIGHT, WIDTH, 4}, "has dimensions 4x2x5x4: neither of"},
		{{COUNT, HEIGHT, WIDTH, 1}, "has dimensions 4x2x5x1: neither of"},
		{{COUNT, 1, HEIGHT, WIDTH},
			"neither of number x height x width x 3 and number x 3"},
		{{COUNT, 3, WIDTH, 3}, "has dimensions 4x3x5x3: cannot tell which of"},
		{{COUNT, HEIGHT, 0, 3}, "dimension of 0"},
	};
	static const uint32_t five[] = {COUNT, 1, HEIGHT, WIDTH, 3};
	struct tree *tree = tree_of(state);

	put_labels(tree);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_idx(tree, "a-images-idx4-ubyte", U8, rows[i].dims, 4);
		tree_refused(tree, "", "/a-images-idx4-ubyte: ", rows[i].words, NULL);
		write_idx(tree, "a-images-idx4-ubyte", I16, rows[i].dims, 4);
		tree_refused(tree, "", "/a-images-idx4-ubyte: ", rows[i].words, NULL);
	}
	write_idx(tree, "a-images-idx4-ubyte", U8, five, 5);
	tree_refused(tree, "", "has 5 dimensions, but images have 3", NULL);
	for (uint8_t type = 0x09; type <= 0x0e; type++) {
		write_idx(tree, "a-images-idx4-ubyte", type, rows[0].dims, 4);
		tree_refused(tree, "", "/a-images-idx4-ubyte: ",
			type == 0x0a   ? "unknown IDX element type 0x0a"
			: type == 0x0b ? "neither"
				       : "only unsigned bytes (0x08) and 16-bit integers (0x0b)",
			NULL);
	}
}

/* Twice the bytes count: a file of the right number of values may still be short or long. */
static void test_sizes(void **state)
{
	static const uint32_t dims[] = {COUNT, HEIGHT, WIDTH, 3};
	struct tree *tree = tree_of(state);
	uint64_t whole = 20 + COUNT * HEIGHT * WIDTH * 3 * 2;

	put_labels(tree);
	write_idx(tree, "a-images-idx4-ubyte", I16, dims, 4);
	for (uint64_t length = 4; length < 20; length++) {
		assert_int_equal(
			truncate(tree_path(tree, "a-images-idx4-ubyte"), (off_t)length), 0);
		tree_refused(tree, "", "ends inside its IDX header", NULL);
		write_idx(tree, "a-images-idx4-ubyte", I16, dims, 4);
	}
	assert_int_equal(truncate(tree_path(tree, "a-images-idx4-ubyte"), (off_t)whole - 1), 0);
	tree_refused(tree, "", "shorter than its header says (240 bytes of data, here 239)", NULL);
	assert_int_equal(truncate(tree_path(tree, "a-images-idx4-ubyte"), (off_t)whole + 1), 0);
	tree_refused(tree, "", "longer", NULL);
}

/* ---- pixels ---- */

static void test_pixels(void **state)
{
	/* 2 x 1 pixels: values 0x0102 0x0304 0x0506 / 0x00ff 0x0000 0xff00 in the file's order */
	static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 0, 255, 0, 0, 255, 0};
	struct index_header header = {.width = 2, .height = 1, .channels = 3};
	uint8_t out[7] = {0};

	(void)state;
	out[6] = 77;
	idx_pixels(&header, bytes, false, out);
	assert_memory_equal(out, ((const uint8_t[]){1, 2, 3, 4, 5, 6, 77}), 7);
	header.pixels = INDEX_PIXELS_PLANAR;
	idx_pixels(&header, bytes, true, out);
	assert_memory_equal(out, ((const uint8_t[]){1, 3, 5, 2, 4, 6, 77}), 7);
	header.pixels = INDEX_PIXELS_16BIT;
	idx_pixels(&header, bytes, false, out);
	assert_memory_equal(out, ((const uint8_t[]){1, 3, 5, 0, 0, 255, 77}), 7);
	idx_pixels(&header, bytes, true, out); /* colours are never clipped */
	assert_memory_equal(out, ((const uint8_t[]){1, 3, 5, 0, 0, 255, 77}), 7);
	header.pixels |= INDEX_PIXELS_PLANAR;
	idx_pixels(&header, bytes, false, out);
	assert_memory_equal(out, ((const uint8_t[]){1, 5, 0, 3, 0, 255, 77}), 7);

	header = (struct index_header){
		.width = 2, .height = 3, .channels = 1, .pixels = INDEX_PIXELS_16BIT};
	idx_pixels(&header, bytes, false, out);
	assert_memory_equal(out, ((const uint8_t[]){1, 3, 5, 0, 0, 255, 77}), 7);
	idx_pixels(&header, bytes, true, out);
	assert_memory_equal(out, ((const uint8_t[]){255, 255, 255, 255, 0, 255, 77}), 7);
}

/* ---- labels ---- */

static void check_labels(const struct tree *tree, const int32_t labels[COUNT], uint32_t classes,
	uint32_t empty_classes)
{
	struct error_text error;
	struct index index;

	if (tree_open(tree, "", &index, NULL, &error) != 0)
		fail_msg("%s", error.text);
	assert_int_equal(index.header->classes, classes);
	assert_int_equal(index.header->empty_classes, empty_classes);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(index.samples[i].label, labels[i]);
	index_unmap(&index);
}

static void test_labels(void **state)
{
	static const uint32_t dims[] = {COUNT, HEIGHT, WIDTH};
	static const int32_t small[COUNT] = {3, 0, 255, 1}, large[COUNT] = {0, 300, 32767, 1},
			     larger[COUNT] = {999999, 0, 65536, 1};
	struct tree *tree = tree_of(state);

	write_idx(tree, "a-images-idx3-ubyte", U8, dims, 3);
	write_labels(tree, "a-labels-idx1-ubyte", U8, 1, small);
	check_labels(tree, small, 256, 252);
	write_labels(tree, "a-labels-idx1-ubyte", I16, 2, large); /* whatever its name says */
	check_labels(tree, large, 32768, 32764);
	assert_int_equal(unlink(tree_path(tree, "a-labels-idx1-ubyte")), 0);
	write_labels(tree, "a-labels-idx1-int", I32, 4, larger);
	check_labels(tree, larger, 1000000, 999996);
	write_labels(tree, "a-labels.idx1-short", I16, 2, small);
	check_labels(tree, small, 256, 252); /* in the order of the endings */
	write_labels(tree, "a-labels.idx1-ubyte", I16, 2, large);
	check_labels(tree, large, 32768, 32764);
}

static void test_labels_that_are_no_classes(void **state)
{
	static const uint32_t dims[] = {COUNT, HEIGHT, WIDTH};
	struct tree *tree = tree_of(state);

	write_idx(tree, "a-images-idx3-ubyte", U8, dims, 3);
	write_labels(tree, "a-labels-idx1-ubyte", I16, 2, (const int32_t[COUNT]){0, 1, -1, 0});
	tree_refused(tree, "", "/a-labels-idx1-ubyte: label 2 is -1: classes are numbers", NULL);
	write_labels(tree, "a-labels-idx1-ubyte", I32, 4, (const int32_t[COUNT]){0, 1000000, 1, 0});
	tree_refused(tree, "", "label 1 is 1000000", "from 0 to 999999", NULL);
	write_labels(
		tree, "a-labels-idx1-ubyte", I32, 4, (const int32_t[COUNT]){INT32_MIN, 0, 1, 0});
	tree_refused(tree, "", "label 0 is -2147483648", NULL);
	write_labels(tree, "a-labels-idx1-ubyte", I32, 4, (const int32_t[COUNT]){0, 1, 1, 0});
	assert_int_equal(truncate(tree_path(tree, "a-labels-idx1-ubyte"), 8 + 15), 0);
	tree_refused(tree, "", "shorter than its header says (16 bytes of data, here 15)", NULL);
	write_labels(tree, "a-labels-idx1-ubyte", 0x0d, 4, (const int32_t[COUNT]){0});
	tree_refused(tree, "", "labels are 32-bit floats (IDX type 0x0d)", NULL);
}

/* EMNIST's letters are 1 to 26. */
static void test_emnist(void **state)
{
	static const uint32_t dims[] = {COUNT, HEIGHT, WIDTH};
	static const int32_t letters[COUNT] = {1, 26, 13, 2};
	struct tree *tree = tree_of(state);

	write_idx(tree, "emnist-letters-train-images-idx3-ubyte", U8, dims, 3);
	write_labels(tree, "emnist-letters-train-labels-idx1-ubyte", U8, 1, letters);
	write_labels(tree, "emnist-letters-train-mapping.txt", U8, 1, letters);
	check_labels(tree, letters, 27, 23);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		tree_test(test_shapes),
		tree_test(test_shapes_that_are_none),
		tree_test(test_sizes),
		cmocka_unit_test(test_pixels),
		tree_test(test_labels),
		tree_test(test_labels_that_are_no_classes),
		tree_test(test_emnist),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
