/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/transform.h"
#include "daemon/util/error.h"
#include "stoker.pb-c.h"

/*
 * The numbers of an Open's transforms, each list checked for its length and its range. `transform` is
 * the name for the sentence. 0, or a positive Stoker__V1__ErrorCode with a sentence.
 */

/* Refuse the request with this sentence. */
__attribute__((format(printf, 2, 3))) int open_refuse(
	struct error_text *error, const char *format, ...);

/* One size for both edges, or height and width, 1 .. IMAGE_OP_EDGE_MAX. */
int open_size(uint32_t *width, uint32_t *height, const uint32_t *size, size_t count,
	const char *transform, struct error_text *error);

/* One padding; left and right, top and bottom; or left, top, right, bottom: stored in this last order. */
int open_padding(uint32_t edges[4], const uint32_t *padding, size_t count, const char *transform,
	struct error_text *error);

/* `*values` is how many were given, with none 1 (a zero). The rest of `fill` stays as it was. */
int open_fill(uint8_t fill[4], uint32_t *values, const uint32_t *given, size_t count,
	const char *transform, struct error_text *error);

int open_padding_mode(uint32_t *mode, Stoker__V1__PaddingMode given, const char *transform,
	struct error_text *error);

/* Without a word it is `usual`. */
int open_filter(uint32_t *filter, Stoker__V1__Interpolation given, enum resample_filter usual,
	const char *transform, struct error_text *error);
