/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/open_random.h"

#include "daemon/image/draw.h"
#include "daemon/serve/open_numbers.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* What two numbers of a transform may be. */
struct span {
	const char *transform, *parameter;
	double least, most;
	double usual[2]; /* when nothing is said */
};

#define FAR  RANDOM_NUMBER_MAX
#define NEAR RANDOM_NUMBER_MIN

/* Every number of `given` is within the span; written so that a NaN is not. */
static int check_numbers(
	const struct span *span, const double *given, size_t count, struct error_text *error)
{
	for (size_t i = 0; i < count; i++) {
		if (!(given[i] >= span->least && given[i] <= span->most))
			return open_refuse(error, "%s: %s must be %g to %g", span->transform,
				span->parameter, span->least, span->most);
	}
	return 0;
}

/* A least and a greatest value; nothing: the usual. */
static int parse_range(double range[2], const struct span *span, const double *given, size_t count,
	struct error_text *error)
{
	int r;

	if (count == 0) {
		memcpy(range, span->usual, sizeof(span->usual));
		return 0;
	}
	if (count != 2)
		return open_refuse(
			error, "%s: %s takes 2 values", span->transform, span->parameter);
	r = check_numbers(span, given, count, error);
	if (r != 0)
		return r;
	if (given[0] > given[1])
		return open_refuse(error, "%s: %s takes the least value first", span->transform,
			span->parameter);
	memcpy(range, given, 2 * sizeof(given[0]));
	return 0;
}

static int parse_probability(
	double *p, double given, const char *transform, struct error_text *error)
{
	*p = given;
	return check_numbers(&(struct span){transform, "p", 0, 1, {0}}, &given, 1, error);
}

static int parse_degrees(struct random_op *random, const double *given, size_t count,
	const char *transform, struct error_text *error)
{
	if (count == 0)
		return open_refuse(error, "%s: degrees takes 2 values", transform);
	return parse_range(random->degrees, &(struct span){transform, "degrees", -FAR, FAR, {0}},
		given, count, error);
}

/* Nothing: the middle. */
static int parse_centre(struct random_op *random, const double *given, size_t count,
	const char *transform, struct error_text *error)
{
	const struct span span = {transform, "center", -FAR, FAR, {0}};

	if (count == 0)
		return 0;
	if (count != 2)
		return open_refuse(error, "%s: center takes 2 values, x and y", transform);
	random->has_centre = 1;
	random->centre_x = given[0];
	random->centre_y = given[1];
	return check_numbers(&span, given, count, error);
}

/* Pillow has these three filters for mapped pixels. */
static int parse_map_filter(struct random_op *random, Stoker__V1__Interpolation given,
	const char *transform, struct error_text *error)
{
	int r = open_filter(&random->filter, given, RESAMPLE_NEAREST, transform, error);

	if (r == 0 && random->filter != RESAMPLE_NEAREST && random->filter != RESAMPLE_BILINEAR &&
		random->filter != RESAMPLE_BICUBIC)
		return open_refuse(
			error, "%s: interpolation must be NEAREST, BILINEAR or BICUBIC", transform);
	return r;
}

/* ---- one function per transform ---- */

static int parse_crop(
	struct transform_step *step, const Stoker__V1__RandomCrop *crop, struct error_text *error)
{
	static const char name[] = "RandomCrop";
	struct random_op *random = &step->random;
	uint32_t edges[4] = {0};
	int r = open_size(&random->width, &random->height, crop->size, crop->n_size, name, error);

	random->kind = RANDOM_CROP;
	random->pad_if_needed = crop->pad_if_needed;
	if (r == 0 && crop->n_padding > 0)
		r = open_padding(edges, crop->padding, crop->n_padding, name, error);
	random->left = edges[0];
	random->top = edges[1];
	random->right = edges[2];
	random->bottom = edges[3];
	if (r == 0)
		r = open_padding_mode(&random->mode, crop->padding_mode, name, error);
	return r != 0 ? r
		      : open_fill(
				random->fill, &step->values, crop->fill, crop->n_fill, name, error);
}

static int parse_resized_crop(struct random_op *random, const Stoker__V1__RandomResizedCrop *crop,
	struct error_text *error)
{
	static const char name[] = "RandomResizedCrop";
	static const struct span scale = {name, "scale", 0, FAR, {0.08, 1}};
	static const struct span ratio = {name, "ratio", NEAR, FAR, {3. / 4, 4. / 3}};
	int r = open_size(&random->width, &random->height, crop->size, crop->n_size, name, error);

	random->kind = RANDOM_RESIZED_CROP;
	if (r == 0)
		r = parse_range(random->scale, &scale, crop->scale, crop->n_scale, error);
	if (r == 0)
		r = parse_range(random->ratio, &ratio, crop->ratio, crop->n_ratio, error);
	return r != 0 ? r
		      : open_filter(&random->filter, crop->interpolation, RESAMPLE_BILINEAR, name,
				error);
}

static int parse_rotation(struct transform_step *step, const Stoker__V1__RandomRotation *rotation,
	struct error_text *error)
{
	static const char name[] = "RandomRotation";
	struct random_op *random = &step->random;
	int r = parse_degrees(random, rotation->degrees, rotation->n_degrees, name, error);

	random->kind = RANDOM_ROTATION;
	random->expand = rotation->expand;
	if (r == 0)
		r = parse_map_filter(random, rotation->interpolation, name, error);
	if (r == 0)
		r = parse_centre(random, rotation->center, rotation->n_center, name, error);
	return r != 0 ? r
		      : open_fill(random->fill, &step->values, rotation->fill, rotation->n_fill,
				name, error);
}

static int parse_translate(
	struct random_op *random, const Stoker__V1__RandomAffine *affine, struct error_text *error)
{
	static const struct span span = {"RandomAffine", "translate", 0, 1, {0}};

	if (affine->n_translate == 0)
		return 0;
	if (affine->n_translate != 2)
		return open_refuse(error, "RandomAffine: translate takes 2 values, of x and of y");
	memcpy(random->translate, affine->translate, sizeof(random->translate));
	return check_numbers(&span, affine->translate, affine->n_translate, error);
}

static int parse_shear(
	struct random_op *random, const Stoker__V1__RandomAffine *affine, struct error_text *error)
{
	static const struct span span = {"RandomAffine", "shear", -FAR, FAR, {0}};
	int r;

	if (affine->n_shear != 0 && affine->n_shear != 2 && affine->n_shear != 4)
		return open_refuse(error, "RandomAffine: shear takes 2 or 4 values");
	r = parse_range(random->shear_x, &span, affine->shear, affine->n_shear ? 2 : 0, error);
	if (r == 0 && affine->n_shear == 4)
		r = parse_range(random->shear_y, &span, affine->shear + 2, 2, error);
	return r;
}

static int parse_affine(struct transform_step *step, const Stoker__V1__RandomAffine *affine,
	struct error_text *error)
{
	static const char name[] = "RandomAffine";
	static const struct span scale = {name, "scale", NEAR, FAR, {1, 1}};
	struct random_op *random = &step->random;
	int r = parse_degrees(random, affine->degrees, affine->n_degrees, name, error);

	random->kind = RANDOM_AFFINE;
	if (r == 0)
		r = parse_translate(random, affine, error);
	if (r == 0)
		r = parse_range(random->scale, &scale, affine->scale, affine->n_scale, error);
	if (r == 0)
		r = parse_shear(random, affine, error);
	if (r == 0)
		r = parse_map_filter(random, affine->interpolation, name, error);
	if (r == 0)
		r = parse_centre(random, affine->center, affine->n_center, name, error);
	return r != 0 ? r
		      : open_fill(random->fill, &step->values, affine->fill, affine->n_fill, name,
				error);
}

/* A property whose two factors change nothing is left alone, as in torchvision. */
static int parse_factor(struct random_op *random, enum jitter jitter, double factor[2],
	const struct span *span, const double *given, size_t count, struct error_text *error)
{
	int r = parse_range(factor, span, given, count, error);

	if (r == 0 && (factor[0] != span->usual[0] || factor[1] != span->usual[1]))
		random->jitter |= jitter;
	return r;
}

static int parse_jitter(
	struct random_op *random, const Stoker__V1__ColorJitter *jitter, struct error_text *error)
{
	static const char name[] = "ColorJitter";
	static const struct span brightness = {name, "brightness", 0, FAR, {1, 1}};
	static const struct span contrast = {name, "contrast", 0, FAR, {1, 1}};
	static const struct span saturation = {name, "saturation", 0, FAR, {1, 1}};
	static const struct span hue = {name, "hue", -0.5, 0.5, {0, 0}};
	int r;

	random->kind = RANDOM_COLOUR_JITTER;
	r = parse_factor(random, JITTER_BRIGHTNESS, random->brightness, &brightness,
		jitter->brightness, jitter->n_brightness, error);
	if (r == 0)
		r = parse_factor(random, JITTER_CONTRAST, random->contrast, &contrast,
			jitter->contrast, jitter->n_contrast, error);
	if (r == 0)
		r = parse_factor(random, JITTER_SATURATION, random->saturation, &saturation,
			jitter->saturation, jitter->n_saturation, error);
	return r != 0 ? r
		      : parse_factor(random, JITTER_HUE, random->hue, &hue, jitter->hue,
				jitter->n_hue, error);
}

static int parse_blur(
	struct random_op *random, const Stoker__V1__GaussianBlur *blur, struct error_text *error)
{
	static const struct span sigma = {"GaussianBlur", "sigma", NEAR, FAR, {0.1, 2}};

	random->kind = RANDOM_BLUR;
	if (blur->n_kernel_size != 1 && blur->n_kernel_size != 2)
		return open_refuse(error, "GaussianBlur: kernel_size takes 1 or 2 values");
	for (size_t i = 0; i < blur->n_kernel_size; i++) {
		if (blur->kernel_size[i] % 2 == 0 || blur->kernel_size[i] > IMAGE_OP_KERNEL_MAX)
			return open_refuse(error, "GaussianBlur: kernel_size must be odd, 1 to %d",
				IMAGE_OP_KERNEL_MAX);
	}
	random->kernel_width = blur->kernel_size[0];
	random->kernel_height = blur->kernel_size[blur->n_kernel_size - 1];
	return parse_range(random->sigma, &sigma, blur->sigma, blur->n_sigma, error);
}

static int parse_value(struct random_op *random, const Stoker__V1__RandomErasing *erasing,
	struct error_text *error)
{
	random->random_value = erasing->random_value;
	random->values = 1;
	if (erasing->n_value == 0)
		return 0;
	if (erasing->random_value)
		return open_refuse(
			error, "RandomErasing: value and random_value exclude each other");
	if (erasing->n_value != 1 && erasing->n_value != 3)
		return open_refuse(error, "RandomErasing: value takes 1 or 3 values");
	random->values = (uint32_t)erasing->n_value;
	for (size_t i = 0; i < erasing->n_value; i++) {
		/* The largest double that still rounds to FLT_MAX lies half a step above it. */
		if (!(fabs(erasing->value[i]) < FLT_MAX + 0x1p103))
			return open_refuse(error,
				"RandomErasing: value must be a number that fits into float32");
		random->value[i] = erasing->value[i];
	}
	return 0;
}

static int parse_erasing(struct random_op *random, const Stoker__V1__RandomErasing *erasing,
	struct error_text *error)
{
	static const char name[] = "RandomErasing";
	static const struct span scale = {name, "scale", 0, 1, {0.02, 0.33}};
	static const struct span ratio = {name, "ratio", NEAR, FAR, {0.3, 3.3}};
	int r = parse_probability(&random->p, erasing->p, name, error);

	random->kind = RANDOM_ERASING;
	if (r == 0)
		r = parse_range(random->scale, &scale, erasing->scale, erasing->n_scale, error);
	if (r == 0)
		r = parse_range(random->ratio, &ratio, erasing->ratio, erasing->n_ratio, error);
	return r != 0 ? r : parse_value(random, erasing, error);
}

int open_random_parse(struct transform_step *step, const Stoker__V1__Transform *transform,
	struct error_text *error)
{
	struct random_op *random = &step->random;

	step->kind = TRANSFORM_RANDOM;
	switch (transform->transform_case) {
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_CROP:
		return parse_crop(step, transform->random_crop, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_RESIZED_CROP:
		return parse_resized_crop(random, transform->random_resized_crop, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_HORIZONTAL_FLIP:
		random->kind = RANDOM_FLIP_HORIZONTAL;
		return parse_probability(&random->p, transform->random_horizontal_flip->p,
			"RandomHorizontalFlip", error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_VERTICAL_FLIP:
		random->kind = RANDOM_FLIP_VERTICAL;
		return parse_probability(&random->p, transform->random_vertical_flip->p,
			"RandomVerticalFlip", error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_ROTATION:
		return parse_rotation(step, transform->random_rotation, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_AFFINE:
		return parse_affine(step, transform->random_affine, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_COLOR_JITTER:
		return parse_jitter(random, transform->color_jitter, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_GRAYSCALE:
		random->kind = RANDOM_GREY;
		return parse_probability(
			&random->p, transform->random_grayscale->p, "RandomGrayscale", error);
	case STOKER__V1__TRANSFORM__TRANSFORM_GAUSSIAN_BLUR:
		return parse_blur(random, transform->gaussian_blur, error);
	case STOKER__V1__TRANSFORM__TRANSFORM_RANDOM_ERASING:
		return parse_erasing(random, transform->random_erasing, error);
	default:
		return open_refuse(error,
			"a transform is of a kind that this daemon does not know: is it older "
			"than the client?");
	}
}
