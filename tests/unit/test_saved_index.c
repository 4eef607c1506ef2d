/* SPDX-License-Identifier: Apache-2.0 */
/* A saved index comes back as it was or not at all, whatever has become of its file. */
#include "daemon/data/memfd.h"
#include "daemon/data/saved_index.h"
#include "tests/unit/tree.h"

#include <time.h>

#include <xxhash.h>

enum { KEY = 77 };

/* A saved data set, and its file as bytes. */
struct saved {
	struct witness_list witnesses;
	struct dataset_result built;
	int fd;
	uint8_t *bytes;
	size_t length;
};

static void set_times(const char *path, time_t when)
{
	const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void make_old(const struct tree *tree)
{
	static const char *const names[] = {
		"a/1.png", "b/2.png", "b/deep/3.png", "a", "b/deep", "b", ""};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		set_times(tree_path(tree, names[i]), 1000000);
}

static void build(struct saved *saved, const struct tree *tree)
{
	struct dataset_request request = {
		.path = tree->root,
		.max_memory = 1 << 20,
		.max_pixels = 1 << 20,
		.witnesses = &saved->witnesses,
	};
	struct error_text error;

	if (dataset_open(&request, &saved->built, &error) != 0)
		fail_msg("%s", error.text);
}

static void save(struct saved *saved, const struct tree *tree)
{
	struct stat st;

	*saved = (struct saved){.witnesses = WITNESS_LIST_NULL, .fd = memfd_new("saved")};
	tree_png(tree, "a/1.png", 3, 4);
	tree_png(tree, "b/2.png", 3, 4);
	tree_png(tree, "b/deep/3.png", 3, 4);
	make_old(tree);
	build(saved, tree);
	/* The root, a, b, b/deep and the first picture. */
	assert_int_equal(saved->witnesses.count, 5);
	assert_false(saved->witnesses.young || saved->witnesses.incomplete);
	assert_int_equal(
		saved_index_write(saved->fd, KEY, &saved->witnesses, saved->built.index_fd), 0);
	assert_int_equal(fstat(saved->fd, &st), 0);
	saved->length = (size_t)st.st_size;
	saved->bytes = malloc(saved->length);
	assert_int_equal(pread(saved->fd, saved->bytes, saved->length, 0), saved->length);
}

static void saved_finish(struct saved *saved)
{
	witness_list_finish(&saved->witnesses);
	close_fd(saved->built.index_fd);
	close_fd(saved->fd);
	free(saved->bytes);
}

/* Read a file of these bytes. */
static int read_back(const void *bytes, size_t length, int *index_fd, struct error_text *why)
{
	_cleanup_fd_ int fd = memfd_new("file");

	*index_fd = -1;
	why->text[0] = '\0';
	assert_int_equal(memfd_append(fd, bytes, length), 0);
	return saved_index_read(fd, KEY, index_fd, why);
}

static void check_unusable(const void *bytes, size_t length, const char *says)
{
	struct error_text why;
	int index_fd, r = read_back(bytes, length, &index_fd, &why);

	assert_int_equal(r, SAVED_UNUSABLE);
	assert_int_equal(index_fd, -1);
	if (strstr(why.text, says) == NULL)
		fail_msg("'%s' has no '%s'", why.text, says);
}

static void it_comes_back_as_it_was(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	struct index before, after;
	struct error_text why;
	struct saved saved;
	int index_fd;

	save(&saved, tree);
	assert_int_equal(read_back(saved.bytes, saved.length, &index_fd, &why), 0);
	assert_int_equal(index_map(&before, saved.built.index_fd, true, NULL), 0);
	assert_int_equal(index_map(&after, index_fd, true, NULL), 0);
	assert_int_equal(before.bytes, after.bytes);
	assert_memory_equal(before.header, after.header, before.bytes);
	assert_int_equal(before.fingerprint, after.fingerprint);
	assert_int_equal(after.header->samples, 3);
	index_unmap(&before);
	index_unmap(&after);
	close(index_fd);
	saved_finish(&saved);
}

static void every_changed_byte_is_noticed(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	struct saved saved;

	save(&saved, tree);
	for (size_t i = 0; i < saved.length; i++) {
		saved.bytes[i] ^= 1 << i % 8;
		check_unusable(saved.bytes, saved.length, "it ");
		saved.bytes[i] ^= 1 << i % 8;
	}
	saved_finish(&saved);
}

static void every_cut_is_noticed(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	uint8_t longer[8192] = {0};
	struct saved saved;

	save(&saved, tree);
	for (size_t i = 0; i < saved.length; i++)
		check_unusable(saved.bytes, i, "it is ");
	assert_in_range(saved.length, 1, sizeof(longer) - 1);
	memcpy(longer, saved.bytes, saved.length);
	check_unusable(longer, saved.length + 1, "damaged");
	memset(longer, 0, sizeof(struct saved_header)); /* its writer has not come to the end */
	check_unusable(longer, saved.length, "not finished");
	saved_finish(&saved);
}

/* Whoever can write there can make the checksums right: then the contents must be harmless. */
static void forged_files_do_no_harm(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	struct saved_header *header;
	size_t mapped = 0, refused = 0;
	struct error_text why;
	struct saved saved;

	save(&saved, tree);
	header = (struct saved_header *)saved.bytes;
	for (size_t i = sizeof(*header); i < saved.length; i++) {
		const uint8_t *body = saved.bytes + sizeof(*header);
		struct index index;
		int index_fd, r;

		saved.bytes[i] ^= 1 << i % 8;
		header->witness_hash = XXH3_64bits(body, header->witness_bytes);
		header->index_hash = XXH3_64bits(body + header->witness_bytes, header->index_bytes);
		header->header_hash =
			XXH3_64bits(header, offsetof(struct saved_header, header_hash));
		r = read_back(saved.bytes, saved.length, &index_fd, &why);
		assert_true(r == 0 || (r == SAVED_UNUSABLE && index_fd < 0));
		if (i < sizeof(*header) + header->witness_bytes)
			assert_int_equal(r, SAVED_UNUSABLE);
		if (r == 0 && index_map(&index, index_fd, true, &why) == 0) {
			mapped++;
			index_unmap(&index);
		} else {
			refused++;
		}
		close_fd(index_fd);
		saved.bytes[i] ^= 1 << i % 8;
	}
	assert_true(mapped > 0 && refused > mapped); /* another letter in a name is no harm */
	saved_finish(&saved);
}

static void another_request_is_told_apart(void **state)
{
	static const char *const roots[] = {"/a", "/b"}, *const other[] = {"/a/", "b"};
	struct dataset_request request = {.path = "/data", .max_pixels = 5};
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	uint64_t key = saved_index_key(&request, roots, 2);
	struct error_text why;
	struct saved saved;
	int index_fd = -1;

	assert_true(key == saved_index_key(&request, roots, 2));
	assert_true(key != saved_index_key(&request, roots, 1));
	assert_true(key != saved_index_key(&request, other, 2));
	request.max_memory = 9; /* has no part in an index that is saved */
	assert_true(key == saved_index_key(&request, roots, 2));
	request.options.take_hidden = true;
	assert_true(key != saved_index_key(&request, roots, 2));
	request.options = (struct dataset_options){.allow_empty = true};
	assert_true(key != saved_index_key(&request, roots, 2));
	request.options = (struct dataset_options){.classes = "/list"};
	assert_true(key != saved_index_key(&request, roots, 2));
	request.options = (struct dataset_options){.classes = NULL};
	request.path = "/dat";
	assert_true(key != saved_index_key(&request, roots, 2));

	save(&saved, tree);
	assert_int_equal(saved_index_read(saved.fd, KEY + 1, &index_fd, &why), SAVED_UNUSABLE);
	assert_non_null(strstr(why.text, "another path or with other options"));
	assert_int_equal(index_fd, -1);
	saved_finish(&saved);
}

static void changes_name_their_place(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	struct saved saved;

	save(&saved, tree);
	tree_png(tree, "b/deep/4.png", 3, 4);
	check_unusable(saved.bytes, saved.length, "b/deep has changed");
	set_times(tree_path(tree, "b/deep"), 1000000); /* the change time tells */
	check_unusable(saved.bytes, saved.length, "b/deep has changed");
	saved_finish(&saved);
}

static void the_first_picture_is_watched(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	struct error_text why;
	struct saved saved;
	int index_fd;

	save(&saved, tree);
	tree_png(tree, "b/2.png", 5, 6);
	assert_int_equal(read_back(saved.bytes, saved.length, &index_fd, &why), 0);
	close(index_fd);
	tree_png(tree, "a/1.png", 5, 6);
	check_unusable(saved.bytes, saved.length, "a/1.png has changed");
	assert_int_equal(unlink(tree_path(tree, "a/1.png")), 0);
	check_unusable(saved.bytes, saved.length, "has changed");
	saved_finish(&saved);
}

static void young_witnesses_are_known(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	struct saved saved = {.witnesses = WITNESS_LIST_NULL};

	tree_png(tree, "a/1.png", 3, 4);
	tree_png(tree, "b/2.png", 3, 4);
	tree_png(tree, "b/deep/3.png", 3, 4);
	make_old(tree);
	set_times(tree_path(tree, "b/deep"), time(NULL) + 100);
	build(&saved, tree);
	assert_true(saved.witnesses.young);
	assert_non_null(strstr(saved.witnesses.last.text, "b/deep"));
	close(saved.built.index_fd);
	witness_list_finish(&saved.witnesses);
}

static void what_was_not_there_is_a_witness(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	struct witness_list list = WITNESS_LIST_NULL;
	struct error_text why;

	witness_add(&list, tree->root, "labels", NULL);
	witness_add(NULL, tree->root, "labels", NULL);
	assert_int_equal(witness_check(list.bytes, list.used, list.count, &why), 0);
	assert_int_equal(witness_check(list.bytes, list.used, 0, &why), WITNESS_BAD);
	assert_int_equal(witness_check(list.bytes, list.used, 2, &why), WITNESS_BAD);
	assert_int_equal(witness_check(list.bytes, list.used - 1, 1, &why), WITNESS_BAD);
	tree_write(tree, "labels", "", 0);
	assert_int_equal(witness_check(list.bytes, list.used, list.count, &why), WITNESS_CHANGED);
	witness_list_finish(&list);
}

static void a_full_disk_is_said(void **state)
{
	const struct tree *tree = &((struct tree_fixture *)*state)->tree;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct saved saved;

	save(&saved, tree);
	assert_int_equal(
		saved_index_write(fd, KEY, &saved.witnesses, saved.built.index_fd), -ENOSPC);
	close(fd);
	saved_finish(&saved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		tree_test(it_comes_back_as_it_was),
		tree_test(every_changed_byte_is_noticed),
		tree_test(every_cut_is_noticed),
		tree_test(forged_files_do_no_harm),
		tree_test(another_request_is_told_apart),
		tree_test(changes_name_their_place),
		tree_test(the_first_picture_is_watched),
		tree_test(young_witnesses_are_known),
		tree_test(what_was_not_there_is_a_witness),
		tree_test(a_full_disk_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
