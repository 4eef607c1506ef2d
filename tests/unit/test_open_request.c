/* SPDX-License-Identifier: Apache-2.0 */
/* What an Open may ask for: defaults, limits, and a refusal that names what is wrong. */
#include "daemon/image/decode/decode.h"
#include "daemon/serve/open_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static Stoker__V1__Open plain(void)
{
	Stoker__V1__Open open = STOKER__V1__OPEN__INIT;

	open.request = 5;
	open.batch_size = 64;
	return open;
}

static struct open_request parse(const Stoker__V1__Open *open, bool takes_fds)
{
	struct error_text error = {""};
	struct open_request request;

	memset(&request, 0xa5, sizeof(request));
	if (open_request_parse(&request, open, takes_fds, &error) != 0)
		fail_msg("%s", error.text);
	return request;
}

static void check_refused(const Stoker__V1__Open *open, bool takes_fds, const char *what)
{
	struct open_request request;
	struct error_text error = {""};

	assert_int_equal(open_request_parse(&request, open, takes_fds, &error),
		STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST);
	if (strstr(error.text, what) == NULL)
		fail_msg("no \"%s\" in: %s", what, error.text);
}

static void defaults(void **state)
{
	Stoker__V1__Open open = plain();
	struct open_request request = parse(&open, true);

	(void)state;
	assert_int_equal(request.request, 5);
	assert_int_equal(request.step_count, 0);
	assert_int_equal(request.dtype, PIXEL_F32);
	assert_int_equal(request.layout, PIXEL_NCHW);
	assert_int_equal(request.params.batch_size, 64);
	assert_int_equal(request.params.order.world, 1);
	assert_int_equal(request.params.order.rank, 0);
	assert_false(request.params.order.shuffle);
	assert_false(request.params.drop_last);
	assert_int_equal(request.params.epochs, 0);
	assert_int_equal(request.depth, 0);
	assert_false(request.is_inline);
	assert_false(request.has_start);
	assert_true(parse(&open, false).is_inline); /* for want of descriptors */
}

static void everything_is_taken_over(void **state)
{
	Stoker__V1__Cursor start = STOKER__V1__CURSOR__INIT;
	Stoker__V1__Open open = plain();
	Stoker__V1__Decode decode = STOKER__V1__DECODE__INIT;
	struct open_request request;

	(void)state;
	start.epoch = 9;
	start.position = 640;
	open.dtype = STOKER__V1__DTYPE__DTYPE_U8;
	open.layout = STOKER__V1__LAYOUT__LAYOUT_NHWC;
	open.shuffle = true;
	open.seed = UINT64_MAX;
	open.rank = 2;
	open.world = 3;
	open.shard_drop = true;
	open.drop_last = true;
	open.first_epoch = 7;
	open.epochs = 8;
	open.depth = PROTOCOL_DEPTH_MAX;
	open.payload = STOKER__V1__PAYLOAD__PAYLOAD_INLINE;
	open.start = &start;
	open.decode = &decode;
	assert_int_equal(parse(&open, true).decode_flags, 0);
	decode.exif_orientation = true;
	assert_int_equal(parse(&open, true).decode_flags, DECODE_ORIENT);
	decode.exif_orientation = false;
	decode.grey16_clip = true;
	request = parse(&open, true);
	assert_int_equal(request.decode_flags, DECODE_GREY16_CLIP);
	assert_int_equal(request.dtype, PIXEL_U8);
	assert_int_equal(request.layout, PIXEL_NHWC);
	assert_true(request.params.order.shuffle);
	assert_int_equal(request.params.order.seed, UINT64_MAX);
	assert_int_equal(request.params.order.rank, 2);
	assert_int_equal(request.params.order.world, 3);
	assert_true(request.params.order.shard_drop);
	assert_true(request.params.drop_last);
	assert_int_equal(request.params.first_epoch, 7);
	assert_int_equal(request.params.epochs, 8);
	assert_int_equal(request.depth, PROTOCOL_DEPTH_MAX);
	assert_true(request.is_inline);
	assert_true(request.has_start);
	assert_int_equal(request.start.epoch, 9);
	assert_int_equal(request.start.position, 640);
}

static void digests(void **state)
{
	Stoker__V1__Transform transform = STOKER__V1__TRANSFORM__INIT, *transforms = &transform;
	Stoker__V1__Grayscale grayscale = STOKER__V1__GRAYSCALE__INIT;
	Stoker__V1__Open open = plain();

	(void)state;
	assert_int_equal(parse(&open, true).rows, ROW_PIXELS);
	open.rows = STOKER__V1__ROWS__ROWS_DIGESTS;
	assert_int_equal(parse(&open, true).rows, ROW_DIGESTS);
	assert_int_equal(parse(&open, true).dtype, PIXEL_U8);
	open.dtype = STOKER__V1__DTYPE__DTYPE_U8;
	assert_int_equal(parse(&open, true).dtype, PIXEL_U8);
	open.dtype = STOKER__V1__DTYPE__DTYPE_F32;
	check_refused(&open, true, "dtype U8");
	open.dtype = STOKER__V1__DTYPE__DTYPE_U8;
	transform.transform_case = STOKER__V1__TRANSFORM__TRANSFORM_GRAYSCALE;
	transform.grayscale = &grayscale;
	open.transforms = &transforms;
	open.n_transforms = 1;
	check_refused(&open, true, "take no transforms");
	open.n_transforms = 0;
	open.rows = (Stoker__V1__Rows)-1;
	check_refused(&open, true, "rows must be");
}

static void limits(void **state)
{
	Stoker__V1__Open open = plain();

	(void)state;
	open.batch_size = 0;
	check_refused(&open, true, "batch_size 0");
	open.batch_size = PROTOCOL_BATCH_SIZE_MAX + 1;
	check_refused(&open, true, "batch_size 65537");
	open.batch_size = UINT32_MAX;
	check_refused(&open, true, "batch_size 4294967295");
	open.batch_size = PROTOCOL_BATCH_SIZE_MAX;
	assert_int_equal(parse(&open, true).params.batch_size, PROTOCOL_BATCH_SIZE_MAX);
	open = plain();
	open.depth = PROTOCOL_DEPTH_MAX + 1;
	check_refused(&open, true, "depth 257");
	open = plain();
	open.rank = 1;
	check_refused(&open, true, "rank 1 of world 1");
	open.world = UINT32_MAX;
	open.rank = UINT32_MAX;
	check_refused(&open, true, "rank 4294967295");
	open.rank--;
	assert_int_equal(parse(&open, true).params.order.rank, UINT32_MAX - 1);
}

static void epochs_fit_into_64_bits(void **state)
{
	Stoker__V1__Open open = plain();

	(void)state;
	open.first_epoch = UINT64_MAX;
	assert_int_equal(parse(&open, true).params.first_epoch, UINT64_MAX);
	open.epochs = 1;
	check_refused(&open, true, "epochs");
	open.first_epoch--;
	assert_int_equal(parse(&open, true).params.epochs, 1);
	open.epochs = UINT64_MAX;
	check_refused(&open, true, "epochs");
}

static void unknown_values(void **state)
{
	Stoker__V1__Open open = plain();

	(void)state;
	open.on_bad_sample = (Stoker__V1__OnBadSample)3;
	check_refused(&open, true, "on_bad_sample");
	open.on_bad_sample = STOKER__V1__ON_BAD_SAMPLE__ON_BAD_SAMPLE_REPLACE;
	assert_int_equal(parse(&open, true).params.on_bad_sample, BAD_SAMPLE_REPLACE);
	open.on_bad_sample = STOKER__V1__ON_BAD_SAMPLE__ON_BAD_SAMPLE_MASK;
	assert_int_equal(parse(&open, true).params.on_bad_sample, BAD_SAMPLE_MASK);
	open.dtype = (Stoker__V1__Dtype)6;
	check_refused(&open, true, "dtype");
	open.dtype = (Stoker__V1__Dtype)-1;
	check_refused(&open, true, "dtype");
	open = plain();
	open.rows = (Stoker__V1__Rows)3;
	check_refused(&open, true, "rows");
	open = plain();
	open.layout = (Stoker__V1__Layout)3;
	check_refused(&open, true, "layout");
	open = plain();
	open.payload = (Stoker__V1__Payload)3;
	check_refused(&open, true, "payload");
}

/* Parameters are doubles, and nothing else is. */
static void dtypes_and_rows(void **state)
{
	Stoker__V1__Open open = plain();

	(void)state;
	open.dtype = STOKER__V1__DTYPE__DTYPE_F16;
	assert_int_equal(parse(&open, true).dtype, PIXEL_F16);
	open.dtype = STOKER__V1__DTYPE__DTYPE_BF16;
	assert_int_equal(parse(&open, true).dtype, PIXEL_BF16);
	assert_int_equal(parse(&open, true).rows, ROW_PIXELS);
	open.dtype = STOKER__V1__DTYPE__DTYPE_F64;
	check_refused(&open, true, "PARAMETERS");
	open.rows = STOKER__V1__ROWS__ROWS_PARAMETERS;
	assert_int_equal(parse(&open, true).dtype, PIXEL_F64);
	assert_int_equal(parse(&open, true).rows, ROW_PARAMETERS);
	open.dtype = STOKER__V1__DTYPE__DTYPE_UNSPECIFIED;
	assert_int_equal(parse(&open, true).dtype, PIXEL_F64);
	open.dtype = STOKER__V1__DTYPE__DTYPE_F32;
	check_refused(&open, true, "F64");
}

static void shared_payload_needs_descriptors(void **state)
{
	Stoker__V1__Open open = plain();

	(void)state;
	open.payload = STOKER__V1__PAYLOAD__PAYLOAD_SHARED;
	assert_false(parse(&open, true).is_inline);
	check_refused(&open, false, "takes_fds");
}

/* ---- transforms ---- */

struct steps {
	Stoker__V1__Grayscale grayscale;
	Stoker__V1__ToTensor to_tensor;
	Stoker__V1__Normalize normalize;
	Stoker__V1__Transform steps[3];
	Stoker__V1__Transform *list[PROTOCOL_TRANSFORMS_MAX + 1];
	float mean[4], std[4];
};

/* Grayscale(3), ToTensor(), Normalize((...), (...)) with `values` values. */
static void make_steps(struct steps *steps, Stoker__V1__Open *open, size_t values)
{
	*open = plain();
	stoker__v1__grayscale__init(&steps->grayscale);
	stoker__v1__to_tensor__init(&steps->to_tensor);
	stoker__v1__normalize__init(&steps->normalize);
	for (int i = 0; i < 3; i++)
		stoker__v1__transform__init(&steps->steps[i]);
	for (int i = 0; i <= PROTOCOL_TRANSFORMS_MAX; i++)
		steps->list[i] = &steps->steps[i < 3 ? i : 0];
	for (int i = 0; i < 4; i++) {
		steps->mean[i] = 0.25f + (float)i;
		steps->std[i] = 0.5f + (float)i;
	}
	steps->grayscale.num_output_channels = 3;
	steps->normalize.mean = steps->mean;
	steps->normalize.std = steps->std;
	steps->normalize.n_mean = steps->normalize.n_std = values;
	steps->steps[0].transform_case = STOKER__V1__TRANSFORM__TRANSFORM_GRAYSCALE;
	steps->steps[0].grayscale = &steps->grayscale;
	steps->steps[1].transform_case = STOKER__V1__TRANSFORM__TRANSFORM_TO_TENSOR;
	steps->steps[1].to_tensor = &steps->to_tensor;
	steps->steps[2].transform_case = STOKER__V1__TRANSFORM__TRANSFORM_NORMALIZE;
	steps->steps[2].normalize = &steps->normalize;
	open->transforms = steps->list;
	open->n_transforms = 3;
}

static void steps_are_taken_over(void **state)
{
	struct open_request request;
	Stoker__V1__Open open;
	struct steps steps;

	(void)state;
	make_steps(&steps, &open, 3);
	request = parse(&open, true);
	assert_int_equal(request.step_count, 3);
	assert_int_equal(request.steps[0].kind, TRANSFORM_GRAYSCALE);
	assert_int_equal(request.steps[0].channels, 3);
	assert_int_equal(request.steps[1].kind, TRANSFORM_TO_TENSOR);
	assert_int_equal(request.steps[2].kind, TRANSFORM_NORMALIZE);
	assert_int_equal(request.steps[2].values, 3);
	assert_memory_equal(request.steps[2].mean, steps.mean, 3 * sizeof(float));
	assert_memory_equal(request.steps[2].std, steps.std, 3 * sizeof(float));
	make_steps(&steps, &open, 1);
	assert_int_equal(parse(&open, true).steps[2].values, 1);
	steps.grayscale.num_output_channels = 0; /* torchvision's default */
	assert_int_equal(parse(&open, true).steps[0].channels, 1);
}

static void normalize_takes_1_or_3_values(void **state)
{
	static const size_t wrong[] = {0, 2, 4};
	Stoker__V1__Open open;
	struct steps steps;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		make_steps(&steps, &open, wrong[i]);
		check_refused(&open, true, "Normalize");
	}
	make_steps(&steps, &open, 3);
	steps.normalize.n_std = 1;
	check_refused(&open, true, "different lengths");
}

static void too_many_steps(void **state)
{
	Stoker__V1__Open open;
	struct steps steps;

	(void)state;
	make_steps(&steps, &open, 3);
	open.n_transforms = PROTOCOL_TRANSFORMS_MAX;
	assert_int_equal(parse(&open, true).step_count, PROTOCOL_TRANSFORMS_MAX);
	open.n_transforms++;
	check_refused(&open, true, "33 transforms");
}

static void a_step_of_a_later_version(void **state)
{
	Stoker__V1__Open open;
	struct steps steps;

	(void)state;
	make_steps(&steps, &open, 3);
	stoker__v1__transform__init(&steps.steps[1]);
	check_refused(&open, true, "older than the client");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(everything_is_taken_over),
		cmocka_unit_test(digests),
		cmocka_unit_test(limits),
		cmocka_unit_test(epochs_fit_into_64_bits),
		cmocka_unit_test(unknown_values),
		cmocka_unit_test(dtypes_and_rows),
		cmocka_unit_test(shared_payload_needs_descriptors),
		cmocka_unit_test(steps_are_taken_over),
		cmocka_unit_test(normalize_takes_1_or_3_values),
		cmocka_unit_test(too_many_steps),
		cmocka_unit_test(a_step_of_a_later_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
