/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/image_op.h"

#include "daemon/image/decode.h"

#include <errno.h>
#include <string.h>

/* ---- ranges ---- */

static bool edge_valid(uint32_t edge)
{
	return edge >= 1 && edge <= IMAGE_OP_EDGE_MAX;
}

static bool filter_valid(uint32_t filter)
{
	return filter >= RESAMPLE_NEAREST && filter <= RESAMPLE_HAMMING;
}

static bool pad_valid(const struct image_op *op)
{
	return op->left <= IMAGE_OP_EDGE_MAX && op->top <= IMAGE_OP_EDGE_MAX &&
	       op->right <= IMAGE_OP_EDGE_MAX && op->bottom <= IMAGE_OP_EDGE_MAX &&
	       op->mode >= WINDOW_CONSTANT && op->mode <= WINDOW_SYMMETRIC;
}

bool image_op_valid(const struct image_op *op, uint32_t *channels)
{
	switch (op->kind) {
	case IMAGE_OP_RESIZE:
		return edge_valid(op->width) && edge_valid(op->height) && filter_valid(op->filter);
	case IMAGE_OP_RESIZE_SHORTER:
		return edge_valid(op->shorter) && filter_valid(op->filter) &&
		       (op->longer_max == 0 ||
			       (edge_valid(op->longer_max) && op->longer_max > op->shorter));
	case IMAGE_OP_CENTER_CROP: return edge_valid(op->width) && edge_valid(op->height);
	case IMAGE_OP_PAD: return pad_valid(op);
	case IMAGE_OP_TO_L:
		if (*channels != 3)
			return false;
		*channels = 1;
		return true;
	case IMAGE_OP_TO_RGB:
		if (*channels != 1)
			return false;
		*channels = 3;
		return true;
	}
	return false;
}

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

bool image_op_size(const struct image_op *op, uint32_t *width, uint32_t *height)
{
	switch (op->kind) {
	case IMAGE_OP_RESIZE:
	case IMAGE_OP_CENTER_CROP:
		*width = op->width;
		*height = op->height;
		return true;
	case IMAGE_OP_RESIZE_SHORTER: return shorter_size(op, width, height);
	case IMAGE_OP_PAD:
		return store_size((double)*width + op->left + op->right,
			(double)*height + op->top + op->bottom, width, height);
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
	return (struct window){
		.left = crop_offset(width, op->width),
		.top = crop_offset(height, op->height),
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

/* Is the operation behind a Resize a crop that shows nothing but resized pixels? Then only these are
 * made. */
static bool crop_follows(const struct image_op *op, bool is_last, uint32_t width, uint32_t height)
{
	return !is_last && op[1].kind == IMAGE_OP_CENTER_CROP && op[1].width <= width &&
	       op[1].height <= height;
}

/* `width` and `height` are the size that the operation makes; with `cropped` only what op[1] leaves
 * of it is made. */
static int apply(const struct image_op *op, bool cropped, uint32_t width, uint32_t height,
	const struct image *in, struct image_ops_buffers *buffers)
{
	struct resample_region region = {0, 0, width, height};
	struct window window;

	switch (op->kind) {
	case IMAGE_OP_CENTER_CROP: window = crop_window(op, in->width, in->height); break;
	case IMAGE_OP_PAD: window = pad_window(op, width, height); break;
	case IMAGE_OP_TO_L: return change_channels(in, 1, &buffers->spare);
	case IMAGE_OP_TO_RGB: return change_channels(in, 3, &buffers->spare);
	default:
		if (cropped) {
			window = crop_window(op + 1, width, height);
			region = (struct resample_region){(uint32_t)window.left,
				(uint32_t)window.top, window.width, window.height};
		}
		return resample(&buffers->resampler, in, width, height,
			(enum resample_filter)op->filter, &region, &buffers->spare);
	}
	return window_copy(&window, in, &buffers->spare);
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
		"is %ux%u, and making %ux%u of it takes too much memory", image->width,
		image->height, width, height);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

int image_ops_apply(const struct image_op *ops, size_t count, uint32_t width, uint32_t height,
	struct image *image, struct image_ops_buffers *buffers, struct error_text *error)
{
	uint64_t limit = most(
		8 << 20, most((uint64_t)width * height, (uint64_t)image->width * image->height));

	for (size_t i = 0; i < count; i++) {
		bool is_resize =
			ops[i].kind == IMAGE_OP_RESIZE || ops[i].kind == IMAGE_OP_RESIZE_SHORTER;
		uint32_t made_width = image->width, made_height = image->height;
		bool cropped;
		int r;

		if (!image_op_size(&ops[i], &made_width, &made_height))
			return error_set(error, IMAGE_OPS_BAD,
				"is %ux%u, and one of the transforms would make an edge of 0 or of "
				"more than %d pixels of it",
				image->width, image->height, INT32_MAX);
		cropped =
			is_resize && crop_follows(&ops[i], i + 1 == count, made_width, made_height);
		if (!cropped && (uint64_t)made_width * made_height > limit)
			return too_large(image, made_width, made_height, error);
		r = apply(&ops[i], cropped, made_width, made_height, image, buffers);
		if (r == RESAMPLE_TOO_LARGE)
			return too_large(image, made_width, made_height, error);
		if (r < 0)
			return r == -EOVERFLOW ? -ENOMEM : r;
		swap(image, &buffers->spare);
		i += cropped;
	}
	return 0;
}

void image_ops_buffers_finish(struct image_ops_buffers *buffers)
{
	image_finish(&buffers->spare);
	resampler_finish(&buffers->resampler);
}
