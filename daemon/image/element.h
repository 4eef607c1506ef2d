/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Single values of tensors, and what torch makes of them in its dtypes. */
enum pixel_dtype {
	PIXEL_U8 = 1,
	PIXEL_F16 = 2,  /* IEEE 754 half */
	PIXEL_BF16 = 3, /* the upper half of a float */
	PIXEL_F32 = 4,
	PIXEL_F64 = 5, /* of drawn parameters, not of pixels */
};

/* Bytes of one value; 0 for what is no dtype. */
size_t element_bytes(uint32_t dtype);

/* To nearest, halves to even; too large is infinite. */
uint16_t f16_from_float(float value);
float f16_to_float(uint16_t bits);
uint16_t bf16_from_float(float value);
float bf16_to_float(uint16_t bits);

/* `value` as F16, BF16 or F32 can hold it; of U8 the integer part, which must be 0 .. 255. */
float element_round(uint32_t dtype, float value);

/* Store a value that `dtype` (not F64) can hold. Anything else that is stored as U8 becomes 0. */
void element_store(uint32_t dtype, float value, void *to);

enum element_map_kind {
	ELEMENT_NORMALIZE = 1, /* (x - mean) / std, both rounded, in dtype `to` */
	ELEMENT_CONVERT,       /* ConvertImageDtype: from `from` to `to` */
};

/* What a transform makes of each value of a tensor. A plain value. */
struct element_map {
	uint32_t kind; /* enum element_map_kind */
	uint32_t from, to;
	float mean[3], std[3]; /* NORMALIZE: per channel, rounded to `to` */
};

bool element_map_valid(const struct element_map *map);

/* The value of channel `channel` behind the map, as torch computes it on a CPU: each step in float,
 * then rounded. What becomes of a float that has no byte (below 0, or 256 and more) is NAN. */
float element_map_apply(const struct element_map *map, uint32_t channel, float value);
