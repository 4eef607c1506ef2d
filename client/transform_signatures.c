/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_forms.h"

#include <stdio.h>
#include <string.h>

#define FIELD(member) offsetof(struct transform_text_step, member)
#define ONE           (1U << 1)
#define TWO           (1U << 2)
#define THREE         (1U << 3)
#define FOUR          (1U << 4)
#define EDGE_MAX      TRANSFORM_TEXT_EDGE_MAX
#define FAR           TRANSFORM_TEXT_NUMBER_MAX
#define NEAR          (1 / TRANSFORM_TEXT_NUMBER_MAX)

/* ---- parameters that several transforms have ---- */

/* clang-format off */
#define SIZE(allowed)                                                                              \
	{.name = "size", .form = form_whole_numbers, .field = FIELD(size), .least = 1,             \
	 .most = EDGE_MAX, .counts = ONE | TWO, .allows = ALLOWS_NUMBER | (allowed),               \
	 .wanted = "a number or (height, width)"}
#define PADDING(allowed)                                                                           \
	{.name = "padding", .form = form_whole_numbers, .field = FIELD(padding), .most = EDGE_MAX, \
	 .counts = ONE | TWO | FOUR, .allows = ALLOWS_NUMBER | (allowed),                          \
	 .wanted = "a number, (left and right, top and bottom) or (left, top, right, bottom)"}
#define FILL(allowed)                                                                              \
	{.name = "fill", .form = form_whole_numbers, .field = FIELD(fill), .most = 255,            \
	 .counts = ONE | THREE, .allows = ALLOWS_NUMBER | (allowed),                               \
	 .wanted = "a number or (red, green, blue)"}
#define PADDING_MODE                                                                               \
	{.name = "padding_mode", .form = form_padding_mode, .field = FIELD(padding_mode),          \
	 .wanted = "'constant', 'edge', 'reflect' or 'symmetric'"}
#define PROBABILITY                                                                                \
	{.name = "p", .form = form_number, .field = FIELD(p), .least = 0, .most = 1,               \
	 .wanted = "a probability from 0 to 1"}
#define INTERPOLATION                                                                              \
	{.name = "interpolation", .form = form_interpolation, .field = FIELD(interpolation)}
#define MAP_INTERPOLATION                                                                          \
	{.name = "interpolation", .form = form_map_interpolation, .field = FIELD(interpolation)}
#define ANTIALIAS                                                                                  \
	{.name = "antialias", .form = form_antialias}
#define INPLACE                                                                                    \
	{.name = "inplace", .form = form_ignored_bool}
#define DEGREES                                                                                    \
	{.name = "degrees", .form = form_symmetric, .field = FIELD(degrees), .least = -FAR,        \
	 .most = FAR, .counts = TWO, .allows = ALLOWS_NUMBER,                                      \
	 .wanted = "a number or (least, greatest)"}
#define CENTER                                                                                     \
	{.name = "center", .form = form_doubles, .field = FIELD(center), .least = -FAR,            \
	 .most = FAR, .counts = TWO, .allows = ALLOWS_NONE | ALLOWS_ANY_ORDER,                     \
	 .wanted = "(x, y) or None"}
/* A pair, the least first. */
#define RANGE(member, from, to, allowed)                                                           \
	{.name = #member, .form = form_doubles, .field = FIELD(member), .least = (from),           \
	 .most = (to), .counts = TWO, .allows = (allowed), .wanted = "(least, greatest)"}
#define FACTOR(member)                                                                             \
	{.name = #member, .form = form_factor, .field = FIELD(member), .least = 0, .most = FAR,    \
	 .counts = TWO, .allows = ALLOWS_NUMBER, .wanted = "a number or (least, greatest)"}

/* ---- transforms ---- */

static const struct parameter grayscale[] = {
	{.name = "num_output_channels", .form = form_channels, .field = FIELD(channels),
	 .wanted = "1 or 3"},
};
static const struct parameter normalize[] = {
	{.name = "mean", .form = form_float32s, .field = FIELD(mean),
	 .wanted = "numbers in parentheses, like (0.5,)"},
	{.name = "std", .form = form_divisors, .field = FIELD(std),
	 .wanted = "numbers in parentheses, like (0.5,)"},
	INPLACE,
};
static const struct parameter resize[] = {
	SIZE(0), INTERPOLATION,
	{.name = "max_size", .form = form_whole_number, .field = FIELD(max_size), .least = 1,
	 .most = EDGE_MAX, .allows = ALLOWS_NONE, .wanted = "a number or None"},
	ANTIALIAS,
};
static const struct parameter center_crop[] = {SIZE(ALLOWS_CUT)};
static const struct parameter pad[] = {PADDING(0), FILL(0), PADDING_MODE};
static const struct parameter random_crop[] = {
	SIZE(ALLOWS_CUT), PADDING(ALLOWS_NONE),
	{.name = "pad_if_needed", .form = form_bool, .field = FIELD(pad_if_needed)},
	FILL(0), PADDING_MODE,
};
static const struct parameter random_resized_crop[] = {
	SIZE(ALLOWS_CUT), RANGE(scale, 0, FAR, 0), RANGE(ratio, NEAR, FAR, 0), INTERPOLATION,
	ANTIALIAS,
};
static const struct parameter flip[] = {PROBABILITY};
static const struct parameter random_rotation[] = {
	DEGREES, MAP_INTERPOLATION,
	{.name = "expand", .form = form_bool, .field = FIELD(expand)},
	CENTER, FILL(ALLOWS_NONE | ALLOWS_INTEGRAL),
};
static const struct parameter random_affine[] = {
	DEGREES,
	{.name = "translate", .form = form_doubles, .field = FIELD(translate), .least = 0,
	 .most = 1, .counts = TWO, .allows = ALLOWS_NONE | ALLOWS_ANY_ORDER,
	 .wanted = "(of the width, of the height) or None"},
	RANGE(scale, NEAR, FAR, ALLOWS_NONE),
	{.name = "shear", .form = form_symmetric, .field = FIELD(shear), .least = -FAR,
	 .most = FAR, .counts = TWO | FOUR, .allows = ALLOWS_NUMBER | ALLOWS_NONE,
	 .wanted = "a number, (least, greatest) or (least x, greatest x, least y, greatest y)"},
	MAP_INTERPOLATION, FILL(ALLOWS_NONE | ALLOWS_INTEGRAL), CENTER,
};
static const struct parameter color_jitter[] = {
	FACTOR(brightness), FACTOR(contrast), FACTOR(saturation),
	{.name = "hue", .form = form_shift, .field = FIELD(hue), .least = -0.5, .most = 0.5,
	 .counts = TWO, .allows = ALLOWS_NUMBER, .wanted = "a number or (least, greatest)"},
};
static const struct parameter gaussian_blur[] = {
	{.name = "kernel_size", .form = form_kernel, .field = FIELD(kernel_size), .least = 1,
	 .most = TRANSFORM_TEXT_KERNEL_MAX, .counts = ONE | TWO,
	 .allows = ALLOWS_NUMBER | ALLOWS_CUT, .wanted = "an odd number or two"},
	{.name = "sigma", .form = form_constant, .field = FIELD(sigma), .least = NEAR, .most = FAR,
	 .counts = TWO, .allows = ALLOWS_NUMBER, .wanted = "a number or (least, greatest)"},
};
static const struct parameter random_erasing[] = {
	PROBABILITY, RANGE(scale, 0, 1, 0), RANGE(ratio, NEAR, FAR, 0),
	{.name = "value", .form = form_erasing_value, .counts = ONE | THREE,
	 .allows = ALLOWS_NUMBER, .wanted = "a number, (red, green, blue) or 'random'"},
	INPLACE,
};
static const struct parameter convert_image_dtype[] = {
	{.name = "dtype", .form = form_dtype, .field = FIELD(dtype),
	 .wanted = "a dtype like torch.float32"},
};

#define KIND(suffix)     .defaults.kind = TRANSFORM_TEXT_##suffix
#define PARAMETERS(list) .parameters = (list), .count = sizeof(list) / sizeof((list)[0])
#define SMOOTH           .defaults.interpolation = TRANSFORM_TEXT_BILINEAR
#define HARD             .defaults.interpolation = TRANSFORM_TEXT_NEAREST
#define PAIR(from, to)   {2, {from, to}}

static const struct signature signatures[] = {
	{"Resize", PARAMETERS(resize), .required = 1, .example = "Resize(256)", KIND(RESIZE), SMOOTH},
	{"CenterCrop", PARAMETERS(center_crop), .required = 1, .example = "CenterCrop(224)",
	 KIND(CENTER_CROP)},
	{"Pad", PARAMETERS(pad), .required = 1, .example = "Pad(4)", KIND(PAD),
	 .defaults.padding_mode = TRANSFORM_TEXT_CONSTANT},
	{"RandomCrop", PARAMETERS(random_crop), .required = 1,
	 .example = "RandomCrop(32, padding=4)", KIND(RANDOM_CROP),
	 .defaults.padding_mode = TRANSFORM_TEXT_CONSTANT},
	{"RandomResizedCrop", PARAMETERS(random_resized_crop), .required = 1,
	 .example = "RandomResizedCrop(224)", KIND(RANDOM_RESIZED_CROP), SMOOTH,
	 .defaults.scale = PAIR(0.08, 1), .defaults.ratio = PAIR(3. / 4, 4. / 3)},
	{"RandomHorizontalFlip", PARAMETERS(flip), KIND(RANDOM_HORIZONTAL_FLIP), .defaults.p = 0.5},
	{"RandomVerticalFlip", PARAMETERS(flip), KIND(RANDOM_VERTICAL_FLIP), .defaults.p = 0.5},
	{"RandomRotation", PARAMETERS(random_rotation), .required = 1,
	 .example = "RandomRotation(15)", KIND(RANDOM_ROTATION), HARD},
	{"RandomAffine", PARAMETERS(random_affine), .required = 1, .example = "RandomAffine(15)",
	 KIND(RANDOM_AFFINE), HARD},
	{"ColorJitter", PARAMETERS(color_jitter), KIND(COLOR_JITTER)},
	{"Grayscale", PARAMETERS(grayscale), KIND(GRAYSCALE), .defaults.channels = 1},
	{"RandomGrayscale", PARAMETERS(flip), KIND(RANDOM_GRAYSCALE), .defaults.p = 0.1},
	{"GaussianBlur", PARAMETERS(gaussian_blur), .required = 1,
	 .example = "GaussianBlur(kernel_size=5)", KIND(GAUSSIAN_BLUR),
	 .defaults.sigma = PAIR(0.1, 2)},
	{"PILToTensor", KIND(PIL_TO_TENSOR)},
	{"ToTensor", KIND(TO_TENSOR)},
	{"ConvertImageDtype", PARAMETERS(convert_image_dtype), .required = 1,
	 .example = "ConvertImageDtype(torch.float32)", KIND(CONVERT_IMAGE_DTYPE)},
	{"RandomErasing", PARAMETERS(random_erasing), KIND(RANDOM_ERASING), .defaults.p = 0.5,
	 .defaults.scale = PAIR(0.02, 0.33), .defaults.ratio = PAIR(0.3, 3.3)},
	{"Normalize", PARAMETERS(normalize), .required = 2, .example = "Normalize((0.5,), (0.5,))",
	 KIND(NORMALIZE)},
};
/* clang-format on */

enum { SIGNATURES = sizeof(signatures) / sizeof(signatures[0]) };

const struct signature *transform_signature_find(const struct scanner *scanner, struct token name)
{
	for (size_t i = 0; i < SIGNATURES; i++) {
		if (token_is(scanner, name, signatures[i].name))
			return &signatures[i];
	}
	return NULL;
}

void transform_signature_list(char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < SIGNATURES && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s",
			i == 0                ? ""
			: i + 1 == SIGNATURES ? " and "
					      : ", ",
			signatures[i].name);
}

int transform_arguments_check(
	struct scanner *scanner, const struct transform_text_step *step, const size_t *places)
{
	if (step->kind != TRANSFORM_TEXT_RESIZE || step->max_size == 0)
		return 0;
	if (step->size.count == 2)
		return scan_error(scanner, places[2],
			"max_size goes with the size of the shorter edge only, not with (height, "
			"width)");
	if (step->max_size <= step->size.values[0])
		return scan_error(scanner, places[2], "max_size must be greater than size, %u",
			step->size.values[0]);
	return 0;
}
