/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_message.h"
#include "daemon/serve/open_transform.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* ---- from a text to what is drawn from ---- */

/* clang-format off */
static const struct {
	const char *text;
	uint32_t values; /* of fill */
	struct random_op random;
} accepted[] = {
	{"RandomCrop(32)", 1,
	 {.kind = RANDOM_CROP, .width = 32, .height = 32, .mode = WINDOW_CONSTANT}},
	{"RandomCrop((8, 9), 4, True, (1, 2, 3), 'symmetric')", 3,
	 {.kind = RANDOM_CROP, .width = 9, .height = 8, .left = 4, .top = 4, .right = 4, .bottom = 4,
	  .pad_if_needed = 1, .mode = WINDOW_SYMMETRIC, .fill = {1, 2, 3}}},
	{"RandomCrop(8, (1, 2), fill=7, padding_mode='edge')", 1,
	 {.kind = RANDOM_CROP, .width = 8, .height = 8, .left = 1, .top = 2, .right = 1, .bottom = 2,
	  .mode = WINDOW_EDGE, .fill = {7}}},
	{"RandomCrop(8, (1, 2, 3, 4), padding_mode='reflect')", 1,
	 {.kind = RANDOM_CROP, .width = 8, .height = 8, .left = 1, .top = 2, .right = 3, .bottom = 4,
	  .mode = WINDOW_REFLECT}},
	{"RandomResizedCrop((8, 9))", 0,
	 {.kind = RANDOM_RESIZED_CROP, .width = 9, .height = 8, .filter = RESAMPLE_BILINEAR,
	  .scale = {0.08, 1}, .ratio = {3. / 4, 4. / 3}}},
	{"RandomResizedCrop(8, (0.25, 2), (1/3, 3), Image.HAMMING)", 0,
	 {.kind = RANDOM_RESIZED_CROP, .width = 8, .height = 8, .filter = RESAMPLE_HAMMING,
	  .scale = {0.25, 2}, .ratio = {1. / 3, 3}}},
	{"RandomHorizontalFlip(), ", 0, {.kind = RANDOM_FLIP_HORIZONTAL, .p = 0.5}},
	{"RandomVerticalFlip(0.25), ", 0, {.kind = RANDOM_FLIP_VERTICAL, .p = 0.25}},
	{"RandomGrayscale()", 0, {.kind = RANDOM_GREY, .p = 0.1}},
	{"RandomRotation(15)", 1,
	 {.kind = RANDOM_ROTATION, .filter = RESAMPLE_NEAREST, .degrees = {-15, 15}}},
	{"RandomRotation((-1, 2.5), Image.BICUBIC, True, (3, -4.5), (9, 8, 7))", 3,
	 {.kind = RANDOM_ROTATION, .filter = RESAMPLE_BICUBIC, .degrees = {-1, 2.5}, .expand = 1,
	  .has_centre = 1, .centre_x = 3, .centre_y = -4.5, .fill = {9, 8, 7}}},
	{"RandomAffine(0)", 1,
	 {.kind = RANDOM_AFFINE, .filter = RESAMPLE_NEAREST, .scale = {1, 1}}},
	{"RandomAffine((1, 2), (0.5, 0.25), (0.5, 2), 10, Image.BILINEAR, 255, (0, 0))", 1,
	 {.kind = RANDOM_AFFINE, .filter = RESAMPLE_BILINEAR, .degrees = {1, 2},
	  .translate = {0.5, 0.25}, .scale = {0.5, 2}, .shear_x = {-10, 10}, .fill = {255},
	  .has_centre = 1}},
	{"RandomAffine(5, shear=(1, 2, -4, -3))", 1,
	 {.kind = RANDOM_AFFINE, .filter = RESAMPLE_NEAREST, .degrees = {-5, 5}, .scale = {1, 1},
	  .shear_x = {1, 2}, .shear_y = {-4, -3}}},
	{"ColorJitter()", 0,
	 {.kind = RANDOM_COLOUR_JITTER, .brightness = {1, 1}, .contrast = {1, 1},
	  .saturation = {1, 1}}},
	{"ColorJitter(0.25, 2, (0.5, 3), 0.5)", 0,
	 {.kind = RANDOM_COLOUR_JITTER, .jitter = 15, .brightness = {0.75, 1.25},
	  .contrast = {0, 3}, .saturation = {0.5, 3}, .hue = {-0.5, 0.5}}},
	{"ColorJitter(contrast=1, hue=(0.25, 0.5))", 0,
	 {.kind = RANDOM_COLOUR_JITTER, .jitter = JITTER_CONTRAST | JITTER_HUE,
	  .brightness = {1, 1}, .contrast = {0, 2}, .saturation = {1, 1}, .hue = {0.25, 0.5}}},
	{"GaussianBlur((5, 7))", 0,
	 {.kind = RANDOM_BLUR, .kernel_width = 5, .kernel_height = 7, .sigma = {0.1, 2}}},
	{"GaussianBlur(255, 0.5)", 0,
	 {.kind = RANDOM_BLUR, .kernel_width = 255, .kernel_height = 255, .sigma = {0.5, 0.5}}},
	{"RandomErasing()", 0,
	 {.kind = RANDOM_ERASING, .p = 0.5, .scale = {0.02, 0.33}, .ratio = {0.3, 3.3},
	  .values = 1}},
	{"RandomErasing(1, (0, 1), (1, 1), (1, -2, 0.1))", 0,
	 {.kind = RANDOM_ERASING, .p = 1, .scale = {0, 1}, .ratio = {1, 1}, .values = 3,
	  .value = {1, -2, 0.1}}},
	{"RandomErasing(value='random')", 0,
	 {.kind = RANDOM_ERASING, .p = 0.5, .scale = {0.02, 0.33}, .ratio = {0.3, 3.3}, .values = 1,
	  .random_value = 1}},
};

/* ---- what no parser of ours sends ---- */

#define DOUBLES(name, ...)                                                                         \
	.name = (double[]){__VA_ARGS__}, .n_##name = sizeof((double[]){__VA_ARGS__}) / sizeof(double)
#define NUMBERS(name, ...)                                                                         \
	.name = (uint32_t[]){__VA_ARGS__},                                                         \
	.n_##name = sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define TRANSFORM(NAME, member, Type, ...)                                                         \
	{.transform_case = STOKER__V1__TRANSFORM__TRANSFORM_##NAME,                                \
	 .member = &(Stoker__V1__##Type){__VA_ARGS__}}
#define CROP(...)         TRANSFORM(RANDOM_CROP, random_crop, RandomCrop, __VA_ARGS__)
#define RESIZED_CROP(...)                                                                          \
	TRANSFORM(RANDOM_RESIZED_CROP, random_resized_crop, RandomResizedCrop, NUMBERS(size, 8),   \
		__VA_ARGS__)
#define ROTATION(...)     TRANSFORM(RANDOM_ROTATION, random_rotation, RandomRotation, __VA_ARGS__)
#define AFFINE(...)                                                                                \
	TRANSFORM(RANDOM_AFFINE, random_affine, RandomAffine, DOUBLES(degrees, 0, 0), __VA_ARGS__)
#define JITTER(...)       TRANSFORM(COLOR_JITTER, color_jitter, ColorJitter, __VA_ARGS__)
#define BLUR(...)         TRANSFORM(GAUSSIAN_BLUR, gaussian_blur, GaussianBlur, __VA_ARGS__)
#define ERASING(...)      TRANSFORM(RANDOM_ERASING, random_erasing, RandomErasing, __VA_ARGS__)
#define CONVERT(...)                                                                               \
	TRANSFORM(CONVERT_IMAGE_DTYPE, convert_image_dtype, ConvertImageDtype, __VA_ARGS__)

static const struct {
	const char *words;
	Stoker__V1__Transform transform;
} refused[] = {
	{"RandomCrop: size takes 1 or 2 values", CROP(.n_size = 0)},
	{"RandomCrop: size takes 1 or 2 values", CROP(NUMBERS(size, 1, 2, 3))},
	{"RandomCrop: size must be 1 to 65535", CROP(NUMBERS(size, 1, 0))},
	{"RandomCrop: size must be 1 to 65535", CROP(NUMBERS(size, 65536))},
	{"RandomCrop: padding takes", CROP(NUMBERS(size, 1), NUMBERS(padding, 1, 2, 3))},
	{"RandomCrop: padding takes", CROP(NUMBERS(size, 1), NUMBERS(padding, 1, 2, 3, 4, 5))},
	{"RandomCrop: padding must", CROP(NUMBERS(size, 1), NUMBERS(padding, UINT32_MAX))},
	{"RandomCrop: fill takes", CROP(NUMBERS(size, 1), NUMBERS(fill, 1, 2))},
	{"RandomCrop: fill takes", CROP(NUMBERS(size, 1), NUMBERS(fill, 1, 2, 3, 4, 5, 6))},
	{"RandomCrop: fill must", CROP(NUMBERS(size, 1), NUMBERS(fill, 1, 2, 256))},
	{"RandomCrop: unknown padding mode", CROP(NUMBERS(size, 1), .padding_mode = 5)},
	{"RandomResizedCrop: scale takes 2 values", RESIZED_CROP(DOUBLES(scale, 1))},
	{"RandomResizedCrop: scale takes 2 values", RESIZED_CROP(DOUBLES(scale, 1, 2, 3))},
	{"RandomResizedCrop: scale must be 0 to 1e+06", RESIZED_CROP(DOUBLES(scale, -1e-9, 1))},
	{"RandomResizedCrop: scale must be", RESIZED_CROP(DOUBLES(scale, 0, INFINITY))},
	{"RandomResizedCrop: scale must be", RESIZED_CROP(DOUBLES(scale, NAN, 1))},
	{"RandomResizedCrop: scale takes the least", RESIZED_CROP(DOUBLES(scale, 1, 0.5))},
	{"RandomResizedCrop: ratio must be", RESIZED_CROP(DOUBLES(ratio, 0, 1))},
	{"RandomResizedCrop: ratio must be", RESIZED_CROP(DOUBLES(ratio, 1, NAN))},
	{"RandomResizedCrop: unknown interpolation", RESIZED_CROP(.interpolation = 7)},
	{"RandomHorizontalFlip: p must be 0 to 1",
	 TRANSFORM(RANDOM_HORIZONTAL_FLIP, random_horizontal_flip, RandomHorizontalFlip, .p = 1.1)},
	{"RandomVerticalFlip: p must be 0 to 1",
	 TRANSFORM(RANDOM_VERTICAL_FLIP, random_vertical_flip, RandomVerticalFlip, .p = -0.1)},
	{"RandomGrayscale: p must be 0 to 1",
	 TRANSFORM(RANDOM_GRAYSCALE, random_grayscale, RandomGrayscale, .p = NAN)},
	{"RandomRotation: degrees takes 2", ROTATION(.expand = 1)},
	{"RandomRotation: degrees takes 2", ROTATION(DOUBLES(degrees, 1))},
	{"RandomRotation: degrees takes the least", ROTATION(DOUBLES(degrees, 1, -1))},
	{"RandomRotation: degrees must be", ROTATION(DOUBLES(degrees, 0, 1.1e6))},
	{"NEAREST, BILINEAR or BICUBIC", ROTATION(DOUBLES(degrees, 0, 0), .interpolation = 4)},
	{"unknown interpolation", ROTATION(DOUBLES(degrees, 0, 0), .interpolation = -1)},
	{"RandomRotation: center takes", ROTATION(DOUBLES(degrees, 0, 0), DOUBLES(center, 1))},
	{"center must be", ROTATION(DOUBLES(degrees, 0, 0), DOUBLES(center, 1, -INFINITY))},
	{"RandomRotation: fill must", ROTATION(DOUBLES(degrees, 0, 0), NUMBERS(fill, 300))},
	{"RandomAffine: degrees takes", TRANSFORM(RANDOM_AFFINE, random_affine, RandomAffine,
	 .n_degrees = 0)},
	{"RandomAffine: translate takes 2", AFFINE(DOUBLES(translate, 0.5))},
	{"RandomAffine: translate must be 0 to 1", AFFINE(DOUBLES(translate, 0.5, 1.5))},
	{"RandomAffine: translate must be", AFFINE(DOUBLES(translate, NAN, 0))},
	{"RandomAffine: scale must be", AFFINE(DOUBLES(scale, 0, 1))},
	{"RandomAffine: scale takes the least", AFFINE(DOUBLES(scale, 2, 1))},
	{"RandomAffine: shear takes 2 or 4", AFFINE(DOUBLES(shear, 1, 2, 3))},
	{"RandomAffine: shear takes the least", AFFINE(DOUBLES(shear, 1, 2, 4, 3))},
	{"RandomAffine: shear must be", AFFINE(DOUBLES(shear, 1, 2, 3, 1e7))},
	{"RandomAffine: interpolation must be", AFFINE(.interpolation = 6)},
	{"RandomAffine: center takes", AFFINE(DOUBLES(center, 1, 2, 3))},
	{"RandomAffine: fill takes", AFFINE(NUMBERS(fill, 1, 2, 3, 4))},
	{"ColorJitter: brightness must be", JITTER(DOUBLES(brightness, -1, 1))},
	{"ColorJitter: contrast takes 2", JITTER(DOUBLES(contrast, 1))},
	{"ColorJitter: saturation takes the least", JITTER(DOUBLES(saturation, 2, 1))},
	{"ColorJitter: hue must be -0.5 to 0.5", JITTER(DOUBLES(hue, -0.6, 0))},
	{"ColorJitter: hue must be -0.5 to 0.5", JITTER(DOUBLES(hue, 0, NAN))},
	{"GaussianBlur: kernel_size takes", BLUR(.n_kernel_size = 0)},
	{"GaussianBlur: kernel_size takes", BLUR(NUMBERS(kernel_size, 1, 3, 5))},
	{"GaussianBlur: kernel_size must be odd", BLUR(NUMBERS(kernel_size, 3, 4))},
	{"GaussianBlur: kernel_size must be odd", BLUR(NUMBERS(kernel_size, 257))},
	{"GaussianBlur: kernel_size must be odd", BLUR(NUMBERS(kernel_size, 0))},
	{"GaussianBlur: sigma must be", BLUR(NUMBERS(kernel_size, 3), DOUBLES(sigma, 0, 1))},
	{"GaussianBlur: sigma takes the", BLUR(NUMBERS(kernel_size, 3), DOUBLES(sigma, 2, 1))},
	{"RandomErasing: p must be 0 to 1", ERASING(.p = 2)},
	{"RandomErasing: scale must be 0 to 1", ERASING(DOUBLES(scale, 0.5, 1.5))},
	{"RandomErasing: ratio must be", ERASING(DOUBLES(ratio, -1, 1))},
	{"RandomErasing: value takes 1 or 3", ERASING(DOUBLES(value, 1, 2))},
	{"RandomErasing: value takes 1 or 3", ERASING(DOUBLES(value, 1, 2, 3, 4))},
	{"RandomErasing: value must be a number", ERASING(DOUBLES(value, 1e39))},
	{"RandomErasing: value must be a number", ERASING(DOUBLES(value, NAN))},
	{"exclude each other", ERASING(DOUBLES(value, 1), .random_value = 1)},
	{"ConvertImageDtype: dtype must be U8", CONVERT(.dtype = 0)},
	{"ConvertImageDtype: dtype must be U8", CONVERT(.dtype = STOKER__V1__DTYPE__DTYPE_F64)},
	{"is it older than the client?", {.transform_case = 0}},
	{"is it older than the client?", {.transform_case = 99}},
};
/* clang-format on */

/* Parse, pack, unpack and check, as if it came over the socket. */
static void serve(const char *text, struct transform_step *step)
{
	static struct transform_text pipeline;
	static struct transform_messages messages;
	struct error_text error = {""};
	Stoker__V1__Transform *received;
	uint8_t packed[512];
	size_t length;

	if (transform_text_parse(&pipeline, text) != 0)
		fail_msg("%s", pipeline.error);
	assert_int_equal(pipeline.count, 1);
	transform_messages_fill(&messages, &pipeline);
	length = stoker__v1__transform__get_packed_size(messages.pointers[0]);
	assert_true(length <= sizeof(packed));
	stoker__v1__transform__pack(messages.pointers[0], packed);
	received = stoker__v1__transform__unpack(NULL, length, packed);
	assert_non_null(received);
	memset(step, 0, sizeof(*step));
	if (open_transform_parse(step, received, &error) != 0)
		fail_msg("%s: %s", text, error.text);
	stoker__v1__transform__free_unpacked(received, NULL);
}

static void texts_arrive_as_ranges(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		struct transform_step step;
		struct random_op *random = &step.random;

		serve(accepted[i].text, &step);
		assert_int_equal(step.kind, TRANSFORM_RANDOM);
		assert_int_equal(step.values, accepted[i].values);
		/* -0 is as good as 0 */
		random->degrees[0] += 0.0;
		if (memcmp(random, &accepted[i].random, sizeof(*random)) != 0)
			fail_msg("%s arrives as something else", accepted[i].text);
	}
}

static void the_new_steps_without_chance_arrive(void **state)
{
	static const struct {
		const char *text;
		enum pixel_dtype dtype;
	} conversions[] = {
		{"ConvertImageDtype(torch.uint8)", PIXEL_U8},
		{"ConvertImageDtype(torch.float16)", PIXEL_F16},
		{"ConvertImageDtype(torch.bfloat16)", PIXEL_BF16},
		{"ConvertImageDtype(torch.float32)", PIXEL_F32},
	};
	struct transform_step step;

	(void)state;
	for (size_t i = 0; i < sizeof(conversions) / sizeof(conversions[0]); i++) {
		serve(conversions[i].text, &step);
		assert_int_equal(step.kind, TRANSFORM_CONVERT_IMAGE_DTYPE);
		assert_int_equal(step.dtype, conversions[i].dtype);
	}
	serve("PILToTensor()", &step);
	assert_int_equal(step.kind, TRANSFORM_PIL_TO_TENSOR);
}

static void hostile_numbers_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct transform_step step = {.kind = 0};
		struct error_text error = {""};
		int r = open_transform_parse(&step, &refused[i].transform, &error);

		if (r != STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST ||
			!strstr(error.text, refused[i].words))
			fail_msg("request %zu (%s) gives %d: %s", i, refused[i].words, r,
				error.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_arrive_as_ranges),
		cmocka_unit_test(the_new_steps_without_chance_arrive),
		cmocka_unit_test(hostile_numbers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
