/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/transform_text_check.h"

#include <float.h>
#include <locale.h>

static void assert_kinds(const char *text, const char *kinds)
{
	struct transform_text pipeline = parse(text);

	assert_int_equal(pipeline.count, strlen(kinds));
	for (size_t i = 0; i < pipeline.count; i++)
		assert_int_equal("GTNRCPcrhvoajgbedp"[pipeline.steps[i].kind], kinds[i]);
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

static void the_names_of_all_transforms_are_known(void **state)
{
	(void)state;
	assert_kinds("Resize(8), CenterCrop(8), Pad(1), RandomCrop(8), RandomResizedCrop(8), "
		     "RandomHorizontalFlip(), RandomVerticalFlip(), RandomRotation(8), "
		     "RandomAffine(8), ColorJitter(), Grayscale(), RandomGrayscale(), "
		     "GaussianBlur(3), PILToTensor(), ToTensor(), ConvertImageDtype(torch.float), "
		     "RandomErasing(), Normalize(0, 1)",
		"RCPcrhvoajGgbpTdeN");
	assert_kinds("train_transform = T.Compose([T.PILToTensor()])", "p");
	assert_kinds("self.transform = T.Compose([T.PILToTensor()])", "p");
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
		{"- - 3", 3},
		{"125.5 / 255", 0.49215686f},
		{"1/3 + 1/3", 0.6666667f},
		{"2 * (3 - .5) / 4", 1.25f},
		{"-7 // 2", -4},
		{"7 // -2", -4},
		{"8 // 2 // 2", 2},
		{"6 - 3 - 2", 1},
		{"2 + 3 * 4", 14},
		{"-2 * -3", 6},
		{"int(-2.9)", -2},
		{"round(2.5) + round(3.5)", 6},
		{"float(1) / 2,", 0.5f},
		{"(0.5)", 0.5f},
		{"int(224 / 0.875,)", 256},
		{"9007199254740991 - 9007199254740990", 1},
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
	static const struct refused_text texts[] = {
		{"Normalise((0.5,), (0.5,))", 1, 1, "did you mean Normalize?"},
		{"ToTensor(), GrayScale(1)", 1, 13, "did you mean Grayscale?"},
		{"totensor()", 1, 1, "did you mean ToTensor?"},
		{"RandomHorisontalFlip()", 1, 1, "did you mean RandomHorizontalFlip?"},
		{"Frobnicate()", 1, 1, "there are Resize, CenterCrop, Pad, RandomCrop"},
		{"Frobnicate()", 1, 1, "RandomErasing and Normalize"},
		{"ToTensor(),\n  FiveCrop(224)", 2, 3,
			"FiveCrop is not supported: a sample has one"},
		{"T.Lambda(lambda x: x * 2)", 1, 3,
			"Lambda is not supported: it is code of Python"},
		{"Compose([RandomApply([Grayscale()], p=0.3)])", 1, 10,
			"RandomApply is not supported: only single transforms are left to chance"},
		{"RandomChoice([Grayscale()])", 1, 1, "RandomChoice is not supported"},
		{"transforms.RandomOrder([])", 1, 12, "RandomOrder is not supported"},
		{"ToPILImage()", 1, 1, "samples are pictures already"},
		{"RandAugment()", 1, 1, "in the training loop"},
		{"t = Frobnicate()", 1, 5, "no transform is called 'Frobnicate'"},
		{"t = u = ToTensor()", 1, 5, "'u' is no call of a transform: if it is a variable"},
		{"a.t = u.v = ToTensor()", 1, 7, "the module 'u' is not known"},
		{"Compose([ToTensor(), normalize,])", 1, 22,
			"write here what it stands for, such as Normalize(...)"},
		{"= ToTensor()", 1, 1, "expected a transform"},
		{"torch.nn.Flatten()", 1, 1, "the module 'torch' is not known"},
		{"nn.Sequential(ToTensor())", 1, 4, "Sequential is not supported: write Compose"},
		{"torch.nn.Sequential(ToTensor())", 1, 10, "write Compose([...])"},
		{"v2.ToTensor()", 1, 1, "'v2' is not known"},
		{"a.b.c.d.ToTensor()", 1, 1, "just ToTensor"},
		{"ToTensor", 1, 9, "expected '(', found the end"},
		{"ToTensor)", 1, 9, "expected '(', found ')'"},
		{"ToTensor() Normalize(0, 1)", 1, 12, "expected ',' or the end, found 'Normalize'"},
		{"ToTensor(1)", 1, 10, "ToTensor takes no arguments"},
		{"ToTensor(x=1)", 1, 10, "it takes no arguments"},
		{"ToTensor(),,", 1, 12, "expected a transform like ToTensor(), found ','"},
		{"Normalize(010, 1)", 1, 11, "'010' is not a number"},
		{"Normalize(1__0, 1)", 1, 11, "'1__0' is not a number"},
		{"Normalize(1_, 1)", 1, 11, "'1_' is not a number"},
		{"Normalize(0x, 1)", 1, 11, "'0x' is not a number"},
		{"Normalize(1e, 1)", 1, 11, "'1e' is not a number"},
		{"Normalize(1.2.3, 1)", 1, 11, "'1.2.3' is not a number"},
		{"Normalize(0.5f, 1)", 1, 11, "'0.5f' is not a number"},
		{"Normalize(1 / 0, 1)", 1, 13, "division by zero"},
		{"Normalize(1 // (2 - 2), 1)", 1, 13, "division by zero"},
		{"Normalize(9007199254740992 + 1, 1)", 1, 11, "beyond 2**53"},
		{"Normalize(4294967296 * 4294967296, 1)", 1, 11, "beyond 2**53"},
		{"Normalize(int(1e300), 1)", 1, 11, "beyond 2**53"},
		{"Normalize(7.0 // 2, 1)", 1, 15, "whole numbers only"},
		{"Normalize(1, 'mean')", 1, 14, "found 'mean'"},
		{"Normalize(1, 'mean)", 1, 14, "this string has no end"},
		{"Normalize(1 +, 1)", 1, 14, "expected a number, found ','"},
		{"Normalize(2 ** 3, 1)", 1, 14, "expected a number, found '*'"},
		{"Normalize(8 % 2, 1)", 1, 13, "expected ',' or ')', found '%'"},
		{"Normalize((1 + 2", 1, 17, "expected ',' or ')', found the end"},
		{"Normalize(1 + (2, 1))", 1, 17, "expected ')', found ','"},
		{"Normalize(int(1, 1)", 1, 18, "expected ')', found '1'"},
		{"Normalize(abs(1), 1)", 1, 11, "expected numbers in parentheses"},
		{"Normalize([0.5] * 2.0, 1)", 1, 19, "a whole number of times"},
		{"Normalize([0.5] * 9, 1)", 1, 11, "too many values"},
		{"Normalize([0.5] * -1, 1)", 1, 11, "mean has 0 values"},
		{"Normalize([1,2,3,4,5,6,7,8,9], 1)", 1, 28, "too many values"},
		{"Normalize('0.5', 1)", 1, 11,
			"expected numbers in parentheses, like (0.5,), found"},
		{"Pad(1, 0, 'edge)", 1, 11, "this string has no end"},
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
	assert_refused(texts, sizeof(texts) / sizeof(texts[0]));
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

	end = text + sprintf(text, "Normalize(");
	memset(end, '(', 1000);
	end[1000] = '\0';
	assert_int_equal(transform_text_parse(&pipeline, text), -EINVAL);
	assert_non_null(strstr(pipeline.error, "inside each other"));
	memset(end, '-', 1000);
	assert_int_equal(transform_text_parse(&pipeline, text), -EINVAL);
	assert_non_null(strstr(pipeline.error, "inside each other"));

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
		cmocka_unit_test(the_names_of_all_transforms_are_known),
		cmocka_unit_test(numbers_are_those_of_python),
		cmocka_unit_test(the_locale_does_not_matter),
		cmocka_unit_test(errors_show_the_place),
		cmocka_unit_test(counts_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
