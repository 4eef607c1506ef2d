/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"

/* Pictures turned over, without any arithmetic on their pixels. */

/* In place: columns, or rows, in the opposite order; with both it is half a turn. */
void flip_columns(struct image *image);
void flip_rows(struct image *image);

/* A quarter turn counter-clockwise, or clockwise, to `out`, another picture. 0, -ENOMEM, -EOVERFLOW. */
int turn_left(const struct image *in, struct image *out);
int turn_right(const struct image *in, struct image *out);
