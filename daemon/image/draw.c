/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/draw.h"

#include <math.h>

enum { TRIES = 10 }; /* of a crop of random area and ratio */

struct drawing {
	const struct random_op *op;
	struct random_source source;
	uint32_t width, height; /* of the picture, with what was added so far */
	struct drawn *drawn;
	struct error_text *error;
};

static void add(struct drawing *drawing, const struct image_op *op)
{
	drawing->drawn->ops[drawing->drawn->count++] = *op;
}

static void clear_parameters(double *parameters, uint32_t kind)
{
	parameters[0] = kind;
	for (int i = 1; i < DRAWN_PARAMETERS; i++)
		parameters[i] = NAN;
}

/* ---- crops ---- */

static void add_crop(
	struct drawing *drawing, uint32_t top, uint32_t left, uint32_t height, uint32_t width)
{
	double *parameters = drawing->drawn->parameters;

	parameters[1] = top;
	parameters[2] = left;
	parameters[3] = height;
	parameters[4] = width;
	add(drawing, &(struct image_op){.kind = IMAGE_OP_CROP,
			     .left = left,
			     .top = top,
			     .width = width,
			     .height = height});
}

static void pad(
	struct drawing *drawing, uint32_t left, uint32_t top, uint32_t right, uint32_t bottom)
{
	struct image_op op = {
		.kind = IMAGE_OP_PAD,
		.left = left,
		.top = top,
		.right = right,
		.bottom = bottom,
		.mode = drawing->op->mode,
		.fill = {drawing->op->fill[0], drawing->op->fill[1], drawing->op->fill[2]},
	};

	if (left == 0 && top == 0 && right == 0 && bottom == 0)
		return;
	add(drawing, &op);
	drawing->width += left + right;
	drawing->height += top + bottom;
}

/* With pad_if_needed torchvision adds what is missing on both sides: twice as much as is needed, so
 * that the crop falls anywhere. */
static int draw_crop(struct drawing *drawing)
{
	const struct random_op *op = drawing->op;
	uint32_t width = op->width, height = op->height, top, left, missing;

	pad(drawing, op->left, op->top, op->right, op->bottom);
	if (op->pad_if_needed && drawing->width < width) {
		missing = width - drawing->width;
		pad(drawing, missing, 0, missing, 0);
	}
	if (op->pad_if_needed && drawing->height < height) {
		missing = height - drawing->height;
		pad(drawing, 0, missing, 0, missing);
	}
	if (drawing->width < width || drawing->height < height)
		return error_set(drawing->error, DRAW_BAD,
			"is %ux%u where RandomCrop takes %ux%u of it: make it larger before, or give "
			"RandomCrop pad_if_needed=True",
			drawing->width, drawing->height, width, height);
	top = random_below(&drawing->source, drawing->height - height + 1);
	left = random_below(&drawing->source, drawing->width - width + 1);
	add_crop(drawing, top, left, height, width);
	return 0;
}

/* Height and width of a random area and ratio, which RandomResizedCrop and RandomErasing try in the
 * same way. `longer` is what grows with the ratio. Python's round, halves to even. */
static void draw_area(const struct random_op *op, struct random_source *source, double area,
	double *longer, double *shorter)
{
	double target = area * random_between(source, op->scale[0], op->scale[1]);
	double ratio = exp(random_between(source, log(op->ratio[0]), log(op->ratio[1])));

	*longer = rint(sqrt(target * ratio));
	*shorter = rint(sqrt(target / ratio));
}

/* The largest part in the middle that keeps to the ratio. False: it has no pixel. */
static bool central_crop(struct drawing *drawing, uint32_t *height, uint32_t *width)
{
	const double *ratio = drawing->op->ratio;
	double whole_width = drawing->width, whole_height = drawing->height;
	double w = whole_width, h = whole_height;

	if (w / h < ratio[0])
		h = rint(w / ratio[0]);
	else if (w / h > ratio[1])
		w = rint(h * ratio[1]);
	if (!(w >= 1 && h >= 1))
		return false;
	*width = w < whole_width ? (uint32_t)w : drawing->width;
	*height = h < whole_height ? (uint32_t)h : drawing->height;
	return true;
}

static int draw_resized_crop(struct drawing *drawing)
{
	const struct random_op *op = drawing->op;
	double area = (double)drawing->width * drawing->height;
	uint32_t top, left, width, height;
	int tries = 0;
	double w, h;

	do {
		draw_area(op, &drawing->source, area, &w, &h);
	} while (!(w > 0 && w <= drawing->width && h > 0 && h <= drawing->height) &&
		 ++tries < TRIES);
	if (tries < TRIES) {
		width = (uint32_t)w;
		height = (uint32_t)h;
		top = random_below(&drawing->source, drawing->height - height + 1);
		left = random_below(&drawing->source, drawing->width - width + 1);
	} else if (central_crop(drawing, &height, &width)) {
		top = (drawing->height - height) / 2;
		left = (drawing->width - width) / 2;
	} else {
		return error_set(drawing->error, DRAW_BAD,
			"is %ux%u, and no part of it has a ratio that RandomResizedCrop asks for",
			drawing->width, drawing->height);
	}
	add_crop(drawing, top, left, height, width);
	add(drawing, &(struct image_op){.kind = IMAGE_OP_RESIZE,
			     .filter = op->filter,
			     .width = op->width,
			     .height = op->height});
	return 0;
}

/* ---- turning ---- */

static struct image_op turn(const struct random_op *op, enum image_op_kind kind, double angle)
{
	return (struct image_op){
		.kind = kind,
		.filter = op->filter,
		.fill = {op->fill[0], op->fill[1], op->fill[2]},
		.has_centre = op->has_centre,
		.centre_x = op->centre_x,
		.centre_y = op->centre_y,
		.angle = angle,
		.scale = 1,
	};
}

static void draw_rotation(struct drawing *drawing)
{
	const struct random_op *op = drawing->op;
	double angle = random_between(&drawing->source, op->degrees[0], op->degrees[1]);
	struct image_op rotation = turn(op, IMAGE_OP_ROTATE, angle);

	rotation.expand = op->expand;
	drawing->drawn->parameters[1] = angle;
	add(drawing, &rotation);
}

static int32_t draw_translation(struct drawing *drawing, double fraction, uint32_t edge)
{
	double most = fraction * edge;

	return (int32_t)rint(random_between(&drawing->source, -most, most));
}

static void draw_affine(struct drawing *drawing)
{
	const struct random_op *op = drawing->op;
	struct random_source *source = &drawing->source;
	double *parameters = drawing->drawn->parameters;
	struct image_op affine =
		turn(op, IMAGE_OP_AFFINE, random_between(source, op->degrees[0], op->degrees[1]));

	affine.translate_x = draw_translation(drawing, op->translate[0], drawing->width);
	affine.translate_y = draw_translation(drawing, op->translate[1], drawing->height);
	affine.scale = random_between(source, op->scale[0], op->scale[1]);
	affine.shear_x = random_between(source, op->shear_x[0], op->shear_x[1]);
	affine.shear_y = random_between(source, op->shear_y[0], op->shear_y[1]);
	parameters[1] = affine.angle;
	parameters[2] = affine.translate_x;
	parameters[3] = affine.translate_y;
	parameters[4] = affine.scale;
	parameters[5] = affine.shear_x;
	parameters[6] = affine.shear_y;
	add(drawing, &affine);
}

/* ---- colours ---- */

/* The order is a shuffle after Fisher and Yates. Each number is drawn whether it is used or not, so
 * that one does not depend on which others are. */
static void draw_jitter(struct drawing *drawing)
{
	static const enum image_op_kind kinds[] = {
		IMAGE_OP_BRIGHTNESS, IMAGE_OP_CONTRAST, IMAGE_OP_SATURATION, IMAGE_OP_HUE};
	const struct random_op *op = drawing->op;
	const double *ranges[] = {op->brightness, op->contrast, op->saturation, op->hue};
	double *order = drawing->drawn->parameters + 1, *factors = order + 4;

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t other = random_below(&drawing->source, i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (int i = 0; i < 4; i++) {
		double factor = random_between(&drawing->source, ranges[i][0], ranges[i][1]);

		if (op->jitter & UINT32_C(1) << i)
			factors[i] = factor;
	}
	for (int i = 0; i < 4; i++) {
		int which = (int)order[i];

		if (op->jitter & UINT32_C(1) << which)
			add(drawing,
				&(struct image_op){.kind = kinds[which], .factor = factors[which]});
	}
}

static void draw_blur(struct drawing *drawing)
{
	const struct random_op *op = drawing->op;
	double sigma = random_between(&drawing->source, op->sigma[0], op->sigma[1]);

	drawing->drawn->parameters[1] = sigma;
	add(drawing, &(struct image_op){.kind = IMAGE_OP_BLUR,
			     .kernel_width = op->kernel_width,
			     .kernel_height = op->kernel_height,
			     .sigma = sigma});
}

static void draw_whether(struct drawing *drawing, enum image_op_kind kind)
{
	bool done = random_unit(&drawing->source) < drawing->op->p;

	drawing->drawn->parameters[1] = done;
	if (done)
		add(drawing, &(struct image_op){.kind = kind});
}

int draw(const struct random_op *op, const struct random_key *key, uint32_t width, uint32_t height,
	struct drawn *drawn, struct error_text *error)
{
	struct drawing drawing = {
		.op = op,
		.source = random_source_of(key, op->transform),
		.width = width,
		.height = height,
		.drawn = drawn,
		.error = error,
	};

	drawn->count = 0;
	clear_parameters(drawn->parameters, op->kind);
	switch (op->kind) {
	case RANDOM_CROP: return draw_crop(&drawing);
	case RANDOM_RESIZED_CROP: return draw_resized_crop(&drawing);
	case RANDOM_FLIP_HORIZONTAL: draw_whether(&drawing, IMAGE_OP_FLIP_HORIZONTAL); break;
	case RANDOM_FLIP_VERTICAL: draw_whether(&drawing, IMAGE_OP_FLIP_VERTICAL); break;
	case RANDOM_ROTATION: draw_rotation(&drawing); break;
	case RANDOM_AFFINE: draw_affine(&drawing); break;
	case RANDOM_COLOUR_JITTER: draw_jitter(&drawing); break;
	case RANDOM_GREY: draw_whether(&drawing, IMAGE_OP_GREY); break;
	case RANDOM_BLUR: draw_blur(&drawing); break;
	}
	return 0;
}

/* Here the ratio is that of height to width. */
struct erased_region draw_erasing(const struct random_op *op, struct random_source *source,
	uint32_t width, uint32_t height, double parameters[DRAWN_PARAMETERS])
{
	struct erased_region region = {0};
	double area = (double)width * height, h, w;
	int tries = 0;

	clear_parameters(parameters, RANDOM_ERASING);
	parameters[1] = 0;
	if (!(random_unit(source) < op->p))
		return region;
	do {
		draw_area(op, source, area, &h, &w);
	} while (!(h < height && w < width) && ++tries < TRIES);
	if (tries == TRIES)
		return region;
	region.height = (uint32_t)h;
	region.width = (uint32_t)w;
	region.top = random_below(source, height - region.height + 1);
	region.left = random_below(source, width - region.width + 1);
	parameters[1] = 1;
	parameters[2] = region.top;
	parameters[3] = region.left;
	parameters[4] = region.height;
	parameters[5] = region.width;
	return region;
}
