/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests: what they say is what the index says, and each way of being broken has its line. */
#include "tree.h"

#include <stdlib.h>

static void write_text(const struct tree *tree, const char *name, const char *text)
{
	tree_write(tree, name, text, strlen(text));
}

/* "LABEL:PATH " for each sample. */
static void assert_samples(const struct tree *tree, const char *name, const char *expected)
{
	struct error_text error;
	struct index index;
	char text[1024];

	if (tree_open(tree, name, &index, NULL, &error) != 0)
		fail_msg("%s", error.text);
	assert_int_equal(index.header->kind, INDEX_MANIFEST);
	assert_int_equal(index.header->channels, 3);
	tree_print_samples(&index, text, sizeof(text));
	assert_string_equal(text, expected);
	index_unmap(&index);
}

static void assert_manifest(const struct tree *tree, const char *text, const char *expected)
{
	write_text(tree, "m.csv", text);
	assert_samples(tree, "m.csv", expected);
}

static void assert_broken(const struct tree *tree, const char *text, const char *word)
{
	write_text(tree, "m.csv", text);
	tree_refused(tree, "m.csv", "m.csv", word, NULL);
}

static struct tree *pictures(void **state)
{
	struct tree_fixture *fixture = *state;

	tree_png(&fixture->tree, "a.png", 5, 4);
	tree_png(&fixture->tree, "sub/b.png", 5, 4);
	tree_png(&fixture->tree, "x, \"y\"\n.png", 5, 4);
	return &fixture->tree;
}

static void test_columns(void **state)
{
	const struct tree *tree = pictures(state);

	assert_manifest(tree, "a.png,1\nsub/b.png,0\n", "1:a.png 0:sub/b.png ");
	assert_manifest(tree, "path,label\na.png,0\n", "0:a.png ");
	assert_manifest(tree, "id,Target,extra,FileName\n7,0,,a.png\n8,1,,sub/b.png",
		"0:a.png 1:sub/b.png ");
	/* Without known names the first two columns count, and the first line too. */
	assert_manifest(tree, "a.png,0,9\nsub/b.png,1,8\n", "0:a.png 1:sub/b.png ");
	/* Where both "image" and "path" stand, "path" is meant; a sample may be called like a title. */
	assert_manifest(tree, "image,path,class\n9,a.png,0\n", "0:a.png ");
	assert_manifest(tree, "a.png,label\nsub/b.png,target\n", "0:a.png 1:sub/b.png ");
	/* Files need no ending. */
	tree_png(tree, "bare", 5, 4);
	assert_manifest(tree, "bare,0\nbare,1\n", "0:bare 1:bare ");
}

static void test_text_forms(void **state)
{
	const struct tree *tree = pictures(state);

	assert_manifest(tree, "\xef\xbb\xbfpath,label\r\na.png,0\r\n", "0:a.png ");
	assert_manifest(tree, "\xef\xbb\xbf\"path\",\"label\"\r\n\r\n\"a.png\",\"0\"", "0:a.png ");
	assert_manifest(tree, "a.png,0\rsub/b.png,1\r", "0:a.png 1:sub/b.png ");
	assert_manifest(
		tree, "a.png, 0 \n\"x, \"\"y\"\"\n.png\",\t1\n\n\n", "0:a.png 1:x, \"y\"\n.png ");
	write_text(tree, "m.TSV", "label\tfile\n0\ta.png\n1\tx,y.png\n");
	assert_samples(tree, "m.TSV", "0:a.png 1:x,y.png ");
}

static void test_labels(void **state)
{
	const struct tree *tree = pictures(state);
	struct error_text error;
	struct index index;

	assert_manifest(tree, "a.png,dog\na.png,cat\na.png,dog\na.png,\xc3\xa4\na.png,Z\n",
		"2:a.png 1:a.png 2:a.png 3:a.png 0:a.png ");
	assert_manifest(tree, "a.png,10\na.png,2\na.png,x\n", "0:a.png 1:a.png 2:a.png ");
	assert_manifest(tree, "a.png,01\na.png,0\na.png,1\n", "1:a.png 0:a.png 1:a.png ");
	assert_int_equal(tree_open(tree, "m.csv", &index, NULL, &error), 0);
	assert_int_equal(index.header->classes, 2);
	assert_memory_equal(index.blob + index.classes[1].offset, "1", 1);
	index_unmap(&index);

	/* Numbers are classes as they are, whichever of them occur. */
	assert_manifest(tree, "a.png,3\na.png,1\n", "3:a.png 1:a.png ");
	assert_int_equal(tree_open(tree, "m.csv", &index, NULL, &error), 0);
	assert_int_equal(index.header->classes, 4);
	assert_int_equal(index.header->empty_classes, 2);
	assert_memory_equal(index.blob + index.classes[2].offset, "2", 1);
	index_unmap(&index);
	assert_manifest(tree, "a.png,0\na.png,999999\n", "0:a.png 999999:a.png ");

	assert_broken(tree, "a.png,0\n\na.png,1000000\n", "line 3 has the label '1000000', which");
	assert_broken(tree, "a.png,0\na.png,-1\n", "line 2 has the label '-1', which is no class");
	assert_broken(tree, "a.png,0.0\na.png,1.0\n", "line 1 has the label '0.0', which is no");
	assert_broken(tree, "a.png,99999999999999999999\n", "which is no class");
}

/* More labels than the table of them starts with. */
static void test_many_labels(void **state)
{
	enum { LABELS = 5000 };
	const struct tree *tree = pictures(state);
	char *text = malloc(LABELS * 32);
	struct error_text error;
	struct index index;
	size_t used = 0;

	assert_non_null(text);
	for (int i = 0; i < 2 * LABELS; i++)
		used += (size_t)sprintf(text + used, "a.png,n%04d\n", (i * 7919) % LABELS);
	tree_write(tree, "m.csv", text, used);
	free(text);
	assert_int_equal(tree_open(tree, "m.csv", &index, NULL, &error), 0);
	assert_int_equal(index.header->classes, LABELS);
	for (int i = 0; i < 2 * LABELS; i++)
		assert_int_equal(index.samples[i].label, (i * 7919) % LABELS);
	index_unmap(&index);
}

static void test_places(void **state)
{
	const struct tree *tree = pictures(state);
	char text[256], name[256], expected[256];
	struct error_text error;
	struct index index;

	snprintf(text, sizeof(text), "%s/a.png,0\n../a.png,1\n./b.png,2\n", tree->root);
	write_text(tree, "sub/m.csv", text);
	snprintf(expected, sizeof(expected), "0:%s/a.png 1:../a.png 2:./b.png ", tree->root);
	assert_samples(tree, "sub/m.csv", expected);
	assert_int_equal(tree_open(tree, "sub/m.csv", &index, NULL, &error), 0);
	assert_int_equal(index.header->width, 5);
	assert_int_equal(index.header->height, 4);
	index_describe(&index, 0, name, sizeof(name));
	snprintf(expected, sizeof(expected), "%s/a.png", tree->root);
	assert_string_equal(name, expected);
	index_describe(&index, 1, name, sizeof(name));
	snprintf(expected, sizeof(expected), "%s/sub/../a.png", tree->root);
	assert_string_equal(name, expected);
	index_unmap(&index);
	write_text(tree, "m.csv", "/nothing.png,0\n");
	tree_unreadable(tree, "m.csv", "/nothing.png: No such file", NULL);
}

static void test_broken(void **state)
{
	const struct tree *tree = pictures(state);
	char long_line[5000];

	assert_broken(tree, "", "names no samples");
	assert_broken(tree, "\xef\xbb\xbf\n\n", "names no samples");
	assert_broken(tree, "path,label\n", "names no samples");
	assert_broken(tree, "a.png\n", "line 1 has one field");
	assert_broken(tree, "a.png;0\n", "line 1 has one field");
	assert_broken(tree, "a.png,0\n\nsub/b.png\n", "line 3 has another number");
	assert_broken(tree, "a.png,0\nx,y.png,1\n", "line 2 has another number");
	assert_broken(tree, "a.png,0\n,1\n", "line 2 has an empty path");
	assert_broken(tree, "a.png,0\na.png, \n", "line 2 has no label");
	assert_broken(tree, "a.png,0\n\"a\n\n.png,1\nx", "line 2 opens a quote");
	assert_broken(tree, "a.png,0\n\"a\".png,1\n", "line 2 has text behind");
	assert_broken(tree, "path,name\na.png,0\n", "line 1 names a column of paths");
	assert_broken(tree, "name,label\na.png,0\n", "line 1 names a column of labels");
	assert_broken(tree, "id,breed\na.png,0\n", "line 1 names no image");
	assert_broken(tree, "\xff\xfe\x61", "is UTF-16");
	assert_broken(tree, "\x1f\x8b\x08", "is compressed");
	memset(long_line, 'x', sizeof(long_line));
	memcpy(long_line + 4200, ",0\n", 4);
	assert_broken(tree, long_line, "line 1 has a path of more than 4095");
	memset(long_line, 'x', sizeof(long_line));
	memcpy(long_line, "a.png,", 6);
	memcpy(long_line + 1100, "\n", 2);
	assert_broken(tree, long_line, "line 1 has a label of more than 1024");
	tree_write(tree, "m.csv", "a.png,0\na\0,1\n", 13);
	tree_refused(tree, "m.csv", "line 2 has a NUL byte", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		tree_test(test_columns),
		tree_test(test_text_forms),
		tree_test(test_labels),
		tree_test(test_many_labels),
		tree_test(test_places),
		tree_test(test_broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
