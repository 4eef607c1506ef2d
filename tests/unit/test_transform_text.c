/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_text.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct transform_text parse(const char *text)
{
	struct transform_text pipeline;
	int r = transform_text_parse(&pipeline, text);

	if (r < 0)
		print_error("%s\n", pipeline.error);
	assert_int_equal(r, 0);
	return pipeline;
}

static void assert_kinds(const char *text, const char *kinds)
{
	struct transform_text pipeline = parse(text);

	assert_int_equal(pipeline.count, strlen(kinds));
	for (size_t i = 0; i < pipeline.count; i++)
		assert_int_equal("GTNRCP"[pipeline.steps[i].kind], kinds[i]);
}

static void pipelines_are_read(void **state)
{
	(void)state;
	assert_kinds("", "");
	assert_kinds(" \n\t# nothing\n", "");
	assert_kinds("ToTensor()", "T");
	assert_kinds("Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))", "GTN");
	assert_kinds("Grayscale(),ToTensor(),", "GT");
	assert_kinds("transforms.Compose([transforms.ToTensor(),\n"
		     "    transforms.Normalize((0.1307,), (0.3081,)),  # MNIST\n"
		     "])",
		"TN");
	assert_kinds("torchvision.transforms.Compose([T.ToTensor()],)", "T");
	assert_kinds("Compose(transforms=[ToTensor()])", "T");
	assert_kinds("Compose((ToTensor(),))", "T");
	assert_kinds("Compose([])", "");
	assert_kinds("Compose([Grayscale()]), Compose([ToTensor(), Compose([])])", "GT");
	assert_kinds("ToTensor ( ) , # one\r\n Grayscale ( num_output_channels = 3 , )", "TG");
	assert_kinds("torchvision . transforms . ToTensor()", "T");
}

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
	assert_kinds("Resize(256), CenterCrop(224), Pad(4), ToTensor()", "RCPT");
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

static void numbers_are_those_of_python(void **state)
{
	static const struct {
		const char *text;
		float value;
	} numbers[] = {
		{"0", 0},
		{"00", 0},
		{"7", 7},
		{"1_000", 1000},
		{"0x_fF", 255},
		{"0O17", 15},
		{"0b1_01", 5},
		{".5", 0.5f},
		{"5.", 5},
		{"012.5", 12.5f},
		{"1e3", 1000},
		{"1_0.2_5E-0_1", 1.025f},
		{"-0.25", -0.25f},
		{"+ 3", 3},
		{"3.4028234663852886e38", FLT_MAX},
		{"3.4028235677973362e38", FLT_MAX},
		/* Halfway between two floats once read as a double, above it as a decimal: torch
		 * rounds twice and gets the even one. */
		{"1.00000005960464477539062500000000001", 1.0f},
		{"1e-46", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct transform_text pipeline;
		char text[100];

		snprintf(text, sizeof(text), "Normalize([%s], [1])", numbers[i].text);
		pipeline = parse(text);
		if (pipeline.steps[0].mean.values[0] != numbers[i].value)
			fail_msg("%s is read as %.9g", numbers[i].text,
				pipeline.steps[0].mean.values[0]);
	}
}

static void the_locale_does_not_matter(void **state)
{
	struct transform_text pipeline;

	(void)state;
	if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
		skip();
	pipeline = parse("Normalize((0.5,), (0.25,))");
	setlocale(LC_ALL, "C");
	assert_true(pipeline.steps[0].mean.values[0] == 0.5f);
	assert_true(pipeline.steps[0].std.values[0] == 0.25f);
}

static void errors_show_the_place(void **state)
{
	static const struct {
		const char *text;
		size_t line, column;
		const char *words;
	} cases[] = {
		{"Normalise((0.5,), (0.5,))", 1, 1, "did you mean Normalize?"},
		{"ToTensor(), GrayScale(1)", 1, 13, "did you mean Grayscale?"},
		{"totensor()", 1, 1, "did you mean ToTensor?"},
		{"RandomHorisontalFlip()", 1, 1, "did you mean RandomHorizontalFlip?"},
		{"Frobnicate()", 1, 1, "Grayscale, ToTensor and Normalize are supported"},
		{"RandomCrop(256)", 1, 1, "RandomCrop is not supported yet"},
		{"ToTensor(),\n  ColorJitter(224)", 2, 3, "ColorJitter is not supported yet"},
		{"Resize()", 1, 8, "Resize needs size, as in Resize(256)"},
		{"Resize(0)", 1, 8, "size must be a whole number from 1 to 65535"},
		{"Resize(256.0)", 1, 8, "whole number"},
		{"Resize((256, 65536))", 1, 14, "whole number from 1 to 65535"},
		{"Resize((1, 2, 3))", 1, 8,
			"size has 3 values; it takes a number or (height, width)"},
		{"Resize((1, 2, 3, 4, 5))", 1, 21, "too many values"},
		{"Resize(())", 1, 8, "size has 0 values"},
		{"Resize(8 * 2)", 1, 10, "arithmetic"},
		{"Resize(\"8\")", 1, 8, "expected a number or (height, width), found '\"'"},
		{"Resize(None)", 1, 8, "expected a number or (height, width), found 'None'"},
		{"Resize(8, 6)", 1, 11, "interpolation must be a whole number from 0 to 5"},
		{"Resize(8, 'bilinear')", 1, 11, "like InterpolationMode.BICUBIC"},
		{"Resize(8, BILINEAR)", 1, 11, "like InterpolationMode.BICUBIC, found 'BILINEAR'"},
		{"Resize(8, InterpolationMode.)", 1, 11, "expected an interpolation"},
		{"Resize(8, a.b.c.d.e.f.BOX)", 1, 11, "expected an interpolation"},
		{"Resize(8, InterpolationMode.CUBIC)", 1, 29, "no interpolation is called 'CUBIC'"},
		{"Resize(8, max_size=8)", 1, 20, "max_size must be greater than size, 8"},
		{"Resize(max_size=9, size=(8, 8))", 1, 17, "the shorter edge only"},
		{"Resize(8, antialias=1)", 1, 21, "expected True or False"},
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
		{"Pad(1, 0, 'edge\")", 1, 11, "expected 'constant', 'edge'"},
		{"v2.ToTensor()", 1, 1, "'v2' is not known"},
		{"a.b.c.d.ToTensor()", 1, 1, "just ToTensor"},
		{"ToTensor", 1, 9, "expected '(', found the end"},
		{"ToTensor)", 1, 9, "expected '(', found ')'"},
		{"ToTensor() Normalize(0, 1)", 1, 12, "expected ',' or the end, found 'Normalize'"},
		{"ToTensor(1)", 1, 10, "ToTensor takes no arguments"},
		{"ToTensor(x=1)", 1, 10, "it takes no arguments"},
		{"ToTensor(),,", 1, 12, "expected a transform like ToTensor(), found ','"},
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
		{"Normalize((1,2,3,4), 1)", 1, 18, "more values"},
		{"Normalize(1, [1,2])", 1, 14, "std has 2 values"},
		{"Normalize((0.5,), (0,))", 1, 20, "must not be 0"},
		{"Normalize((0.5,), 1e-46)", 1, 19, "must not be 0"},
		{"Normalize(1e39, 1)", 1, 11, "too large"},
		{"Normalize(1e999, 1)", 1, 11, "too large"},
		{"Normalize((0.5 0.5), 1)", 1, 16, "expected ',' or ')', found '0'"},
		{"Normalize([0.5), 1)", 1, 15, "expected ',' or ']', found ')'"},
		{"Normalize(010, 1)", 1, 11, "'010' is not a number"},
		{"Normalize(1__0, 1)", 1, 11, "'1__0' is not a number"},
		{"Normalize(1_, 1)", 1, 11, "'1_' is not a number"},
		{"Normalize(0x, 1)", 1, 11, "'0x' is not a number"},
		{"Normalize(1e, 1)", 1, 11, "'1e' is not a number"},
		{"Normalize(1.2.3, 1)", 1, 11, "'1.2.3' is not a number"},
		{"Normalize(0.5f, 1)", 1, 11, "'0.5f' is not a number"},
		{"Normalize((125/255,), 1)", 1, 15, "arithmetic"},
		{"Normalize(mean, 1)", 1, 11, "expected numbers in parentheses"},
		{"Normalize(0, 1, 1)", 1, 17, "expected True or False"},
		{"Compose(ToTensor())", 1, 9, "expected '['"},
		{"Compose([ToTensor()]", 1, 21, "expected ')' after Compose's list"},
		{"Compose([ToTensor())", 1, 20, "expected ',' or ']', found ')'"},
		{"Compose()", 1, 9, "expected '['"},
		{"# \xc3\xa4\xc3\xb6\n# x\n\xc3\xa4", 3, 1, "found byte 0xc3"},
		{"ToTensor(\xe2\x82\xac)", 1, 10, "too many"},
		{"Normalize(0, 1) # \xe2\x82\xac\n\x01", 2, 1, "found byte 0x01"},
		{"'ToTensor()'", 1, 1, "expected a transform"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transform_text pipeline;
		char place[64];
		int r = transform_text_parse(&pipeline, cases[i].text);

		snprintf(place, sizeof(place), "transforms, line %zu, column %zu: ", cases[i].line,
			cases[i].column);
		if (r != -EINVAL || pipeline.line != cases[i].line ||
			pipeline.column != cases[i].column ||
			strncmp(pipeline.error, place, strlen(place)) != 0 ||
			!strstr(pipeline.error, cases[i].words))
			fail_msg("%s\n  gives %d: %s\n  not column %zu: %s", cases[i].text, r,
				r ? pipeline.error : "", cases[i].column, cases[i].words);
	}
}

static void counts_are_limited(void **state)
{
	struct transform_text pipeline;
	char text[2000] = "", *end = text;

	(void)state;
	for (int i = 0; i < PROTOCOL_TRANSFORMS_MAX; i++)
		end += sprintf(end, "Grayscale(),");
	assert_int_equal(parse(text).count, PROTOCOL_TRANSFORMS_MAX);
	strcpy(end, "ToTensor()");
	assert_int_equal(transform_text_parse(&pipeline, text), -EINVAL);
	assert_non_null(strstr(pipeline.error, "more than 32 transforms"));

	end = text;
	for (int i = 0; i < 100; i++)
		end += sprintf(end, "Compose([");
	assert_int_equal(transform_text_parse(&pipeline, text), -EINVAL);
	assert_non_null(strstr(pipeline.error, "inside Compose too often"));

	end = text + sprintf(text, "Normalize(0.");
	memset(end, '1', 1000);
	strcpy(end + 1000, ", 1)");
	assert_int_equal(transform_text_parse(&pipeline, text), -EINVAL);
	assert_non_null(strstr(pipeline.error, "is not a number"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pipelines_are_read),
		cmocka_unit_test(arguments_are_read),
		cmocka_unit_test(sizes_and_constants_are_read),
		cmocka_unit_test(paddings_are_read),
		cmocka_unit_test(numbers_are_those_of_python),
		cmocka_unit_test(the_locale_does_not_matter),
		cmocka_unit_test(errors_show_the_place),
		cmocka_unit_test(counts_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
