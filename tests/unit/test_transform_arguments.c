/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/transform_text_check.h"

/* The arguments of each transform. What torchvision makes of them: test_transform_text.py. */

static void arguments_are_read(void **state)
{
	struct transform_text pipeline;

	(void)state;
	pipeline = parse("Grayscale(), Grayscale(3), Grayscale(num_output_channels=1)");
	assert_int_equal(pipeline.steps[0].channels, 1);
	assert_int_equal(pipeline.steps[1].channels, 3);
	assert_int_equal(pipeline.steps[2].channels, 1);

	pipeline = parse("Normalize(std=[0.229, 0.224, 0.225,], mean=(0.485, 0.456, 0.406), "
			 "inplace=True), Normalize(0.5, (2), False), Normalize([0], [1],)");
	assert_int_equal(pipeline.steps[0].mean.count, 3);
	assert_int_equal(pipeline.steps[0].std.count, 3);
	assert_true(pipeline.steps[0].mean.values[1] == 0.456f);
	assert_true(pipeline.steps[0].std.values[2] == 0.225f);
	assert_int_equal(pipeline.steps[1].mean.count, 1);
	assert_true(pipeline.steps[1].mean.values[0] == 0.5f);
	assert_true(pipeline.steps[1].std.values[0] == 2.0f);
	assert_true(pipeline.steps[2].mean.values[0] == 0.0f);

	/* one value for all channels */
	pipeline = parse("Normalize((0.5,), (1, 2, 3)), Normalize([1, 2, 3], 4)");
	assert_int_equal(pipeline.steps[0].mean.count, 3);
	assert_true(pipeline.steps[0].mean.values[2] == 0.5f);
	assert_true(pipeline.steps[0].std.values[2] == 3.0f);
	assert_int_equal(pipeline.steps[1].std.count, 3);
	assert_true(pipeline.steps[1].std.values[1] == 4.0f);
}

static void sizes_and_constants_are_read(void **state)
{
	static const struct {
		const char *text;
		enum transform_text_interpolation interpolation;
	} interpolations[] = {
		{"InterpolationMode.NEAREST", TRANSFORM_TEXT_NEAREST},
		{"transforms.InterpolationMode.BILINEAR", TRANSFORM_TEXT_BILINEAR},
		{"T.InterpolationMode.BICUBIC", TRANSFORM_TEXT_BICUBIC},
		{"torchvision.transforms.InterpolationMode . LANCZOS", TRANSFORM_TEXT_LANCZOS},
		{"Image.BOX", TRANSFORM_TEXT_BOX},
		{"PIL.Image.Resampling.HAMMING", TRANSFORM_TEXT_HAMMING},
		{"Image.ANTIALIAS", TRANSFORM_TEXT_LANCZOS},
		{"0", TRANSFORM_TEXT_NEAREST},
		{"1", TRANSFORM_TEXT_LANCZOS},
		{"2", TRANSFORM_TEXT_BILINEAR},
		{"3", TRANSFORM_TEXT_BICUBIC},
		{"4", TRANSFORM_TEXT_BOX},
		{"5", TRANSFORM_TEXT_HAMMING},
	};
	struct transform_text pipeline;
	char text[100];

	(void)state;
	for (size_t i = 0; i < sizeof(interpolations) / sizeof(interpolations[0]); i++) {
		snprintf(text, sizeof(text), "Resize((7, 65535), %s)", interpolations[i].text);
		pipeline = parse(text);
		assert_int_equal(pipeline.steps[0].interpolation, interpolations[i].interpolation);
		assert_int_equal(pipeline.steps[0].size.count, 2);
		assert_int_equal(pipeline.steps[0].size.values[0], 7);
		assert_int_equal(pipeline.steps[0].size.values[1], 65535);
	}

	pipeline = parse("Resize(256), Resize(size=[8,], max_size=9, antialias=True), "
			 "Resize(8, 3, None, None), Resize(8, antialias=\"warn\")");
	assert_int_equal(pipeline.steps[0].interpolation, TRANSFORM_TEXT_BILINEAR);
	assert_int_equal(pipeline.steps[0].max_size, 0);
	assert_int_equal(pipeline.steps[1].size.count, 1);
	assert_int_equal(pipeline.steps[1].max_size, 9);
	assert_int_equal(pipeline.steps[2].max_size, 0);
}

static void paddings_are_read(void **state)
{
	struct transform_text pipeline;

	(void)state;
	pipeline = parse("Pad(4), Pad((1, 2), 255), Pad([1, 2, 3, 4], fill=(7, 8, 9), "
			 "padding_mode='reflect'), Pad(0, padding_mode=\"edge\"), "
			 "Pad(1, 0, 'symmetric'), Pad(1, 0, 'constant')");
	assert_int_equal(pipeline.steps[0].padding.count, 1);
	assert_int_equal(pipeline.steps[0].padding.values[0], 4);
	assert_int_equal(pipeline.steps[0].fill.count, 0);
	assert_int_equal(pipeline.steps[0].padding_mode, TRANSFORM_TEXT_CONSTANT);
	assert_int_equal(pipeline.steps[1].padding.count, 2);
	assert_int_equal(pipeline.steps[1].fill.values[0], 255);
	assert_int_equal(pipeline.steps[2].padding.values[3], 4);
	assert_int_equal(pipeline.steps[2].fill.values[2], 9);
	assert_int_equal(pipeline.steps[2].padding_mode, TRANSFORM_TEXT_REFLECT);
	assert_int_equal(pipeline.steps[3].padding_mode, TRANSFORM_TEXT_EDGE);
	assert_int_equal(pipeline.steps[4].padding_mode, TRANSFORM_TEXT_SYMMETRIC);
	assert_int_equal(pipeline.steps[5].padding_mode, TRANSFORM_TEXT_CONSTANT);
}

static void random_crops_are_read(void **state)
{
	struct transform_text pipeline;
	struct transform_text_step *step;

	(void)state;
	pipeline =
		parse("RandomCrop(32), RandomCrop((8, 9), [1, 2], True, (1, 2, 3), \"reflect\"), "
		      "RandomCrop(size=7.9, padding=None, fill=8)");
	step = pipeline.steps;
	assert_true(NUMBERS_ARE(step->size, 32));
	assert_int_equal(step->padding.count + step->fill.count, 0);
	assert_false(step->pad_if_needed);
	assert_int_equal(step->padding_mode, TRANSFORM_TEXT_CONSTANT);
	step = &pipeline.steps[1];
	assert_true(NUMBERS_ARE(step->size, 8, 9) && NUMBERS_ARE(step->padding, 1, 2) &&
		    NUMBERS_ARE(step->fill, 1, 2, 3));
	assert_true(step->pad_if_needed);
	assert_int_equal(step->padding_mode, TRANSFORM_TEXT_REFLECT);
	step = &pipeline.steps[2];
	assert_true(NUMBERS_ARE(step->size, 7) && NUMBERS_ARE(step->fill, 8));
	assert_int_equal(step->padding.count, 0);

	pipeline = parse("RandomResizedCrop(224), RandomResizedCrop((8, 9), (0.2, 1), "
			 "(3. / 4., 4. / 3.), InterpolationMode.BICUBIC, antialias=True)");
	step = pipeline.steps;
	assert_true(DOUBLES_ARE(step->scale, 0.08, 1) && DOUBLES_ARE(step->ratio, 0.75, 4. / 3));
	assert_int_equal(step->interpolation, TRANSFORM_TEXT_BILINEAR);
	step = &pipeline.steps[1];
	assert_true(DOUBLES_ARE(step->scale, 0.2, 1) && DOUBLES_ARE(step->ratio, 0.75, 4. / 3));
	assert_int_equal(step->interpolation, TRANSFORM_TEXT_BICUBIC);
}

static void turns_are_read(void **state)
{
	struct transform_text pipeline;
	struct transform_text_step *step;

	(void)state;
	pipeline =
		parse("RandomRotation(15), RandomRotation((-5, 90.5), Image.BILINEAR, True, "
		      "(3, -4.5), 7.0), RandomAffine(0), RandomAffine([1, 2], (0.5, 0.25), "
		      "(0.5, 2), (1, 2, 3, 4), 3, (1, 2, 3), [5, 6]), "
		      "RandomAffine(degrees=1, shear=10, translate=None, scale=None, fill=None)");
	step = pipeline.steps;
	assert_true(DOUBLES_ARE(step->degrees, -15, 15));
	assert_int_equal(step->interpolation, TRANSFORM_TEXT_NEAREST);
	assert_int_equal(step->center.count + step->fill.count + step->expand, 0);
	step = &pipeline.steps[1];
	assert_true(DOUBLES_ARE(step->degrees, -5, 90.5) && DOUBLES_ARE(step->center, 3, -4.5) &&
		    NUMBERS_ARE(step->fill, 7) && step->expand);
	assert_int_equal(step->interpolation, TRANSFORM_TEXT_BILINEAR);
	step = &pipeline.steps[2];
	assert_true(DOUBLES_ARE(step->degrees, 0, 0));
	assert_int_equal(step->translate.count + step->scale.count + step->shear.count, 0);
	step = &pipeline.steps[3];
	assert_true(DOUBLES_ARE(step->degrees, 1, 2) && DOUBLES_ARE(step->translate, 0.5, 0.25) &&
		    DOUBLES_ARE(step->scale, 0.5, 2) && DOUBLES_ARE(step->shear, 1, 2, 3, 4) &&
		    NUMBERS_ARE(step->fill, 1, 2, 3) && DOUBLES_ARE(step->center, 5, 6));
	assert_int_equal(step->interpolation, TRANSFORM_TEXT_BICUBIC);
	step = &pipeline.steps[4];
	assert_true(DOUBLES_ARE(step->shear, -10, 10));
	assert_int_equal(step->translate.count + step->scale.count + step->fill.count, 0);
}

static void colours_are_read(void **state)
{
	struct transform_text pipeline;
	struct transform_text_step *step;

	(void)state;
	pipeline = parse("ColorJitter(), ColorJitter(0.25, 1.5, (0.5, 3), [-0.25, 0.5]), "
			 "ColorJitter(brightness=(1, 1), hue=0.5), ColorJitter(saturation=(0, 1), "
			 "hue=(0, 0)), RandomGrayscale(), RandomGrayscale(p=1/4)");
	step = pipeline.steps;
	assert_int_equal(step->brightness.count + step->contrast.count, 0);
	assert_int_equal(step->saturation.count + step->hue.count, 0);
	step = &pipeline.steps[1];
	assert_true(DOUBLES_ARE(step->brightness, 0.75, 1.25) &&
		    DOUBLES_ARE(step->contrast, 0, 2.5) && DOUBLES_ARE(step->saturation, 0.5, 3) &&
		    DOUBLES_ARE(step->hue, -0.25, 0.5));
	step = &pipeline.steps[2];
	assert_int_equal(step->brightness.count, 0);
	assert_true(DOUBLES_ARE(step->hue, -0.5, 0.5));
	step = &pipeline.steps[3];
	assert_int_equal(step->hue.count, 0);
	assert_true(DOUBLES_ARE(step->saturation, 0, 1));
	assert_true(pipeline.steps[4].p == 0.1);
	assert_true(pipeline.steps[5].p == 0.25);
}

static void the_others_are_read(void **state)
{
	struct transform_text pipeline;
	struct transform_text_step *step;

	(void)state;
	pipeline =
		parse("GaussianBlur(3), GaussianBlur((5, 7), 1.5), GaussianBlur([255], (0.1, 5)), "
		      "RandomErasing(), RandomErasing(1, (0.1, 0.2), (1, 2), 0.5, True), "
		      "RandomErasing(value='random'), RandomErasing(value=[1, -2, 3e38])");
	step = pipeline.steps;
	assert_true(NUMBERS_ARE(step->kernel_size, 3) && DOUBLES_ARE(step->sigma, 0.1, 2));
	step = &pipeline.steps[1];
	assert_true(NUMBERS_ARE(step->kernel_size, 5, 7) && DOUBLES_ARE(step->sigma, 1.5, 1.5));
	step = &pipeline.steps[2];
	assert_true(NUMBERS_ARE(step->kernel_size, 255) && DOUBLES_ARE(step->sigma, 0.1, 5));
	step = &pipeline.steps[3];
	assert_true(step->p == 0.5 && DOUBLES_ARE(step->scale, 0.02, 0.33) &&
		    DOUBLES_ARE(step->ratio, 0.3, 3.3));
	assert_int_equal(step->value.count + step->random_value, 0);
	step = &pipeline.steps[4];
	assert_true(step->p == 1 && DOUBLES_ARE(step->scale, 0.1, 0.2) &&
		    DOUBLES_ARE(step->ratio, 1, 2) && DOUBLES_ARE(step->value, 0.5));
	assert_true(pipeline.steps[5].random_value);
	assert_int_equal(pipeline.steps[5].value.count, 0);
	assert_true(DOUBLES_ARE(pipeline.steps[6].value, 1, -2, 3e38));

	pipeline = parse("ConvertImageDtype(torch.float32), ConvertImageDtype(dtype=torch.half), "
			 "ConvertImageDtype(torch.bfloat16), ConvertImageDtype(torch.uint8), "
			 "RandomHorizontalFlip(), RandomVerticalFlip(0)");
	assert_int_equal(pipeline.steps[0].dtype, TRANSFORM_TEXT_FLOAT32);
	assert_int_equal(pipeline.steps[1].dtype, TRANSFORM_TEXT_FLOAT16);
	assert_int_equal(pipeline.steps[2].dtype, TRANSFORM_TEXT_BFLOAT16);
	assert_int_equal(pipeline.steps[3].dtype, TRANSFORM_TEXT_UINT8);
	assert_true(pipeline.steps[4].p == 0.5);
	assert_true(pipeline.steps[5].p == 0);
}

static void errors_show_the_place(void **state)
{
	static const struct refused_text texts[] = {
		{"Resize()", 1, 8, "Resize needs size, as in Resize(256)"},
		{"Resize(0)", 1, 8, "size must be a whole number from 1 to 65535"},
		{"Resize(256.0)", 1, 8, "whole number"},
		{"Resize((256, 65536))", 1, 14, "whole number from 1 to 65535"},
		{"Resize((1, 2, 3))", 1, 8,
			"size has 3 values; it takes a number or (height, width)"},
		{"Resize((1, 2, 3, 4, 5))", 1, 8, "size has 5 values"},
		{"Resize(())", 1, 8, "size has 0 values"},
		{"Resize(\"8\")", 1, 8, "expected a number or (height, width), found \"8\""},
		{"Resize(None)", 1, 8, "expected a number or (height, width), found 'None'"},
		{"Resize(8, 6)", 1, 11, "interpolation must be a whole number from 0 to 5"},
		{"Resize(8, 'bilinear')", 1, 11, "like InterpolationMode.BICUBIC"},
		{"Resize(8, BILINEAR)", 1, 11, "like InterpolationMode.BICUBIC, found 'BILINEAR'"},
		{"Resize(8, InterpolationMode.)", 1, 11, "expected an interpolation"},
		{"Resize(8, a.b.c.d.e.f.BOX)", 1, 11, "expected an interpolation"},
		{"Resize(8, InterpolationMode.CUBIC)", 1, 29, "no interpolation is called 'CUBIC'"},
		{"Resize(8, max_size=8)", 1, 20, "max_size must be greater than size, 8"},
		{"Resize(max_size=9, size=(8, 8))", 1, 17, "the shorter edge only"},
		{"Resize(8, antialias=1)", 1, 21, "expected True, False or None"},
		{"Resize(8, antialias='on')", 1, 21, "True, False or None"},
		{"Resize(8, 2, None, True, 1)", 1, 26, "too many arguments"},
		{"CenterCrop(size=-1)", 1, 17, "whole number from 1"},
		{"CenterCrop()", 1, 12, "as in CenterCrop(224)"},
		{"Pad()", 1, 5, "Pad needs padding, as in Pad(4)"},
		{"Pad(-1)", 1, 5, "padding must be a whole number from 0 to 65535"},
		{"Pad((1, 2, 3))", 1, 5, "padding has 3 values"},
		{"Pad(1, 256)", 1, 8, "fill must be a whole number from 0 to 255"},
		{"Pad(1, (1, 2))", 1, 8, "fill has 2 values"},
		{"Pad(1, 0, wrap)", 1, 11, "expected 'constant', 'edge'"},
		{"Pad(1, 0, 'wrap')", 1, 11, "expected 'constant', 'edge'"},
		{"Pad(1, 0, ' edge')", 1, 11, "expected 'constant', 'edge'"},
		{"Grayscale(2)", 1, 11, "must be 1 or 3"},
		{"Grayscale(1.0)", 1, 11, "must be 1 or 3"},
		{"Grayscale(1, 1)", 1, 14, "too many arguments"},
		{"Grayscale(channels=3)", 1, 11, "it takes num_output_channels"},
		{"Grayscale(1", 1, 12, "expected ',' or ')', found the end"},
		{"Normalize((0.5,))", 1, 17, "needs std"},
		{"Normalize(std=1)", 1, 16, "needs mean"},
		{"Normalize(0, 1, mean=0)", 1, 17, "mean is given twice"},
		{"Normalize(mean=0, 1)", 1, 19, "cannot follow"},
		{"Normalize((), 1)", 1, 11, "mean has 0 values; images have 1 or 3 channels"},
		{"Normalize((1,2,3,4), 1)", 1, 11, "mean has 4 values"},
		{"Normalize(1, [1,2])", 1, 14, "std has 2 values"},
		{"Normalize((0.5,), (0,))", 1, 20, "must not be 0"},
		{"Normalize((0.5,), 1e-46)", 1, 19, "must not be 0"},
		{"Normalize(1e39, 1)", 1, 11, "too large"},
		{"Normalize(1e999, 1)", 1, 11, "too large"},
		{"Normalize((0.5 0.5), 1)", 1, 16, "expected ',' or ')', found '0'"},
		{"Normalize([0.5), 1)", 1, 15, "expected ',' or ']', found ')'"},
		{"Normalize(mean, 1)", 1, 11, "expected numbers in parentheses"},
		{"Normalize(0, 1, 1)", 1, 17, "expected True or False"},
		{"Resize((8, '8'))", 1, 12, "expected a number, found '8'"},
		{"Resize(8.5)", 1, 8, "size must be a whole number from 1 to 65535"},
		{"Resize(16 / 2)", 1, 8, "whole number"},
	};
	static const struct refused_text random_texts[] = {
		{"RandomCrop()", 1, 12, "RandomCrop needs size, as in RandomCrop(32, padding=4)"},
		{"RandomCrop((8.0, 8))", 1, 13, "size must be a whole number"},
		{"RandomCrop(8, -1)", 1, 15, "padding must be a whole number from 0"},
		{"RandomCrop(8, 1, 1)", 1, 18, "expected True or False, found '1'"},
		{"RandomCrop(8, fill=None)", 1, 20, "expected a number or (red, green, blue)"},
		{"RandomResizedCrop(8, 0.5)", 1, 22, "expected (least, greatest), found '0'"},
		{"RandomResizedCrop(8, (1,))", 1, 22, "scale has 1 value; it takes"},
		{"RandomResizedCrop(8, (1, 0.5))", 1, 26, "scale takes the least value first"},
		{"RandomResizedCrop(8, (-1, 0.5))", 1, 23, "scale must be from 0 to 1000000"},
		{"RandomResizedCrop(8, ratio=(0, 1))", 1, 29, "ratio must be from 1e-06"},
		{"RandomResizedCrop(8, ratio=(1e-7, 1))", 1, 29, "ratio must be from 1e-06"},
		{"RandomResizedCrop(8, ratio=(1, 1e400))", 1, 32, "ratio must be from 1e-06"},
		{"RandomResizedCrop(8, ratio=(1, 1e999 - 1e999))", 1, 32, "ratio must be"},
		{"RandomHorizontalFlip(1.5)", 1, 22, "p must be from 0 to 1"},
		{"RandomVerticalFlip(-0.1)", 1, 20, "p must be from 0 to 1"},
		{"RandomGrayscale(p=None)", 1, 19, "expected a probability from 0 to 1"},
		{"RandomGrayscale(p=(0.5,))", 1, 19, "expected a probability from 0 to 1"},
		{"RandomRotation()", 1, 16, "as in RandomRotation(15)"},
		{"RandomRotation(-1)", 1, 16, "degrees, as one number, must be from 0"},
		{"RandomRotation((5, -5))", 1, 20, "degrees takes the least value first"},
		{"RandomRotation((1, 2, 3))", 1, 16, "degrees has 3 values"},
		{"RandomRotation(None)", 1, 16, "expected a number or (least, greatest)"},
		{"RandomRotation(1, InterpolationMode.LANCZOS)", 1, 19, "NEAREST, BILINEAR or"},
		{"RandomRotation(1, 4)", 1, 19, "NEAREST, BILINEAR or BICUBIC only"},
		{"RandomRotation(1, resample=2)", 1, 19, "it is called interpolation now"},
		{"RandomAffine(1, fillcolor=2)", 1, 17, "it is called fill now"},
		{"RandomRotation(1, center=3)", 1, 26, "expected (x, y) or None"},
		{"RandomRotation(1, center=(1, 2e6))", 1, 30, "center must be from -1000000"},
		{"RandomRotation(1, fill=0.5)", 1, 24, "fill must be a whole number"},
		{"RandomRotation(1, fill=(1, 2))", 1, 24, "fill has 2 values"},
		{"RandomAffine(1, (0.5, 1.5))", 1, 23, "translate must be from 0 to 1"},
		{"RandomAffine(1, 0.5)", 1, 17, "expected (of the width, of the height) or None"},
		{"RandomAffine(1, None, (0, 1))", 1, 24, "scale must be from 1e-06"},
		{"RandomAffine(1, shear=(1, 2, 3))", 1, 23, "shear has 3 values"},
		{"RandomAffine(1, shear=(1, 2, 4, 3))", 1, 33, "shear takes the least value first"},
		{"RandomAffine(1, shear=-1)", 1, 23, "shear, as one number, must be from 0"},
		{"ColorJitter(-0.1)", 1, 13, "brightness, as one number, must be from 0"},
		{"ColorJitter(contrast=(-0.5, 1))", 1, 23, "contrast must be from 0"},
		{"ColorJitter(hue=0.51)", 1, 17, "hue, as one number, must be from 0 to 0.5"},
		{"ColorJitter(hue=(-0.6, 0))", 1, 18, "hue must be from -0.5 to 0.5"},
		{"ColorJitter(hue=(0.2, 0.1))", 1, 23, "hue takes the least value first"},
		{"ColorJitter(saturation=(1,))", 1, 24, "saturation has 1 value"},
		{"ColorJitter(1e6)", 1, 13, "must be from 0 to 999999"},
		{"GaussianBlur()", 1, 14, "as in GaussianBlur(kernel_size=5)"},
		{"GaussianBlur(4)", 1, 14, "kernel_size must be odd"},
		{"GaussianBlur((3, 8))", 1, 18, "kernel_size must be odd"},
		{"GaussianBlur(257)", 1, 14, "kernel_size must be a whole number from 1 to 255"},
		{"GaussianBlur(3, 0)", 1, 17, "sigma must be from 1e-06"},
		{"GaussianBlur(3, (2, 1))", 1, 21, "sigma takes the least value first"},
		{"RandomErasing(2)", 1, 15, "p must be from 0 to 1"},
		{"RandomErasing(scale=(0.5, 1.5))", 1, 27, "scale must be from 0 to 1"},
		{"RandomErasing(value='zero')", 1, 21, "expected a number, (red, green, blue)"},
		{"RandomErasing(value=None)", 1, 21, "(red, green, blue) or 'random'"},
		{"RandomErasing(value=(1, 2))", 1, 21, "value has 2 values"},
		{"RandomErasing(value=1e39)", 1, 21, "too large for float32"},
		{"ConvertImageDtype()", 1, 19, "as in ConvertImageDtype(torch.float32)"},
		{"ConvertImageDtype(torch.int64)", 1, 25, "torch.int64 is no dtype of batches"},
		{"ConvertImageDtype(float32)", 1, 19, "expected a dtype like torch.float32"},
		{"ConvertImageDtype('float32')", 1, 19, "expected a dtype like torch.float32"},
		{"PILToTensor(1)", 1, 13, "PILToTensor takes no arguments"},
	};

	(void)state;
	assert_refused(texts, sizeof(texts) / sizeof(texts[0]));
	assert_refused(random_texts, sizeof(random_texts) / sizeof(random_texts[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_are_read),
		cmocka_unit_test(sizes_and_constants_are_read),
		cmocka_unit_test(paddings_are_read),
		cmocka_unit_test(random_crops_are_read),
		cmocka_unit_test(turns_are_read),
		cmocka_unit_test(colours_are_read),
		cmocka_unit_test(the_others_are_read),
		cmocka_unit_test(errors_show_the_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
