/* SPDX-License-Identifier: Apache-2.0 */
/* Class folders: torchvision's order and labels, links, hidden entries, and each way to be refused. */
#include "tests/unit/tree.h"

static struct tree *tree_of(void **state)
{
	return &((struct tree_fixture *)*state)->tree;
}

static void write_pngs(const struct tree *tree, const char *const *names)
{
	for (; *names; names++)
		tree_png(tree, *names, 3, 2);
}

/* The whole table, as "label path", up to NULL. */
static void has_samples(const struct index *index, const char *const *expected)
{
	uint64_t i = 0;

	for (; expected[i]; i++) {
		char text[4200];
		uint32_t length;
		const uint8_t *path;

		assert_true(i < index->header->samples);
		path = index_path(index, i, &length);
		snprintf(text, sizeof(text), "%d %.*s", index->samples[i].label, (int)length, path);
		assert_string_equal(text, expected[i]);
	}
	assert_int_equal(i, index->header->samples);
}

static void check(
	const struct tree *tree, const char *const *expected, uint32_t classes, uint32_t hidden)
{
	struct error_text error;
	struct index index;

	if (tree_open(tree, "", &index, NULL, &error) != 0)
		fail_msg("%s", error.text);
	assert_int_equal(index.header->kind, INDEX_FOLDER);
	assert_int_equal(index.header->channels, 3);
	assert_int_equal(index.header->width, 3);
	assert_int_equal(index.header->height, 2);
	assert_int_equal(index.header->classes, classes);
	assert_int_equal(index.header->hidden_skipped, hidden);
	assert_int_equal(index.header->root_length, strlen(tree->root));
	assert_memory_equal(index.blob + index.header->root_offset, tree->root, strlen(tree->root));
	has_samples(&index, expected);
	index_unmap(&index);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_classes_in_code_point_order(void **state)
{
	write_pngs(tree_of(state), LIST("2/a.png", "10/a.png", "1/a.png", "11/a.png", "b/a.png",
					   "B/a.png", "\xc3\xa9/a.png", "z/a.png"));
	check(tree_of(state),
		LIST("0 1/a.png", "1 10/a.png", "2 11/a.png", "3 2/a.png", "4 B/a.png", "5 b/a.png",
			"6 z/a.png", "7 \xc3\xa9/a.png"),
		8, 0);
}

/* By directory path, then file name: not by full path, where "c/a-b/" comes before "c/a/". */
static void test_order_inside_a_class(void **state)
{
	write_pngs(tree_of(state), LIST("c/z.png", "c/a/2.png", "c/a/b/1.png", "c/a-b/3.png",
					   "c/9.png", "c/10.png", "c/Z.png", "c/a/b-c/6.png"));
	check(tree_of(state),
		LIST("0 c/10.png", "0 c/9.png", "0 c/Z.png", "0 c/z.png", "0 c/a/2.png",
			"0 c/a-b/3.png", "0 c/a/b/1.png", "0 c/a/b-c/6.png"),
		1, 0);
}

static void test_extensions(void **state)
{
	write_pngs(tree_of(state),
		LIST("c/01.png", "c/02.JPG", "c/03.jpeg", "c/04.Ppm", "c/05.bmp", "c/06.pgm",
			"c/07.tif", "c/08.TIFF", "c/09.WebP", "c/10.gif", "c/11.png.txt", "c/png",
			"c/12.", "c/13.jpg~", "c/14.tar.png", "c/15.jpe", "c/16.npy"));
	check(tree_of(state),
		LIST("0 c/01.png", "0 c/02.JPG", "0 c/03.jpeg", "0 c/04.Ppm", "0 c/05.bmp",
			"0 c/06.pgm", "0 c/07.tif", "0 c/08.TIFF", "0 c/09.WebP", "0 c/14.tar.png"),
		1, 0);
}

static void test_hidden_entries(void **state)
{
	write_pngs(tree_of(state),
		LIST(".hidden/1.png", ".ipynb_checkpoints/1.png", "__MACOSX/a/1.png", "a/._1.png",
			"a/.DS_Store", "a/1.png", "a/.cache/2.png", "a/__MACOSX/1.png", "b/2.png"));
	/* a link that is not hidden may lead to what is */
	tree_link(tree_of(state), "b/shown", "../.hidden");
	check(tree_of(state), LIST("0 a/1.png", "1 b/2.png", "1 b/shown/1.png"), 2, 7);
}

static void test_files_beside_classes(void **state)
{
	write_pngs(tree_of(state), LIST("a/1.png", "top.png", "readme.txt"));
	assert_int_equal(mkfifo(tree_path(tree_of(state), "fifo"), 0600), 0);
	check(tree_of(state), LIST("0 a/1.png"), 1, 0);
}

static void test_names_that_are_bytes(void **state)
{
	write_pngs(tree_of(state),
		LIST("\xff\xfe/\x80.png", "a\nb/\n.png", "\xe9t\xe9/1.png", "back\\slash/ .png"));
	check(tree_of(state),
		LIST("0 a\nb/\n.png", "1 back\\slash/ .png", "2 \xe9t\xe9/1.png",
			"3 \xff\xfe/\x80.png"),
		4, 0);
}

/* ---- links ---- */

static void link_out(
	const struct tree *tree, const char *name, const struct tree *to, const char *what)
{
	char target[128];

	snprintf(target, sizeof(target), "%s/%s", to->root, what);
	tree_link(tree, name, target);
}

static void test_links_are_followed(void **state)
{
	struct tree *tree = tree_of(state), outside;

	tree_make(&outside);
	write_pngs(&outside, LIST("k/1.png", "more/2.png", "single.png"));
	write_pngs(tree, LIST("a/1.png"));
	link_out(tree, "b", &outside, "k");
	link_out(tree, "a/more", &outside, "more");
	link_out(tree, "a/s.png", &outside, "single.png");
	tree_link(tree, "a/to-nothing.png", "nowhere"); /* a sample by name, as in torchvision */
	tree_link(tree, "a/to-nothing", "nowhere");
	tree_link(tree, "to-nothing", "nowhere");
	check(tree,
		LIST("0 a/1.png", "0 a/s.png", "0 a/to-nothing.png", "0 a/more/2.png", "1 b/1.png"),
		2, 0);
	tree_remove(&outside);
}

static void test_link_loops_end(void **state)
{
	struct tree *tree = tree_of(state);

	write_pngs(tree, LIST("a/1.png", "a/deep/er/2.png", "b/1.png"));
	tree_link(tree, "a/self", ".");
	tree_link(tree, "a/root", "..");
	tree_link(tree, "a/other", "../b"); /* the files of b stay b's */
	tree_link(tree, "a/deep/up", "../..");
	tree_link(tree, "a/deep/er/deep", "../../deep");
	tree_link(tree, "b/me", "../b");
	tree_link(tree, "b/to-itself", "to-itself");
	check(tree, LIST("0 a/1.png", "0 a/deep/er/2.png", "1 b/1.png"), 2, 0);
}

static void test_each_directory_is_entered_once(void **state)
{
	struct tree *tree = tree_of(state);

	write_pngs(tree, LIST("a/b/1.png", "c/1.png"));
	tree_link(tree, "a/a", "b");
	tree_link(tree, "a/c", "b");
	check(tree, LIST("0 a/a/1.png", "1 c/1.png"), 2, 0);
}

static void test_class_that_is_another(void **state)
{
	struct tree *tree = tree_of(state);

	write_pngs(tree, LIST("a/1.png"));
	tree_link(tree, "twin", "a");
	tree_refused(tree, "", "/twin", "same directory", NULL);
	assert_int_equal(unlink(tree_path(tree, "twin")), 0);
	tree_link(tree, "up", ".");
	tree_refused(tree, "", "/up", "same directory", NULL);
}

/* ---- what is no picture ---- */

static void test_odd_things_named_png(void **state)
{
	struct tree *tree = tree_of(state);

	assert_int_equal(mkfifo(tree_path(tree, "a/0.png"), 0600), 0);
	tree_write(tree, "a/1.png", "", 0);
	tree_png(tree, "a/2.png/x.png", 3, 2);
	/* the first that can be read gives the size */
	check(tree, LIST("0 a/0.png", "0 a/1.png", "0 a/2.png/x.png"), 1, 0);
}

static void test_no_readable_image(void **state)
{
	struct tree *tree = tree_of(state);

	tree_write(tree, "a/1.png", "GIF89a", 6);
	tree_write(tree, "a/2.png", "", 0);
	tree_unreadable(tree, "", "/a/1.png: not PNG or JPEG", "first 2", NULL);
	tree_png(tree, "b/huge.png", 2000, 2000); /* over max_pixels */
	tree_unreadable(tree, "", "/a/1.png", "first 3", NULL);
	for (int i = 0; i < 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "a/x%d.png", i);
		tree_write(tree, name, "", 0);
	}
	tree_png(tree, "c/good.png", 3, 2); /* too late to be looked at */
	tree_unreadable(tree, "", "/a/1.png", "first 100", NULL);
}

/* ---- refused ---- */

static void test_empty_classes(void **state)
{
	struct tree *tree = tree_of(state);

	write_pngs(tree, LIST("full/1.png"));
	tree_path(tree, "hollow/");
	tree_refused(tree, "", tree->root, "'hollow'", NULL);
	tree_write(tree, "text/readme.txt", "", 0);
	tree_path(tree, "x/y/z/");
	tree_path(tree, "y\n/");
	tree_path(tree, "z/");
	tree_refused(tree, "", "'hollow', 'text', 'x' and 2 more", NULL);
}

static void test_no_classes(void **state)
{
	struct tree *tree = tree_of(state);

	tree_refused(tree, "", tree->root, "is empty", NULL);
	tree_write(tree, "readme.txt", "", 0);
	tree_refused(tree, "", "neither class directories nor IDX files", NULL);
	tree_path(tree, ".hidden/");
	tree_refused(tree, "", "neither class directories nor IDX files", NULL);
	tree_png(tree, "1.png", 1, 1);
	tree_refused(tree, "", "images lie directly in it", "directory", NULL);
}

static void test_paths(void **state)
{
	struct tree *tree = tree_of(state);
	struct dataset_request request = {.max_memory = 1, .max_pixels = 1};
	struct dataset_result result;
	struct error_text error;
	char path[INDEX_PATH_MAX + 2];

	tree_refused(tree, "missing", "/missing", "does not exist", NULL);
	assert_int_equal(mkfifo(tree_path(tree, "fifo"), 0600), 0);
	tree_refused(tree, "fifo", "/fifo", "neither a directory nor a regular file", NULL);
	tree_write(tree, "text", "hello\n", 6);
	tree_refused(tree, "text", "/text", "not an IDX file", NULL);
	tree_link(tree, "loop", "loop");
	tree_refused(tree, "loop", "/loop", NULL);

	request.path = "relative/path";
	assert_int_equal(dataset_open(&request, &result, &error), DATASET_UNUSABLE);
	assert_non_null(strstr(error.text, "absolute"));
	memset(path, '/', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	request.path = path;
	assert_int_equal(strlen(path), INDEX_PATH_MAX + 1);
	assert_int_equal(dataset_open(&request, &result, &error), DATASET_UNUSABLE);
	assert_non_null(strstr(error.text, "4095"));
	request.path = "";
	assert_int_equal(dataset_open(&request, &result, &error), DATASET_UNUSABLE);
}

static void test_trailing_slashes(void **state)
{
	struct tree *tree = tree_of(state);
	struct error_text error;
	struct index index;

	write_pngs(tree, LIST("data/a/1.png"));
	assert_int_equal(tree_open(tree, "data///", &index, NULL, &error), 0);
	assert_int_equal(index.header->root_length, strlen(tree->root) + 5);
	index_unmap(&index);
}

/* Root may read everything, so it becomes nobody for a moment. */
static void test_permissions(void **state)
{
	struct tree *tree = tree_of(state);
	bool root = geteuid() == 0;

	write_pngs(tree, LIST("a/1.png", "b/2.png", "c/d/3.png"));
	assert_int_equal(chmod(tree_path(tree, "c/d"), 0), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	tree_refused(tree, "", "/c/d: permission denied", NULL);
	tree_refused(tree, "c/d", "/c/d: permission denied", NULL);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(tree_path(tree, "c/d"), 0755), 0);
	check(tree, LIST("0 a/1.png", "1 b/2.png", "2 c/d/3.png"), 3, 0);
}

/* Directories nested until their path is longer than any path may be. */
static void test_nested_too_deep(void **state)
{
	struct tree *tree = tree_of(state);
	int fd = open(tree_path(tree, ""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[256];

	memset(name, 'n', 255);
	name[255] = '\0';
	write_pngs(tree, LIST("a/1.png"));
	for (int i = 0; i < 20; i++) {
		int below;

		assert_int_equal(mkdirat(fd, name, 0755), 0);
		below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(below >= 0);
		close(fd);
		fd = below;
	}
	close(fd);
	tree_refused(tree, "", "nested too deep", "4095", NULL);
}

static void test_many_levels(void **state)
{
	char name[3 * 600 + 16] = "";
	char expected[sizeof(name) + 2];

	for (int i = 0; i < 600; i++)
		strcat(name, "ab/");
	strcat(name, "1.png");
	tree_png(tree_of(state), name, 3, 2);
	snprintf(expected, sizeof(expected), "0 %s", name);
	check(tree_of(state), LIST(expected), 1, 0);
}

/* ---- many ---- */

struct progress {
	uint64_t last;
	int calls;
};

static void on_progress(uint64_t samples, void *data)
{
	struct progress *progress = data;

	assert_true(samples > progress->last);
	progress->last = samples;
	progress->calls++;
}

/* Names come from the directory in no order at all; and the count of them is told meanwhile. */
static void test_many(void **state)
{
	struct tree *tree = tree_of(state);
	struct progress progress = {0, 0};
	struct dataset_request request = {
		.path = tree->root,
		.max_pixels = 100,
		.progress = on_progress,
		.progress_data = &progress,
	};
	struct dataset_result result;
	struct error_text error;
	struct index index;
	char name[32];

	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "%d/%d.png", i % 3, (int)(i * 7919L % 10007));
		tree_png(tree, name, 3, 2);
	}
	assert_int_equal(dataset_open(&request, &result, &error), 0);
	assert_int_equal(index_map(&index, result.index_fd, false, &error), 0);
	close(result.index_fd);
	assert_int_equal(index.header->samples, 5000);
	for (uint64_t i = 1; i < 5000; i++) {
		uint32_t a, b;
		const uint8_t *path = index_path(&index, i - 1, &a);
		const uint8_t *next = index_path(&index, i, &b);
		int compared = memcmp(path, next, a < b ? a : b);

		assert_true(compared < 0 || (compared == 0 && a < b));
		assert_int_equal(index.samples[i].label, next[0] - '0');
	}
	index_unmap(&index);
	assert_int_equal(progress.calls, 5);
	assert_int_equal(progress.last, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		tree_test(test_classes_in_code_point_order),
		tree_test(test_order_inside_a_class),
		tree_test(test_extensions),
		tree_test(test_hidden_entries),
		tree_test(test_files_beside_classes),
		tree_test(test_names_that_are_bytes),
		tree_test(test_links_are_followed),
		tree_test(test_link_loops_end),
		tree_test(test_each_directory_is_entered_once),
		tree_test(test_class_that_is_another),
		tree_test(test_odd_things_named_png),
		tree_test(test_no_readable_image),
		tree_test(test_empty_classes),
		tree_test(test_no_classes),
		tree_test(test_paths),
		tree_test(test_trailing_slashes),
		tree_test(test_permissions),
		tree_test(test_nested_too_deep),
		tree_test(test_many_levels),
		tree_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
