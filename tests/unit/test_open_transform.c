/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/open_transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A Resize, CenterCrop or Pad and what becomes of it. */
struct request {
	char kind; /* R, C or P */
	size_t count;
	uint32_t numbers[5]; /* size or padding */
	uint32_t option;     /* interpolation or padding_mode */
	uint32_t max_size;
	size_t fills;
	uint32_t fill[4];
	const char *refused; /* a part of the sentence, or NULL */
	struct image_op op;
};

/* clang-format off */
static const struct request requests[] = {
	{'R', 1, {256}, 0, 0, 0, {0}, NULL,
		{.kind = IMAGE_OP_RESIZE_SHORTER, .filter = RESAMPLE_BILINEAR, .shorter = 256}},
	{'R', 1, {5}, 1, 6, 0, {0}, NULL, {.kind = IMAGE_OP_RESIZE_SHORTER,
		.filter = RESAMPLE_NEAREST, .shorter = 5, .longer_max = 6}},
	{'R', 2, {65535, 1}, 6, 0, 0, {0}, NULL, {.kind = IMAGE_OP_RESIZE,
		.filter = RESAMPLE_HAMMING, .height = 65535, .width = 1}},
	{'R', 2, {3, 4}, 3, 0, 0, {0}, NULL, {.kind = IMAGE_OP_RESIZE,
		.filter = RESAMPLE_BICUBIC, .height = 3, .width = 4}},
	{'R', 2, {3, 4}, 4, 0, 0, {0}, NULL, {.kind = IMAGE_OP_RESIZE,
		.filter = RESAMPLE_LANCZOS, .height = 3, .width = 4}},
	{'R', 2, {3, 4}, 5, 0, 0, {0}, NULL, {.kind = IMAGE_OP_RESIZE,
		.filter = RESAMPLE_BOX, .height = 3, .width = 4}},
	{'C', 1, {224}, 0, 0, 0, {0}, NULL,
		{.kind = IMAGE_OP_CENTER_CROP, .height = 224, .width = 224}},
	{'C', 2, {3, 4}, 0, 0, 0, {0}, NULL,
		{.kind = IMAGE_OP_CENTER_CROP, .height = 3, .width = 4}},
	{'P', 1, {9}, 0, 0, 0, {0}, NULL, {.kind = IMAGE_OP_PAD, .left = 9, .top = 9, .right = 9,
		.bottom = 9, .mode = WINDOW_CONSTANT}},
	{'P', 2, {0, 2}, 1, 0, 1, {255}, NULL, {.kind = IMAGE_OP_PAD, .left = 0, .top = 2, .right = 0,
		.bottom = 2, .mode = WINDOW_CONSTANT, .fill = {255}}},
	{'P', 4, {1, 2, 3, 65535}, 4, 0, 3, {7, 8, 9}, NULL, {.kind = IMAGE_OP_PAD, .left = 1,
		.top = 2, .right = 3, .bottom = 65535, .mode = WINDOW_SYMMETRIC,
		.fill = {7, 8, 9}}},
	{'P', 1, {0}, 2, 0, 0, {0}, NULL, {.kind = IMAGE_OP_PAD, .mode = WINDOW_EDGE}},
	{'P', 1, {0}, 3, 0, 0, {0}, NULL, {.kind = IMAGE_OP_PAD, .mode = WINDOW_REFLECT}},

	{'R', 0, {0}, 0, 0, 0, {0}, "1 or 2 values", {0}},
	{'R', 3, {1, 2, 3}, 0, 0, 0, {0}, "1 or 2 values", {0}},
	{'R', 1, {0}, 0, 0, 0, {0}, "1 to 65535", {0}},
	{'R', 2, {1, 65536}, 0, 0, 0, {0}, "1 to 65535", {0}},
	{'R', 1, {1}, 7, 0, 0, {0}, "interpolation", {0}},
	{'R', 2, {1, 2}, 0, 5, 0, {0}, "one value of size only", {0}},
	{'R', 1, {5}, 0, 5, 0, {0}, "greater than size", {0}},
	{'R', 1, {5}, 0, 65536, 0, {0}, "at most 65535", {0}},
	{'C', 0, {0}, 0, 0, 0, {0}, "1 or 2 values", {0}},
	{'C', 3, {1, 1, 1}, 0, 0, 0, {0}, "1 or 2 values", {0}},
	{'C', 2, {1, 0}, 0, 0, 0, {0}, "1 to 65535", {0}},
	{'P', 0, {0}, 0, 0, 0, {0}, "1, 2 or 4 values", {0}},
	{'P', 3, {0}, 0, 0, 0, {0}, "1, 2 or 4 values", {0}},
	{'P', 5, {0}, 0, 0, 0, {0}, "1, 2 or 4 values", {0}},
	{'P', 4, {0, 0, 0, 65536}, 0, 0, 0, {0}, "0 to 65535", {0}},
	{'P', 1, {UINT32_MAX}, 0, 0, 0, {0}, "0 to 65535", {0}},
	{'P', 1, {0}, 5, 0, 0, {0}, "padding mode", {0}},
	{'P', 1, {0}, 0, 0, 2, {0}, "1 or 3 values", {0}},
	{'P', 1, {0}, 0, 0, 4, {0}, "1 or 3 values", {0}},
	{'P', 1, {0}, 0, 0, 3, {0, 0, 256}, "0 to 255", {0}},
};
/* clang-format on */

static int parse(
	const struct request *request, struct transform_step *step, struct error_text *error)
{
	struct request copy = *request;
	Stoker__V1__Resize resize = STOKER__V1__RESIZE__INIT;
	Stoker__V1__CenterCrop crop = STOKER__V1__CENTER_CROP__INIT;
	Stoker__V1__Pad pad = STOKER__V1__PAD__INIT;
	Stoker__V1__Transform transform = STOKER__V1__TRANSFORM__INIT;

	resize.size = crop.size = pad.padding = copy.numbers;
	resize.n_size = crop.n_size = pad.n_padding = copy.count;
	resize.interpolation = (Stoker__V1__Interpolation)copy.option;
	resize.max_size = copy.max_size;
	pad.padding_mode = (Stoker__V1__PaddingMode)copy.option;
	pad.fill = copy.fill;
	pad.n_fill = copy.fills;
	if (copy.kind == 'R') {
		transform.transform_case = STOKER__V1__TRANSFORM__TRANSFORM_RESIZE;
		transform.resize = &resize;
	} else if (copy.kind == 'C') {
		transform.transform_case = STOKER__V1__TRANSFORM__TRANSFORM_CENTER_CROP;
		transform.center_crop = &crop;
	} else {
		transform.transform_case = STOKER__V1__TRANSFORM__TRANSFORM_PAD;
		transform.pad = &pad;
	}
	memset(step, 0, sizeof(*step));
	return open_transform_parse(step, &transform, error);
}

static void every_number(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		const struct request *request = &requests[i];
		struct error_text error = {""};
		struct transform_step step;
		uint32_t channels = 3;
		int r = parse(request, &step, &error);

		if (request->refused) {
			if (r != STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST ||
				!strstr(error.text, request->refused))
				fail_msg("request %zu gives %d: %s", i, r, error.text);
			continue;
		}
		if (r != 0 || memcmp(&step.op, &request->op, sizeof(step.op)) != 0)
			fail_msg("request %zu gives %d: %s", i, r, error.text);
		assert_true(image_op_valid(&step.op, &channels));
		assert_int_equal(step.kind, request->kind == 'R'   ? TRANSFORM_RESIZE
					    : request->kind == 'C' ? TRANSFORM_CENTER_CROP
								   : TRANSFORM_PAD);
		if (request->kind == 'P')
			assert_int_equal(step.values, request->fills == 0 ? 1 : request->fills);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
