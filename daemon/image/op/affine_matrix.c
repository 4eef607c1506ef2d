/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/op/affine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Python's math.radians. */
static double radians(double degrees)
{
	return degrees * (M_PI / 180.0);
}

/* Python's round(value, 15) of -1 .. 1: the nearest decimal, and of that the nearest double. */
static double round15(double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.15f", value);
	return strtod(text, NULL);
}

static struct affine_point at(const struct affine *affine, double x, double y)
{
	return (struct affine_point){
		.x = affine->xx * x + affine->xy * y + affine->x0,
		.y = affine->yx * x + affine->yy * y + affine->y0,
	};
}

static double least4(const double *values)
{
	return fmin(fmin(values[0], values[1]), fmin(values[2], values[3]));
}

static double greatest4(const double *values)
{
	return fmax(fmax(values[0], values[1]), fmax(values[2], values[3]));
}

/* Pillow sends the picture's corners through the inverse, which makes the same size. */
static void expand_to_corners(struct affine *affine, double *width, double *height)
{
	double corner_x[4], corner_y[4];
	double new_width, new_height;
	struct affine_point origin;

	for (int i = 0; i < 4; i++) {
		struct affine_point corner = at(affine, i & 1 ? *width : 0, i & 2 ? *height : 0);

		corner_x[i] = corner.x;
		corner_y[i] = corner.y;
	}
	new_width = ceil(greatest4(corner_x)) - floor(least4(corner_x));
	new_height = ceil(greatest4(corner_y)) - floor(least4(corner_y));
	origin = at(affine, -(new_width - *width) / 2, -(new_height - *height) / 2);
	affine->x0 = origin.x;
	affine->y0 = origin.y;
	*width = new_width;
	*height = new_height;
}

void affine_rotation(struct affine *affine, double degrees, const struct affine_point *centre,
	bool expand, double *width, double *height)
{
	double angle = -radians(degrees);
	double cosine = round15(cos(angle)), sine = round15(sin(angle));
	struct affine_point moved;

	*affine = (struct affine){.xx = cosine, .xy = sine, .yx = -sine, .yy = cosine};
	moved = at(affine, -centre->x, -centre->y);
	affine->x0 = moved.x + centre->x;
	affine->y0 = moved.y + centre->y;
	if (expand)
		expand_to_corners(affine, width, height);
}

void affine_inverse(struct affine *affine, const struct affine_parameters *parameters)
{
	double rotation = radians(parameters->angle);
	double shear_x = radians(parameters->shear_x), shear_y = radians(parameters->shear_y);
	double centre_x = parameters->centre.x, centre_y = parameters->centre.y;
	double from_x = -centre_x - parameters->translate.x;
	double from_y = -centre_y - parameters->translate.y;
	/* the matrix without scale, of determinant 1: a b, c d */
	double a = cos(rotation - shear_y) / cos(shear_y);
	double b = -cos(rotation - shear_y) * tan(shear_x) / cos(shear_y) - sin(rotation);
	double c = sin(rotation - shear_y) / cos(shear_y);
	double d = -sin(rotation - shear_y) * tan(shear_x) / cos(shear_y) + cos(rotation);

	*affine = (struct affine){
		.xx = d / parameters->scale,
		.xy = -b / parameters->scale,
		.yx = -c / parameters->scale,
		.yy = a / parameters->scale,
	};
	affine->x0 = affine->xx * from_x + affine->xy * from_y + centre_x;
	affine->y0 = affine->yx * from_x + affine->yy * from_y + centre_y;
}
