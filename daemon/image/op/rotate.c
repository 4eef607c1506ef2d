/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/rotate.h"

#include "daemon/image/op/flip.h"

#include <math.h>
#include <string.h>

enum turn { TURN_NONE, TURN_LEFT, TURN_HALF, TURN_RIGHT, TURN_ANY };

static double angle_of(const struct rotation *rotation)
{
	double angle = fmod(rotation->degrees, 360); /* then Python's %, which is not negative */

	return angle < 0 ? angle + 360 : angle;
}

static enum turn turn_of(const struct rotation *rotation, double width, double height)
{
	double angle = angle_of(rotation);

	if (rotation->has_centre)
		return TURN_ANY;
	if (angle == 0)
		return TURN_NONE;
	if (angle == 180)
		return TURN_HALF;
	if ((angle == 90 || angle == 270) && (rotation->expand || width == height))
		return angle == 90 ? TURN_LEFT : TURN_RIGHT;
	return TURN_ANY;
}

/* The width and height become those of the result. */
static void affine_of(
	const struct rotation *rotation, struct affine *affine, double *width, double *height)
{
	struct affine_point centre = {*width / 2, *height / 2};

	affine_rotation(affine, angle_of(rotation),
		rotation->has_centre ? &rotation->centre : &centre, rotation->expand, width,
		height);
}

void rotation_size(const struct rotation *rotation, double *width, double *height)
{
	enum turn turn = turn_of(rotation, *width, *height);
	struct affine affine;

	if (turn == TURN_LEFT || turn == TURN_RIGHT) {
		double kept = *width;

		*width = *height;
		*height = kept;
	} else if (turn == TURN_ANY && rotation->expand) {
		affine_of(rotation, &affine, width, height);
	}
}

static int copy(const struct image *in, struct image *out)
{
	int r = image_resize(out, in->width, in->height, in->channels);

	if (r == 0)
		memcpy(out->pixels, in->pixels, (size_t)in->width * in->height * in->channels);
	return r;
}

int rotation_draw(const struct rotation *rotation, const struct image *in,
	enum resample_filter filter, uint32_t width, uint32_t height, const uint8_t *fill,
	struct image *out)
{
	double made_width = in->width, made_height = in->height;
	struct affine affine;
	int r;

	switch (turn_of(rotation, in->width, in->height)) {
	case TURN_NONE: return copy(in, out);
	case TURN_LEFT: return turn_left(in, out);
	case TURN_RIGHT: return turn_right(in, out);
	case TURN_HALF:
		r = copy(in, out);
		if (r == 0) {
			flip_rows(out);
			flip_columns(out);
		}
		return r;
	default:
		affine_of(rotation, &affine, &made_width, &made_height);
		return affine_draw(&affine, in, filter, width, height, fill, out);
	}
}
