/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of classes and samples, page by page, and why rows are bad, as libstoker shows them. */
#include "tests/unit/client_fixture.h"

/* ---- what a daemon says ---- */

enum { ENTRIES_MAX = 8 };

struct page {
	Stoker__V1__Classes classes;
	Stoker__V1__Samples samples;
	Stoker__V1__ClassEntry class_entries[ENTRIES_MAX], *class_list[ENTRIES_MAX];
	Stoker__V1__SampleEntry sample_entries[ENTRIES_MAX], *sample_list[ENTRIES_MAX];
	char names[ENTRIES_MAX][16];
};

/* Entries `first` .. `first + count` of `total`, called "n0", "n1", ... */
static void make_page(
	struct page *page, uint32_t request, uint64_t first, size_t count, uint64_t total)
{
	stoker__v1__classes__init(&page->classes);
	stoker__v1__samples__init(&page->samples);
	page->classes.request = page->samples.request = request;
	page->classes.first = (uint32_t)first;
	page->classes.total = (uint32_t)total;
	page->samples.first = first;
	page->samples.total = total;
	page->classes.fingerprint = page->samples.fingerprint = 99;
	for (size_t i = 0; i < count; i++) {
		ProtobufCBinaryData name = {.data = (uint8_t *)page->names[i]};

		name.len = (size_t)snprintf(
			page->names[i], sizeof(page->names[i]), "n%d", (int)(first + i));
		stoker__v1__class_entry__init(&page->class_entries[i]);
		stoker__v1__sample_entry__init(&page->sample_entries[i]);
		page->class_entries[i].name = page->sample_entries[i].path = name;
		page->class_entries[i].samples = 10 * (first + i);
		page->sample_entries[i].sample = first + i;
		page->sample_entries[i].label = (int32_t)(first + i) % 3;
		page->class_list[i] = &page->class_entries[i];
		page->sample_list[i] = &page->sample_entries[i];
	}
	page->classes.n_entry = page->samples.n_entry = count;
	page->classes.entry = page->class_list;
	page->samples.entry = page->sample_list;
}

static void say_classes(
	struct fixture *fixture, uint32_t request, uint64_t first, size_t count, uint64_t total)
{
	struct page page;

	make_page(&page, request, first, count, total);
	SAY(fixture, CLASSES, classes, &page.classes, -1);
}

static void say_samples(
	struct fixture *fixture, uint32_t request, uint64_t first, size_t count, uint64_t total)
{
	struct page page;

	make_page(&page, request, first, count, total);
	SAY(fixture, SAMPLES, samples, &page.samples, -1);
}

static void heard_list_samples(struct fixture *fixture, uint64_t first, uint32_t count)
{
	Stoker__V1__ClientMessage *message =
		heard(fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_LIST_SAMPLES);

	assert_int_equal(message->list_samples->first, first);
	assert_int_equal(message->list_samples->count, count);
	assert_int_equal(message->list_samples->dataset.len, 5);
	stoker__v1__client_message__free_unpacked(message, NULL);
}

/* ---- lists ---- */

static void pages_are_put_together(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_classes *classes;
	struct stoker_samples *samples;

	(void)state;
	say_classes(&fixture, 1, 0, 3, 8);
	say_classes(&fixture, 2, 3, 4, 8);
	say_classes(&fixture, 3, 7, 1, 8);
	assert_int_equal(stoker_classes(fixture.stoker, "train", &classes), 0);
	assert_int_equal(classes->count, 8);
	assert_int_equal(classes->fingerprint, 99);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(classes->list[i].name[1], '0' + i);
		assert_int_equal(classes->list[i].length, 2);
		assert_int_equal(classes->list[i].samples, 10 * i);
	}
	stoker_classes_free(classes);
	for (int i = 0; i < 3; i++)
		stoker__v1__client_message__free_unpacked(
			heard(&fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_LIST_CLASSES), NULL);

	say_samples(&fixture, 4, 5, 2, 20);
	say_samples(&fixture, 5, 7, 1, 20);
	assert_int_equal(stoker_samples(fixture.stoker, "train", 5, 3, &samples), 0);
	assert_int_equal(samples->count, 3);
	assert_int_equal(samples->first, 5);
	assert_int_equal(samples->total, 20);
	assert_int_equal(samples->list[2].index, 7);
	assert_int_equal(samples->list[2].label, 1);
	assert_string_equal(samples->list[2].path, "n7");
	stoker_samples_free(samples);
	heard_list_samples(&fixture, 5, 3);
	heard_list_samples(&fixture, 7, 1);

	say_samples(&fixture, 6, 0, 4, 20); /* one page, as it comes */
	assert_int_equal(stoker_samples(fixture.stoker, "train", 0, 0, &samples), 0);
	assert_int_equal(samples->count, 4);
	stoker_samples_free(samples);
	heard_list_samples(&fixture, 0, 0);

	say_samples(&fixture, 7, 18, 2, 20); /* the end */
	assert_int_equal(stoker_samples(fixture.stoker, "train", 18, 1000, &samples), 0);
	assert_int_equal(samples->count, 2);
	stoker_samples_free(samples);
	say_samples(&fixture, 8, 50, 0, 20); /* behind it */
	assert_int_equal(stoker_samples(fixture.stoker, "train", 50, 7, &samples), 0);
	assert_int_equal(samples->count, 0);
	stoker_samples_free(samples);
	stoker_samples_free(NULL);
	stoker_classes_free(NULL);
	fixture_finish(&fixture);
}

static void impossible_lists_are_refused(void **state)
{
	static const struct {
		uint64_t first;
		size_t count;
		uint64_t total;
	} pages[] = {{1, 2, 8}, {0, 5, 4}, {0, 0, 4}, {0, 4, 8}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fixture fixture = fixture_create();
		struct stoker_classes *classes;

		say_classes(&fixture, 1, pages[i].first, pages[i].count, pages[i].total);
		assert_int_equal(stoker_classes(fixture.stoker, "train", &classes), -EBADMSG);
		assert_null(classes);
		fixture_finish(&fixture);
	}
	for (size_t i = 0; i < 4; i++) { /* the last one has more than was asked for */
		struct fixture fixture = fixture_create();
		struct stoker_samples *samples;

		say_samples(&fixture, 1, pages[i].first, pages[i].count, pages[i].total);
		assert_int_equal(stoker_samples(fixture.stoker, "train", 0, 3, &samples), -EBADMSG);
		assert_null(samples);
		fixture_finish(&fixture);
	}
}

static void a_reload_in_the_middle_is_told(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_classes *classes;
	struct stoker_samples *samples;
	struct page page;

	(void)state;
	say_classes(&fixture, 1, 0, 3, 8);
	make_page(&page, 2, 3, 4, 8);
	page.classes.fingerprint = 100;
	SAY(&fixture, CLASSES, classes, &page.classes, -1);
	assert_int_equal(stoker_classes(fixture.stoker, "train", &classes), -ESTALE);
	message_has(&fixture, "indexed anew");
	say_samples(&fixture, 3, 0, 3, 8);
	make_page(&page, 4, 3, 4, 8);
	page.samples.fingerprint = 100;
	SAY(&fixture, SAMPLES, samples, &page.samples, -1);
	assert_int_equal(stoker_samples(fixture.stoker, "train", 0, 7, &samples), -ESTALE);
	fixture_finish(&fixture);
}

static void refusals_and_late_answers(void **state)
{
	struct fixture fixture = fixture_create();
	Stoker__V1__Indexing indexing = STOKER__V1__INDEXING__INIT;
	struct stoker_classes *classes;
	struct stoker_samples *samples;

	(void)state;
	assert_int_equal(stoker_classes(fixture.stoker, "", &classes), -EINVAL);
	assert_int_equal(stoker_samples(fixture.stoker, NULL, 0, 0, &samples), -EINVAL);
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_UNKNOWN_DATASET, 1, 0, false);
	assert_int_equal(stoker_classes(fixture.stoker, "train", &classes), -ENOENT);
	say_classes(&fixture, 77, 0, 1, 1); /* nobody waits for it */
	indexing.request = 2;
	indexing.samples = 12;
	SAY(&fixture, INDEXING, indexing, &indexing, -1);
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_DATASET, 2, 0, false);
	assert_int_equal(stoker_samples(fixture.stoker, "train", 0, 0, &samples), -ENODATA);
	fixture_finish(&fixture);
}

static void names_are_escaped(void **state)
{
	char *text = stoker_escape("a\n\\\xff\0z", 6);

	(void)state;
	assert_string_equal(text, "a\\x0a\\\\\\xff\\x00z");
	free(text);
}

/* ---- why rows are bad ---- */

struct bad_batch {
	struct inline_batch b;
	Stoker__V1__RowStatus statuses[BATCH_SIZE];
	Stoker__V1__BadRow rows[BATCH_SIZE + 1], *list[BATCH_SIZE + 1];
};

/* Rows 1 and 3 of an inline batch are bad, and explained. */
static void make_bad_batch(struct bad_batch *bad)
{
	make_inline_batch(&bad->b, 7, 0);
	for (int i = 0; i < BATCH_SIZE; i++)
		bad->statuses[i] =
			i % 2 ? STOKER__V1__ROW_STATUS__ROW_MASKED : STOKER__V1__ROW_STATUS__ROW_OK;
	for (int i = 0; i <= BATCH_SIZE; i++) {
		stoker__v1__bad_row__init(&bad->rows[i]);
		bad->rows[i].row = 1 + 2 * (uint32_t)(i % 2);
		bad->rows[i].sample = 50 + (uint64_t)i;
		bad->rows[i].reason = STOKER__V1__BAD_REASON__BAD_PICTURE;
		bad->rows[i].text = (char *)"not\033 PNG";
		bad->list[i] = &bad->rows[i];
	}
	bad->b.m.batch.statuses = bad->statuses;
	bad->b.m.batch.n_statuses = BATCH_SIZE;
	bad->b.m.batch.bad = 2;
	bad->b.m.batch.bad_row = bad->list;
	bad->b.m.batch.n_bad_row = 2;
}

static void bad_rows_are_explained(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_inline(&fixture, 1, 7);
	struct stoker_batch *batch, *good;
	struct bad_batch bad;
	struct inline_batch b;

	(void)state;
	make_bad_batch(&bad);
	SAY(&fixture, BATCH, batch, &bad.b.m.batch, -1);
	make_inline_batch(&b, 7, 1);
	SAY(&fixture, BATCH, batch, &b.m.batch, -1);
	batch = next_batch(stream, 0);
	good = next_batch(stream, 1);
	assert_int_equal(batch->bad_row_count, 2);
	assert_int_equal(batch->bad_rows[1].row, 3);
	assert_int_equal(batch->bad_rows[1].sample, 51);
	assert_string_equal(batch->bad_rows[1].reason, "picture");
	assert_string_equal(batch->bad_rows[1].text, "not? PNG");
	assert_int_equal(good->bad_row_count, 0);
	assert_null(good->bad_rows);
	stoker_release(batch);
	stoker_release(good);
	fixture_finish(&fixture);
}

/* The rows of a shared batch are in the memory, and there they are good. */
static void nothing_is_explained_of_good_rows(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7);
	struct batch_message m;
	struct bad_batch bad;

	(void)state;
	make_bad_batch(&bad);
	make_batch(&m, 7, 0);
	m.batch.bad_row = bad.list;
	m.batch.n_bad_row = 2;
	SAY(&fixture, BATCH, batch, &m.batch, -1);
	assert_null(next_batch(stream, 0)->bad_rows);
	fixture_finish(&fixture);
}

static void impossible_reasons_are_refused(void **state)
{
	(void)state;
	for (int wrong = 0; wrong < 2; wrong++) {
		struct fixture fixture = fixture_create();
		struct stoker_stream *stream = open_inline(&fixture, 1, 7);
		struct bad_batch bad;

		make_bad_batch(&bad);
		if (wrong == 0)
			bad.rows[1].row = BATCH_SIZE;
		else
			bad.b.m.batch.n_bad_row = BATCH_SIZE + 1;
		SAY(&fixture, BATCH, batch, &bad.b.m.batch, -1);
		next_is(stream, -EBADMSG);
		message_has(&fixture, "explains");
		fixture_finish(&fixture);
	}
}

static void digests_have_their_size(void **state)
{
	struct fixture fixture = fixture_create();
	Stoker__V1__Opened opened = make_opened(1, 7, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);
	struct stoker_options options = make_options();
	struct stoker_stream *stream;

	(void)state;
	options.rows = STOKER_ROWS_DIGESTS;
	SAY(&fixture, OPENED, opened, &opened, -1);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
	fixture_finish(&fixture);
	fixture = fixture_create();
	options.rows = (enum stoker_rows)7;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	message_has(&fixture, "rows 7");
	fixture_finish(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_put_together),
		cmocka_unit_test(impossible_lists_are_refused),
		cmocka_unit_test(a_reload_in_the_middle_is_told),
		cmocka_unit_test(refusals_and_late_answers),
		cmocka_unit_test(names_are_escaped),
		cmocka_unit_test(bad_rows_are_explained),
		cmocka_unit_test(nothing_is_explained_of_good_rows),
		cmocka_unit_test(impossible_reasons_are_refused),
		cmocka_unit_test(digests_have_their_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
