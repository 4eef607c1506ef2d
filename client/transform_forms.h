/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/transform_literal.h"

/*
 * The forms that an argument of a transform can have. A form takes a value from the text for a
 * parameter and stores it in `field`, a member of struct transform_text_step; or it says what the
 * parameter takes, at the character that is wrong. 0 or -EINVAL.
 */
struct parameter;
typedef int transform_form(struct scanner *scanner, const struct parameter *parameter,
	const struct literal *literal, void *field);

struct parameter {
	const char *name;
	transform_form *form;
	size_t field; /* offset in struct transform_text_step */
	double least, most;
	uint32_t counts;    /* bit n: a sequence may have n values */
	uint32_t allows;    /* bits of enum allowance */
	const char *wanted; /* what it takes, for people */
};

enum allowance {
	ALLOWS_NONE = 1,       /* None: the field stays as it is */
	ALLOWS_NUMBER = 2,     /* a number alone, not only a sequence */
	ALLOWS_CUT = 4,        /* a float alone becomes a whole number, as by int() */
	ALLOWS_INTEGRAL = 8,   /* floats that are whole numbers */
	ALLOWS_ANY_ORDER = 16, /* the first of two values may be the greater one */
};

/* ---- transform_numbers.c ---- */

transform_form form_whole_numbers; /* struct transform_text_numbers */
transform_form form_kernel;        /* the same, odd */
transform_form form_whole_number;  /* uint32_t */
transform_form form_channels;      /* uint32_t */
transform_form form_float32s;      /* struct transform_text_values */
transform_form form_divisors;      /* the same, none 0 */
transform_form form_number;        /* double */
transform_form form_doubles;       /* struct transform_text_doubles; pairs with the least first */
transform_form form_symmetric;     /* the same; a number x is (-x, x) */
transform_form form_constant;      /* the same; a number x is (x, x) */
transform_form form_factor; /* the same; x is (max(0, 1 - x), 1 + x), and (1, 1) is nothing */
transform_form form_shift;  /* the same; x is (-x, x), and (0, 0) is nothing */
transform_form form_erasing_value; /* struct transform_text_step itself */

/* ---- transform_constants.c ---- */

transform_form form_interpolation;     /* enum transform_text_interpolation */
transform_form form_map_interpolation; /* one for rotated pictures */
transform_form form_padding_mode;      /* enum transform_text_padding */
transform_form form_bool;              /* bool */
transform_form form_ignored_bool;      /* nothing: it says how torch works, not what comes out */
transform_form form_antialias;         /* nothing: PIL images always are */
transform_form form_dtype;             /* enum transform_text_dtype */

/* ---- transform_signatures.c ---- */

enum { PARAMETERS_MAX = 7 };

/* A transform with its parameters in torchvision's order. */
struct signature {
	const char *name;
	const struct parameter *parameters;
	size_t count, required;
	const char *example;
	struct transform_text_step defaults; /* its kind too */
};

/* The transform of this name, or NULL. */
const struct signature *transform_signature_find(const struct scanner *scanner, struct token name);

/* "Resize, CenterCrop, ... and Normalize" */
void transform_signature_list(char *text, size_t size);

/* Do the arguments fit each other? `places` says where each stands. 0 or -EINVAL. */
int transform_arguments_check(
	struct scanner *scanner, const struct transform_text_step *step, const size_t *places);
