/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of classes, and what the options of a data set do. */
#include "daemon/data/class_list.h"
#include "tests/unit/tree.h"

static struct tree *tree_of(void **state)
{
	return &((struct tree_fixture *)*state)->tree;
}

static void write_text(const struct tree *tree, const char *name, const char *text)
{
	tree_write(tree, name, text, strlen(text));
}

/* ---- the list itself ---- */

static void check_list(const struct tree *tree, const char *text, const char *const *names)
{
	struct label_set list = LABEL_SET_NULL;
	struct error_text error;
	size_t i = 0;

	write_text(tree, "list", text);
	if (class_list_read(&list, tree_path(tree, "list"), &error) != 0)
		fail_msg("%s", error.text);
	for (; names[i]; i++)
		assert_int_equal(label_set_find(&list, names[i], strlen(names[i])), i);
	assert_int_equal(list.count, i);
	assert_int_equal(label_set_find(&list, "nobody", 6), -1);
	label_set_finish(&list);
}

static void refuse_list(
	const struct tree *tree, const void *bytes, size_t length, const char *words)
{
	struct label_set list = LABEL_SET_NULL;
	struct error_text error;

	tree_write(tree, "list", bytes, length);
	assert_int_equal(class_list_read(&list, tree_path(tree, "list"), &error), DATASET_UNUSABLE);
	if (!strstr(error.text, words) || !strstr(error.text, "/list: ") ||
		strchr(error.text, '\n'))
		fail_msg("'%s' has no '%s'", error.text, words);
	label_set_finish(&list);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_lists(void **state)
{
	struct tree *tree = tree_of(state);

	check_list(tree, "dog\ncat\n", LIST("dog", "cat"));
	check_list(tree, "dog\ncat", LIST("dog", "cat"));
	check_list(tree,
		"\xef\xbb\xbf"
		"dog\r\n  cat \t\r\n\r\n \n",
		LIST("dog", "cat"));
	check_list(tree, "German shepherd, \"dog\"\n\xc3\xa4\n",
		LIST("German shepherd, \"dog\"", "\xc3\xa4"));
	check_list(tree, "10\n2\n", LIST("10", "2"));
}

static void test_broken_lists(void **state)
{
	struct tree *tree = tree_of(state);
	char long_name[2000];
	struct label_set list = LABEL_SET_NULL;
	struct error_text error;

	memset(long_name, 'x', sizeof(long_name));
	refuse_list(tree, "", 0, "names no classes");
	refuse_list(tree, " \r\n\n", 4, "names no classes");
	refuse_list(tree, "a\n\nb\n", 5, "line 2 is empty");
	refuse_list(tree, "\na\n", 3, "line 1 is empty");
	refuse_list(tree, "a\nb\na\n", 6, "line 3 names a class that stands above it too");
	refuse_list(tree, "a\nb\0\n", 5, "line 2 has a NUL byte");
	refuse_list(tree, "a\nb\n\0", 5, "line 3 has a NUL byte");
	refuse_list(
		tree, long_name, sizeof(long_name), "line 1 has a name of more than 1024 bytes");
	assert_int_equal(class_list_read(&list, "/nowhere/list", &error), DATASET_UNUSABLE);
	assert_string_equal(
		error.text, "/nowhere/list: does not exist: the list of classes should be there");
	assert_int_equal(class_list_read(&list, tree->root, &error), DATASET_UNUSABLE);
	assert_int_equal(unlink(tree_path(tree, "list")), 0);
	assert_int_equal(mkfifo(tree_path(tree, "list"), 0600), 0);
	assert_int_equal(class_list_read(&list, tree_path(tree, "list"), &error), DATASET_UNUSABLE);
	assert_non_null(strstr(error.text, "not a regular file"));
	label_set_finish(&list);
}

/* ---- data sets with options ---- */

static void check(const struct tree *tree, const char *name, const struct dataset_options *options,
	const char *expected)
{
	struct error_text error;
	char text[4096] = "";
	struct index index;
	size_t used = 0;

	if (tree_open_with(tree, name, options, &index, NULL, &error) != 0)
		fail_msg("%s", error.text);
	for (uint32_t i = 0; i < index.header->classes; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s ",
			(int)index.classes[i].length,
			(const char *)index.blob + index.classes[i].offset);
	used += (size_t)snprintf(text + used, sizeof(text) - used, "(%u empty, %u hidden) ",
		index.header->empty_classes, index.header->hidden_skipped);
	tree_print_samples(&index, text + used, sizeof(text) - used);
	assert_string_equal(text, expected);
	index_unmap(&index);
}

static void refused(const struct tree *tree, const char *name,
	const struct dataset_options *options, const char *words)
{
	struct error_text error;
	struct index index;

	assert_int_equal(
		tree_open_with(tree, name, options, &index, NULL, &error), DATASET_UNUSABLE);
	if (!strstr(error.text, words) || strchr(error.text, '\n'))
		fail_msg("'%s' has no '%s'", error.text, words);
}

/* A list in the tree, whose path stays where it is. */
static struct dataset_options listed(const struct tree *tree, const char *text)
{
	static char path[256];

	write_text(tree, "list/classes.txt", text);
	snprintf(path, sizeof(path), "%s/list/classes.txt", tree->root);
	return (struct dataset_options){.classes = path};
}

static void test_hidden(void **state)
{
	const struct dataset_options skip = {.take_hidden = false}, take = {.take_hidden = true};
	struct tree *tree = tree_of(state);

	tree_png(tree, "d/b/1.png", 3, 2);
	tree_png(tree, "d/b/._1.png", 3, 2);
	tree_png(tree, "d/b/.png", 3, 2);
	tree_png(tree, "d/b/.deep/2.png", 3, 2);
	tree_png(tree, "d/.ipynb_checkpoints/1.png", 3, 2);
	tree_png(tree, "d/__MACOSX/b/._1.png", 3, 2);
	write_text(tree, "d/.DS_Store", "x");
	check(tree, "d", &skip, "b (0 empty, 6 hidden) 0:b/1.png ");
	check(tree, "d", &take,
		".ipynb_checkpoints __MACOSX b (0 empty, 0 hidden) 0:.ipynb_checkpoints/1.png "
		"1:__MACOSX/b/._1.png 2:b/._1.png 2:b/.png 2:b/1.png 2:b/.deep/2.png ");
	tree_png(tree, "only/.hidden/1.png", 3, 2);
	refused(tree, "only", &skip, "neither class directories");
	check(tree, "only", &take, ".hidden (0 empty, 0 hidden) 0:.hidden/1.png ");
}

static void test_allow_empty(void **state)
{
	const struct dataset_options strict = {.allow_empty = false}, allow = {.allow_empty = true};
	struct tree *tree = tree_of(state);

	tree_png(tree, "d/b/1.png", 3, 2);
	tree_path(tree, "d/a/deep/");
	write_text(tree, "d/c/readme.txt", "x");
	refused(tree, "d", &strict, "no images in class 'a', 'c'");
	refused(tree, "d", &strict, "allow_empty");
	check(tree, "d", &allow, "a b c (2 empty, 0 hidden) 1:b/1.png ");
	assert_int_equal(unlink(tree_path(tree, "d/b/1.png")), 0);
	refused(tree, "d", &allow, "no images in any class");
}

static void test_listed_folders(void **state)
{
	struct tree *tree = tree_of(state);
	struct dataset_options options = listed(tree, "c\nmissing\na\n");

	tree_png(tree, "d/a/1.png", 3, 2);
	tree_png(tree, "d/c/2.png", 3, 2);
	/* samples stand in ImageFolder's order, with the numbers of the list */
	check(tree, "d", &options, "c missing a (1 empty, 0 hidden) 2:a/1.png 0:c/2.png ");
	tree_path(tree, "d/missing/");
	refused(tree, "d", &options, "no images in class 'missing'");
	options.allow_empty = true;
	check(tree, "d", &options, "c missing a (1 empty, 0 hidden) 2:a/1.png 0:c/2.png ");
	tree_png(tree, "d/odd/3.png", 3, 2);
	refused(tree, "d", &options, "/d/odd: this directory is not in the list of classes");
	listed(tree, "a\na\n");
	refused(tree, "d", &options, "/list/classes.txt: line 2 names a class");
}

static void test_listed_manifests(void **state)
{
	struct tree *tree = tree_of(state);
	struct dataset_options options = listed(tree, "dog\ncat\n7\n");

	tree_png(tree, "a.png", 3, 2);
	write_text(tree, "m.csv", "a.png,cat\na.png,cat\n");
	check(tree, "m.csv", &options, "dog cat 7 (2 empty, 0 hidden) 1:a.png 1:a.png ");
	write_text(tree, "m.csv", "a.png,7\n");
	check(tree, "m.csv", &options, "dog cat 7 (2 empty, 0 hidden) 2:a.png ");
	write_text(tree, "m.csv", "a.png,0\na.png,2\n");
	check(tree, "m.csv", &options, "dog cat 7 (1 empty, 0 hidden) 0:a.png 2:a.png ");
	write_text(tree, "m.csv", "a.png,dog\na.png,cow\na.png,cat\n");
	refused(tree, "m.csv", &options,
		"/m.csv: line 2 has the label 'cow', which is not in the list of classes");
	write_text(tree, "m.csv", "a.png,0\na.png,3\na.png,1\n");
	refused(tree, "m.csv", &options,
		"/m.csv: line 2 has the label 3, but the list has 3 classes, from 0");
	write_text(tree, "m.csv", "a.png,0\na.png,-1\n");
	refused(tree, "m.csv", &options, "line 2 has the label '-1', which is no class");
}

static void test_listed_idx(void **state)
{
	struct tree *tree = tree_of(state);
	struct dataset_options options = listed(tree, "shirt\nboot\n");
	struct error_text error;
	struct index index;

	tree_write(tree, "x-images-idx3-ubyte", "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\1ab", 18);
	tree_write(tree, "x-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\2\1\1", 10);
	assert_int_equal(
		tree_open_with(tree, "x-images-idx3-ubyte", &options, &index, NULL, &error), 0);
	assert_int_equal(index.header->classes, 2);
	assert_int_equal(index.header->empty_classes, 1);
	assert_memory_equal(index.blob + index.classes[1].offset, "boot", 4);
	index_unmap(&index);
	tree_write(tree, "x-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\2\1\2", 10);
	refused(tree, "x-images-idx3-ubyte", &options,
		"/x-images-idx3-ubyte: has the label 2, but the list has 2 classes");
}

/* ---- the options as text ---- */

static void test_options_text(void **state)
{
	static const struct dataset_options rows[] = {
		{.take_hidden = false},
		{.take_hidden = true},
		{.allow_empty = true},
		{.take_hidden = true, .allow_empty = true, .classes = "/a,b/allow_empty,c=d"},
		{.classes = "/"},
	};
	struct dataset_options back;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = dataset_options_dup_text(&rows[i]);

		assert_non_null(text);
		assert_true(dataset_options_parse(text, &back));
		assert_int_equal(back.take_hidden, rows[i].take_hidden);
		assert_int_equal(back.allow_empty, rows[i].allow_empty);
		assert_int_equal(back.classes == NULL, rows[i].classes == NULL);
		if (back.classes)
			assert_string_equal(back.classes, rows[i].classes);
		free(text);
	}
	assert_false(dataset_options_parse("hidden", &back));
	assert_false(dataset_options_parse("take_hidden", &back));
	assert_false(dataset_options_parse("classes=", &back));
	assert_false(dataset_options_parse("classes=relative", &back));
	assert_false(dataset_options_parse("/data", &back));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		tree_test(test_lists),
		tree_test(test_broken_lists),
		tree_test(test_hidden),
		tree_test(test_allow_empty),
		tree_test(test_listed_folders),
		tree_test(test_listed_manifests),
		tree_test(test_listed_idx),
		cmocka_unit_test(test_options_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
