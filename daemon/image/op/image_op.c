/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/image_op.h"

#include "daemon/image/decode/decode.h"
#include "daemon/image/op/affine.h"
#include "daemon/image/op/blur.h"
#include "daemon/image/op/colour.h"
#include "daemon/image/op/flip.h"
#include "daemon/image/op/rotate.h"

#include <errno.h>
#include <string.h>

/* ---- sizes ---- */

static bool store_size(double width, double height, uint32_t *stored_width, uint32_t *stored_height)
{
	if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX)
		return false;
	*stored_width = (uint32_t)width;
	*stored_height = (uint32_t)height;
	return true;
}

/* torchvision/transforms/functional.py, _compute_resized_output_size: Python divides integers to a
 * double and int() cuts it off. All products here are below 2^53. */
static bool shorter_size(const struct image_op *op, uint32_t *width, uint32_t *height)
{
	bool is_tall = *width <= *height;
	double shorter = is_tall ? *width : *height, longer = is_tall ? *height : *width;
	double new_shorter = op->shorter, new_longer = (double)op->shorter * longer / shorter;

	new_longer = (double)(uint64_t)new_longer;
	if (op->longer_max != 0 && new_longer > op->longer_max) {
		new_shorter = (double)op->longer_max * new_shorter / new_longer;
		new_longer = op->longer_max;
	}
	return is_tall ? store_size(new_shorter, new_longer, width, height)
		       : store_size(new_longer, new_shorter, width, height);
}

static struct rotation rotation_of(const struct image_op *op)
{
	return (struct rotation){
		.degrees = op->angle,
		.expand = op->expand,
		.has_centre = op->has_centre,
		.centre = {op->centre_x, op->centre_y},
	};
}

static bool rotated_size(const struct image_op *op, uint32_t *width, uint32_t *height)
{
	struct rotation rotation = rotation_of(op);
	double made_width = *width, made_height = *height;

	rotation_size(&rotation, &made_width, &made_height);
	return store_size(made_width, made_height, width, height);
}

bool image_op_size(const struct image_op *op, uint32_t *width, uint32_t *height)
{
	switch (op->kind) {
	case IMAGE_OP_RESIZE:
	case IMAGE_OP_CENTER_CROP:
	case IMAGE_OP_CROP:
		*width = op->width;
		*height = op->height;
		return true;
	case IMAGE_OP_RESIZE_SHORTER: return shorter_size(op, width, height);
	case IMAGE_OP_PAD:
		return store_size((double)*width + op->left + op->right,
			(double)*height + op->top + op->bottom, width, height);
	case IMAGE_OP_ROTATE: return rotated_size(op, width, height);
	}
	return true;
}

/* ---- pixels ---- */

/* int(round((size - crop) / 2.0)), which rounds halves to even; or half of what is missing, rounded
 * down, before the picture. */
static int64_t crop_offset(uint32_t size, uint32_t crop)
{
	int64_t half = ((int64_t)size - crop) / 2;

	if (crop > size)
		return -(int64_t)((crop - size) / 2);
	return (size - crop) % 2 == 0 ? half : half + half % 2;
}

static struct window crop_window(const struct image_op *op, uint32_t width, uint32_t height)
{
	bool is_centred = op->kind == IMAGE_OP_CENTER_CROP;

	return (struct window){
		.left = is_centred ? crop_offset(width, op->width) : op->left,
		.top = is_centred ? crop_offset(height, op->height) : op->top,
		.width = op->width,
		.height = op->height,
		.mode = WINDOW_CONSTANT,
	};
}

static struct window pad_window(const struct image_op *op, uint32_t width, uint32_t height)
{
	return (struct window){
		.left = -(int64_t)op->left,
		.top = -(int64_t)op->top,
		.width = width,
		.height = height,
		.mode = (enum window_mode)op->mode,
		.fill = {op->fill[0], op->fill[1], op->fill[2]},
	};
}

static int change_channels(const struct image *in, uint32_t channels, struct image *out)
{
	size_t pixels = (size_t)in->width * in->height;
	int r = image_resize(out, in->width, in->height, channels);

	if (r < 0)
		return r;
	if (channels == 1)
		image_rgb_to_l(in->pixels, out->pixels, pixels);
	else
		for (size_t i = 0; i < pixels; i++)
			memset(out->pixels + 3 * i, in->pixels[i], 3);
	return 0;
}

static int draw_affine(const struct image_op *op, const struct image *in, struct image *out)
{
	struct affine_parameters parameters = {
		.angle = op->angle,
		.shear_x = op->shear_x,
		.shear_y = op->shear_y,
		.scale = op->scale,
		.centre = {in->width * 0.5, in->height * 0.5},
		.translate = {op->translate_x, op->translate_y},
	};
	struct affine affine;

	if (op->has_centre)
		parameters.centre = (struct affine_point){op->centre_x, op->centre_y};
	affine_inverse(&affine, &parameters);
	return affine_draw(&affine, in, (enum resample_filter)op->filter, in->width, in->height,
		op->fill, out);
}

static int draw_rotated(const struct image_op *op, uint32_t width, uint32_t height,
	const struct image *in, struct image *out)
{
	struct rotation rotation = rotation_of(op);

	return rotation_draw(
		&rotation, in, (enum resample_filter)op->filter, width, height, op->fill, out);
}

_Static_assert((int)IMAGE_OP_KERNEL_MAX == (int)BLUR_EDGE_MAX, "each valid kernel can be drawn");

static int draw_blurred(const struct image_op *op, const struct image *in, struct image *out,
	struct error_text *error)
{
	struct blur blur = {op->kernel_width, op->kernel_height, op->sigma};

	if (!blur_fits(&blur, in->width, in->height))
		return error_set(error, IMAGE_OPS_BAD,
			"is %ux%u, and GaussianBlur with a kernel of %ux%u takes pictures of at "
			"least %ux%u",
			in->width, in->height, op->kernel_width, op->kernel_height,
			op->kernel_width / 2 + 1, op->kernel_height / 2 + 1);
	return blur_draw(&blur, in, out);
}

/* Is the operation behind a Resize a crop that shows nothing but resized pixels? Then only these are
 * made. */
static bool crop_follows(const struct image_op *op, bool is_last, uint32_t width, uint32_t height)
{
	if (is_last || op[1].width > width || op[1].height > height)
		return false;
	return op[1].kind == IMAGE_OP_CENTER_CROP ||
	       (op[1].kind == IMAGE_OP_CROP && op[1].left <= width - op[1].width &&
		       op[1].top <= height - op[1].height);
}

static int draw_resized(const struct image_op *op, bool cropped, uint32_t width, uint32_t height,
	const struct image *in, struct image_ops_buffers *buffers)
{
	struct resample_region region = {0, 0, width, height};

	if (cropped) {
		struct window window = crop_window(op + 1, width, height);

		region = (struct resample_region){
			(uint32_t)window.left, (uint32_t)window.top, window.width, window.height};
	}
	return resample(&buffers->resampler, in, width, height, (enum resample_filter)op->filter,
		&region, &buffers->spare);
}

/* The operations that need no second picture; false: it is another one. */
static bool apply_in_place(const struct image_op *op, struct image *image)
{
	switch (op->kind) {
	case IMAGE_OP_FLIP_HORIZONTAL: flip_columns(image); return true;
	case IMAGE_OP_FLIP_VERTICAL: flip_rows(image); return true;
	case IMAGE_OP_BRIGHTNESS: colour_brightness(image, op->factor); return true;
	case IMAGE_OP_CONTRAST: colour_contrast(image, op->factor); return true;
	case IMAGE_OP_SATURATION: colour_saturation(image, op->factor); return true;
	case IMAGE_OP_HUE: colour_hue(image, op->factor); return true;
	case IMAGE_OP_GREY: colour_grey(image); return true;
	}
	return false;
}

/* `width` and `height` are the size that the operation makes; with `cropped` only what op[1] leaves
 * of it is made. */
static int apply(const struct image_op *op, bool cropped, uint32_t width, uint32_t height,
	const struct image *in, struct image_ops_buffers *buffers, struct error_text *error)
{
	struct image *out = &buffers->spare;
	struct window window;

	switch (op->kind) {
	case IMAGE_OP_CENTER_CROP:
	case IMAGE_OP_CROP: window = crop_window(op, in->width, in->height); break;
	case IMAGE_OP_PAD: window = pad_window(op, width, height); break;
	case IMAGE_OP_TO_L: return change_channels(in, 1, out);
	case IMAGE_OP_TO_RGB: return change_channels(in, 3, out);
	case IMAGE_OP_ROTATE: return draw_rotated(op, width, height, in, out);
	case IMAGE_OP_AFFINE: return draw_affine(op, in, out);
	case IMAGE_OP_BLUR: return draw_blurred(op, in, out, error);
	default: return draw_resized(op, cropped, width, height, in, buffers);
	}
	return window_copy(&window, in, out);
}

static void swap(struct image *a, struct image *b)
{
	struct image kept = *a;

	*a = *b;
	*b = kept;
}

static int too_large(
	const struct image *image, uint32_t width, uint32_t height, struct error_text *error)
{
	return error_set(error, IMAGE_OPS_BAD,
		"is %ux%u, and making %ux%u of it takes too much memory: make it smaller before, "
		"for example with Resize",
		image->width, image->height, width, height);
}

/* The pixels of the largest picture that operations may make of `image` on the way to width x height. */
static uint64_t most_pixels(const struct image *image, uint32_t width, uint32_t height)
{
	uint64_t last = (uint64_t)width * height;
	uint64_t most = (uint64_t)image->width * image->height * IMAGE_OPS_GROWTH_MAX +
			IMAGE_OPS_PIXELS_FREE;

	most = most < DECODE_MAX_PIXELS ? most : DECODE_MAX_PIXELS;
	return most > last ? most : last;
}

/* One operation and, where it makes only what a crop behind it leaves, *cropped. */
static int apply_next(const struct image_op *op, bool is_last, uint64_t pixels_max,
	struct image *image, struct image_ops_buffers *buffers, bool *cropped,
	struct error_text *error)
{
	bool is_resize = op->kind == IMAGE_OP_RESIZE || op->kind == IMAGE_OP_RESIZE_SHORTER;
	uint32_t width = image->width, height = image->height;
	int r;

	*cropped = false;
	if (apply_in_place(op, image))
		return 0;
	if (!image_op_size(op, &width, &height))
		return error_set(error, IMAGE_OPS_BAD,
			"is %ux%u, and one of the transforms would make an edge of 0 or of more "
			"than %d pixels of it",
			image->width, image->height, INT32_MAX);
	*cropped = is_resize && crop_follows(op, is_last, width, height);
	if (!*cropped && (uint64_t)width * height > pixels_max)
		return too_large(image, width, height, error);
	r = apply(op, *cropped, width, height, image, buffers, error);
	if (r == RESAMPLE_TOO_LARGE && is_resize)
		return too_large(image, width, height, error);
	if (r != 0)
		return r == -EOVERFLOW ? -ENOMEM : r;
	swap(image, &buffers->spare);
	return 0;
}

int image_ops_apply(const struct image_op *ops, size_t count, uint32_t width, uint32_t height,
	struct image *image, struct image_ops_buffers *buffers, struct error_text *error)
{
	uint64_t pixels_max = most_pixels(image, width, height);
	bool cropped;

	for (size_t i = 0; i < count; i += 1 + cropped) {
		int r = apply_next(
			&ops[i], i + 1 == count, pixels_max, image, buffers, &cropped, error);

		if (r != 0)
			return r;
	}
	return 0;
}

void image_ops_buffers_finish(struct image_ops_buffers *buffers)
{
	image_finish(&buffers->spare);
	resampler_finish(&buffers->resampler);
}
