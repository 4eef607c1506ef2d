/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client_fixture.h"

#include <sys/resource.h>

/* Opening, checking of the shared memory, closing. */

/* Resize(5, 1, 6), CenterCrop((7, 8)), Pad((1, 2), (3, 4, 5), 'edge') */
static void check_geometry(Stoker__V1__Transform *const *transforms)
{
	const Stoker__V1__Resize *resize = transforms[0]->resize;
	const Stoker__V1__CenterCrop *crop = transforms[1]->center_crop;
	const Stoker__V1__Pad *pad = transforms[2]->pad;

	assert_int_equal(transforms[0]->transform_case, STOKER__V1__TRANSFORM__TRANSFORM_RESIZE);
	assert_int_equal(resize->n_size, 1);
	assert_int_equal(resize->size[0], 5);
	assert_int_equal(resize->max_size, 6);
	assert_int_equal(resize->interpolation, STOKER__V1__INTERPOLATION__INTERPOLATION_LANCZOS);
	assert_int_equal(
		transforms[1]->transform_case, STOKER__V1__TRANSFORM__TRANSFORM_CENTER_CROP);
	assert_int_equal(crop->n_size, 2);
	assert_int_equal(crop->size[1], 8);
	assert_int_equal(transforms[2]->transform_case, STOKER__V1__TRANSFORM__TRANSFORM_PAD);
	assert_int_equal(pad->n_padding, 2);
	assert_int_equal(pad->padding[1], 2);
	assert_int_equal(pad->n_fill, 3);
	assert_int_equal(pad->fill[2], 5);
	assert_int_equal(pad->padding_mode, STOKER__V1__PADDING_MODE__PADDING_MODE_EDGE);
}

static void the_request_carries_all_options(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_cursor start = {.epoch = 3, .position = 8, .seed = 7, .fingerprint = 11};
	struct stoker_options options;
	struct stoker_stream *stream;
	Stoker__V1__ClientMessage *message;
	const Stoker__V1__Open *open;

	(void)state;
	stoker_options_init(&options);
	options.dataset = "na\xffme";
	options.transforms = "Grayscale(3), ToTensor(), Normalize((0.5, 0.25, 1), (2,)), "
			     "Resize(5, 1, 6), CenterCrop((7, 8)), Pad((1, 2), (3, 4, 5), 'edge')";
	options.layout = STOKER_NHWC;
	options.shuffle = true;
	options.seed = UINT64_MAX;
	options.rank = 2;
	options.world = 4;
	options.shard_drop = true;
	options.drop_last = true;
	options.first_epoch = 3;
	options.epochs = 9;
	options.depth = 5;
	options.payload = STOKER_INLINE;
	options.start = &start;
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_CURSOR, 1, 0, false);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -ESTALE);

	message = heard(&fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_OPEN);
	open = message->open;
	assert_int_equal(open->request, 1);
	assert_int_equal(open->dataset.len, 5);
	assert_memory_equal(open->dataset.data, "na\xffme", 5);
	assert_int_equal(open->batch_size, 64);
	assert_int_equal(open->n_transforms, 6);
	assert_int_equal(
		open->transforms[0]->transform_case, STOKER__V1__TRANSFORM__TRANSFORM_GRAYSCALE);
	assert_int_equal(open->transforms[0]->grayscale->num_output_channels, 3);
	assert_int_equal(
		open->transforms[1]->transform_case, STOKER__V1__TRANSFORM__TRANSFORM_TO_TENSOR);
	assert_int_equal(open->transforms[2]->normalize->n_mean, 3);
	assert_true(open->transforms[2]->normalize->mean[1] == 0.25f);
	assert_int_equal(open->transforms[2]->normalize->n_std, 3);
	check_geometry(open->transforms + 3);
	assert_int_equal(open->dtype, STOKER__V1__DTYPE__DTYPE_F32);
	assert_int_equal(open->layout, STOKER__V1__LAYOUT__LAYOUT_NHWC);
	assert_true(open->shuffle && open->shard_drop && open->drop_last);
	assert_true(open->seed == UINT64_MAX);
	assert_int_equal(open->rank, 2);
	assert_int_equal(open->world, 4);
	assert_int_equal(open->first_epoch, 3);
	assert_int_equal(open->epochs, 9);
	assert_int_equal(open->depth, 5);
	assert_int_equal(open->payload, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);
	assert_int_equal(open->start->epoch, 3);
	assert_int_equal(open->start->position, 8);
	assert_int_equal(open->start->fingerprint, 11);
	stoker__v1__client_message__free_unpacked(message, NULL);
	fixture_finish(&fixture);
}

static void bad_options_are_not_sent(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_options options = make_options();
	struct stoker_stream *stream;
	char *name = calloc(1, 70000);

	(void)state;
	options.transforms = "ToTensor(), Normalise((0.5,), (0.5,))";
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	message_has(&fixture, "column 13");
	message_has(&fixture, "did you mean Normalize?");

	options = make_options();
	options.dataset = NULL;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	options = make_options();
	options.batch_size = 0;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	options.batch_size = PROTOCOL_BATCH_SIZE_MAX + 1;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	options = make_options();
	options.dtype = (enum stoker_dtype)6;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	options = make_options();
	options.dtype = STOKER_F64;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	message_has(&fixture, "STOKER_ROWS_PARAMETERS");
	options = make_options();
	options.rows = STOKER_ROWS_PARAMETERS;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	options = make_options();
	options.rows = (enum stoker_rows)3;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	options = make_options();
	options.payload = 3;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EINVAL);
	options = make_options();
	options.dataset = memset(name, 'n', 69999);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EMSGSIZE);
	free(name);
	heard_nothing(&fixture);
	fixture_finish(&fixture);
}

static void count_indexing(uint64_t samples, void *data)
{
	uint64_t *seen = data;

	*seen = *seen * 100 + samples;
}

static void indexing_is_told(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_options options = make_options();
	Stoker__V1__Indexing indexing = STOKER__V1__INDEXING__INIT;
	Stoker__V1__Opened opened = make_opened(1, 1, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);
	struct stoker_stream *stream;
	uint64_t seen = 0;

	(void)state;
	indexing.request = 1;
	indexing.samples = 12;
	SAY(&fixture, INDEXING, indexing, &indexing, -1);
	indexing.samples = 34;
	SAY(&fixture, INDEXING, indexing, &indexing, -1);
	indexing.request = 8; /* not ours */
	SAY(&fixture, INDEXING, indexing, &indexing, -1);
	SAY(&fixture, OPENED, opened, &opened, -1);
	options.indexing = count_indexing;
	options.indexing_data = &seen;
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), 0);
	assert_int_equal(seen, 1234);
	fixture_finish(&fixture);
}

static void info_is_complete(void **state)
{
	struct fixture fixture = fixture_create();
	const struct stoker_info *info = stoker_stream_info(open_shared(&fixture, 1, 5));

	(void)state;
	assert_int_equal(info->shape[0], 1);
	assert_int_equal(info->shape[1], 2);
	assert_int_equal(info->shape[2], 3);
	assert_int_equal(info->dtype, STOKER_U8);
	assert_int_equal(info->layout, STOKER_NCHW);
	assert_int_equal(info->payload, STOKER_SHARED);
	assert_int_equal(info->batch_size, BATCH_SIZE);
	assert_int_equal(info->row_bytes, ROW_BYTES);
	assert_int_equal(info->dataset_samples, 40);
	assert_int_equal(info->epoch_samples, 16);
	assert_int_equal(info->epoch_batches, EPOCH_BATCHES);
	assert_int_equal(info->classes, 10);
	assert_int_equal(info->depth, DEPTH);
	assert_true(info->fingerprint == UINT64_C(0xfedcba9876543210));
	assert_non_null(info->arena);
	assert_int_equal(info->arena_bytes, ARENA_BYTES);
	/* no descriptor is kept: the connection's two, and none for the memory */
	assert_int_equal(count_descriptors(), fixture.descriptors + 2);
	fixture_finish(&fixture);
}

/* ---- what must not be believed ---- */

static void refuse(Stoker__V1__Opened *opened, int memory)
{
	struct fixture fixture = fixture_create();
	struct stoker_options options = make_options();
	struct stoker_stream *stream;

	SAY(&fixture, OPENED, opened, opened, memory);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
	assert_null(stream);
	message_has(&fixture, "broke the protocol: the answer to Open has");
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
	fixture_finish(&fixture);
}

static void unsafe_memory_is_refused(void **state)
{
	static const struct {
		size_t size;
		int seals;
	} cases[] = {
		{ARENA_BYTES, 0},
		{ARENA_BYTES, F_SEAL_SHRINK | F_SEAL_GROW},
		{ARENA_BYTES, F_SEAL_SHRINK | F_SEAL_SEAL},
		{ARENA_BYTES, F_SEAL_GROW | F_SEAL_SEAL},
		{ARENA_BYTES - 1, ALL_SEALS},
		{ARENA_BYTES + 1, ALL_SEALS},
		{0, ALL_SEALS},
	};
	Stoker__V1__Opened opened = make_opened(1, 1, STOKER__V1__PAYLOAD__PAYLOAD_SHARED);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = make_arena(cases[i].size, cases[i].seals);

		refuse(&opened, fd);
		close(fd);
	}
	/* no memory at all, and something that is none */
	refuse(&opened, -1);
	refuse(&opened, STDIN_FILENO);
}

static void wrong_geometry_is_refused(void **state)
{
	enum { PAGE = BATCH_ARENA_PAGE };
	int fd = make_arena(ARENA_BYTES, ALL_SEALS);

	(void)state;
#define REFUSE(field, value)                                                                       \
	do {                                                                                       \
		Stoker__V1__Opened opened =                                                        \
			make_opened(1, 1, STOKER__V1__PAYLOAD__PAYLOAD_SHARED);                    \
		opened.field = (value);                                                            \
		refuse(&opened, fd);                                                               \
	} while (0)

	REFUSE(slots, 0);
	REFUSE(slots, SLOTS + 1);
	REFUSE(slots, UINT32_MAX);
	REFUSE(slots_offset, 0);
	REFUSE(slots_offset, PAGE + 8);
	REFUSE(slots_offset, 2 * PAGE);
	REFUSE(slots_offset, UINT64_MAX - PAGE + 1);
	REFUSE(slot_stride, PAGE);
	REFUSE(slot_stride, 0);
	REFUSE(slot_stride, SLOT_STRIDE + 8);
	REFUSE(slot_stride, 3 * PAGE);
	REFUSE(slot_stride, UINT64_MAX - PAGE + 1);
	REFUSE(tensor_offset, 0);
	REFUSE(tensor_offset, PAGE + 64);
	REFUSE(tensor_offset, SLOT_STRIDE);
	REFUSE(tensor_offset, UINT64_MAX - PAGE + 1);
	REFUSE(arena_bytes, ARENA_BYTES - PAGE);
	REFUSE(arena_bytes, UINT64_MAX);
	REFUSE(row_bytes, 0);
	REFUSE(row_bytes, ROW_BYTES + 1);
	REFUSE(row_bytes, UINT64_MAX);
	REFUSE(n_shape, 2);
	REFUSE(n_shape, 4);
	REFUSE(depth, 0);
	REFUSE(depth, PROTOCOL_DEPTH_MAX + 1);
	REFUSE(dtype, STOKER__V1__DTYPE__DTYPE_F32);
	REFUSE(layout, STOKER__V1__LAYOUT__LAYOUT_NHWC);
	REFUSE(payload, STOKER__V1__PAYLOAD__PAYLOAD_UNSPECIFIED);
	close(fd);
}

static void shapes_cannot_overflow(void **state)
{
	static uint32_t huge[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
	Stoker__V1__Opened opened = make_opened(1, 1, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);

	(void)state;
	opened.shape = huge;
	opened.row_bytes = (uint64_t)UINT32_MAX * UINT32_MAX * UINT32_MAX;
	refuse(&opened, -1);
	/* each row fits, the batch does not */
	huge[2] = 1;
	opened.row_bytes = (uint64_t)UINT32_MAX * UINT32_MAX;
	refuse(&opened, -1);
}

/* A row has the size of its dtype, and the dtype is the one asked for. */
static void dtypes_have_sizes(void **state)
{
	static const struct {
		enum stoker_dtype dtype;
		uint64_t bytes;
	} dtypes[] = {{STOKER_U8, 1}, {STOKER_F16, 2}, {STOKER_BF16, 2}, {STOKER_F32, 4},
		{STOKER_F64, 8}};

	(void)state;
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		Stoker__V1__Opened opened = make_opened(1, 1, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);
		struct fixture fixture = fixture_create();
		struct stoker_options options = make_options();
		struct stoker_stream *stream;

		options.dtype = dtypes[i].dtype;
		if (options.dtype == STOKER_F64)
			options.rows = STOKER_ROWS_PARAMETERS;
		opened.dtype = (Stoker__V1__Dtype)options.dtype;
		opened.row_bytes = ROW_BYTES * dtypes[i].bytes;
		SAY(&fixture, OPENED, opened, &opened, -1);
		assert_int_equal(stoker_open(fixture.stoker, &options, &stream), 0);
		assert_int_equal(stoker_stream_info(stream)->dtype, options.dtype);
		assert_int_equal(stoker_stream_info(stream)->row_bytes, opened.row_bytes);
		fixture_finish(&fixture);

		options = make_options();
		options.dtype = STOKER_F16;
		opened.row_bytes += options.dtype == dtypes[i].dtype;
		fixture = fixture_create();
		SAY(&fixture, OPENED, opened, &opened, -1);
		assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
		fixture_finish(&fixture);
	}
}

/* With no descriptor left, the kernel drops the one that comes. */
static void the_descriptor_limit_is_explained(void **state)
{
	struct fixture fixture = fixture_create();
	Stoker__V1__Opened opened = make_opened(1, 1, STOKER__V1__PAYLOAD__PAYLOAD_SHARED);
	struct stoker_options options = make_options();
	int fd = make_arena(ARENA_BYTES, ALL_SEALS), lowest;
	struct stoker_stream *stream;
	struct rlimit before, limit;

	(void)state;
	SAY(&fixture, OPENED, opened, &opened, fd);
	close(fd);
	lowest = dup(STDIN_FILENO);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	message_has(&fixture, "ulimit -n");
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EMFILE);
	fixture_finish(&fixture);
}

/* ---- closing ---- */

static void late_messages_for_a_closed_stream_are_ignored(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_shared(&fixture, 1, 7), *other;
	struct stoker_status *status;
	Stoker__V1__StatusReply reply = STOKER__V1__STATUS_REPLY__INIT;

	(void)state;
	say_batch(&fixture, 7, 0);
	say_batch(&fixture, 7, 1);
	next_batch(stream, 0);
	stoker_close(stream);
	heard_close(&fixture, 2, 7);
	heard_nothing(&fixture);

	say_batch(&fixture, 7, 2); /* was under way */
	say_epoch_end(&fixture, 7, 0, true);
	say_closed(&fixture, 2, 7);
	reply.request = 3;
	SAY(&fixture, STATUS, status, &reply, -1);
	assert_int_equal(stoker_status(fixture.stoker, &status), 0);
	stoker_status_free(status);
	assert_null(fixture.stoker->streams);
	stoker__v1__client_message__free_unpacked(
		heard(&fixture, STOKER__V1__CLIENT_MESSAGE__MESSAGE_STATUS), NULL);

	/* after Closed nothing more may come */
	other = open_inline(&fixture, 4, 8);
	say_batch(&fixture, 7, 3);
	next_is(other, -EBADMSG);
	message_has(&fixture, "stream that is not open");
	fixture_finish(&fixture);
}

static void a_stream_may_end_while_it_is_closed(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_stream *stream = open_inline(&fixture, 1, 7), *other;

	(void)state;
	stoker_close(stream);
	stoker_close(NULL);
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_BAD_SAMPLE, 0, 7, false);
	heard_close(&fixture, 2, 7);
	other = open_inline(&fixture, 3, 8);
	assert_ptr_equal(fixture.stoker->streams, other);
	assert_null(other->next);
	say_closed(&fixture, 2, 7); /* crossed the Error */
	assert_int_equal(client_step(fixture.stoker, 0), 1);
	fixture_finish(&fixture);
}

/* The answer to an Open that nobody waits for any more. */
static void a_late_stream_is_closed(void **state)
{
	struct fixture fixture = fixture_create();
	Stoker__V1__Opened opened = make_opened(77, 9, STOKER__V1__PAYLOAD__PAYLOAD_SHARED);
	struct stoker_stream *stream = open_inline(&fixture, 1, 1);
	int fd = make_arena(ARENA_BYTES, ALL_SEALS);

	(void)state;
	SAY(&fixture, OPENED, opened, &opened, fd);
	close(fd);
	say_batch(&fixture, 9, 0);
	next_is(stream, STOKER_AGAIN);
	heard_close(&fixture, 2, 9);
	fixture_finish(&fixture);
}

static void numbers_of_streams_are_not_reused(void **state)
{
	struct fixture fixture = fixture_create();
	Stoker__V1__Opened opened = make_opened(2, 1, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);
	struct stoker_options options = make_options();
	struct stoker_stream *stream;

	(void)state;
	open_inline(&fixture, 1, 1);
	SAY(&fixture, OPENED, opened, &opened, -1);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
	fixture_finish(&fixture);

	fixture = fixture_create();
	opened.request = 1;
	opened.stream = 0;
	SAY(&fixture, OPENED, opened, &opened, -1);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
	fixture_finish(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_request_carries_all_options),
		cmocka_unit_test(bad_options_are_not_sent),
		cmocka_unit_test(indexing_is_told),
		cmocka_unit_test(info_is_complete),
		cmocka_unit_test(unsafe_memory_is_refused),
		cmocka_unit_test(wrong_geometry_is_refused),
		cmocka_unit_test(shapes_cannot_overflow),
		cmocka_unit_test(dtypes_have_sizes),
		cmocka_unit_test(the_descriptor_limit_is_explained),
		cmocka_unit_test(late_messages_for_a_closed_stream_are_ignored),
		cmocka_unit_test(a_stream_may_end_while_it_is_closed),
		cmocka_unit_test(a_late_stream_is_closed),
		cmocka_unit_test(numbers_of_streams_are_not_reused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
