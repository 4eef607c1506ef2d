/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/element.h"

#include <math.h>
#include <string.h>

size_t element_bytes(uint32_t dtype)
{
	switch (dtype) {
	case PIXEL_U8: return 1;
	case PIXEL_F16:
	case PIXEL_BF16: return 2;
	case PIXEL_F32: return 4;
	case PIXEL_F64: return 8;
	default: return 0;
	}
}

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Cut `shift` bits off, to nearest, halves to even. */
static uint32_t round_off(uint32_t bits, unsigned shift)
{
	uint32_t odd = bits >> shift & 1;

	return (bits + (UINT32_C(1) << (shift - 1)) - 1 + odd) >> shift;
}

uint16_t f16_from_float(float value)
{
	uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

	if (magnitude > 0x7f800000)
		return sign | 0x7e00;
	if (magnitude >= 0x477ff000) /* 65520: half way to what would be 65536 */
		return sign | 0x7c00;
	if (magnitude >= 0x38800000) /* 2^-14: a carry out of the fraction raises the exponent */
		return sign | (uint16_t)round_off(magnitude - 0x38000000, 13);
	if (magnitude < 0x33000000) /* 2^-25 */
		return sign;
	/* Subnormal: a multiple of 2^-24. */
	return sign |
	       (uint16_t)round_off((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
}

float f16_to_float(uint16_t bits)
{
	uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;

	if (rest >= 0x7c00)
		return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest >= 0x400)
		return float_of(sign | ((rest << 13) + 0x38000000));
	return sign != 0 ? -(float)rest * 0x1p-24f : (float)rest * 0x1p-24f;
}

uint16_t bf16_from_float(float value)
{
	uint32_t bits = bits_of(value);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fc0;
	return (uint16_t)round_off(bits, 16);
}

float bf16_to_float(uint16_t bits)
{
	return float_of((uint32_t)bits << 16);
}

float element_round(uint32_t dtype, float value)
{
	switch (dtype) {
	case PIXEL_F16: return f16_to_float(f16_from_float(value));
	case PIXEL_BF16: return bf16_to_float(bf16_from_float(value));
	case PIXEL_U8: return truncf(value);
	default: return value;
	}
}

void element_store(uint32_t dtype, float value, void *to)
{
	uint16_t half;

	switch (dtype) {
	case PIXEL_F16: half = f16_from_float(value); break;
	case PIXEL_BF16: half = bf16_from_float(value); break;
	case PIXEL_U8: *(uint8_t *)to = value >= 0 && value < 256 ? (uint8_t)value : 0; return;
	default: memcpy(to, &value, sizeof(value)); return;
	}
	memcpy(to, &half, sizeof(half));
}

static bool is_float(uint32_t dtype)
{
	return dtype == PIXEL_F16 || dtype == PIXEL_BF16 || dtype == PIXEL_F32;
}

bool element_map_valid(const struct element_map *map)
{
	if (map->kind == ELEMENT_NORMALIZE)
		return is_float(map->to);
	return map->kind == ELEMENT_CONVERT && (map->from == PIXEL_U8 || is_float(map->from)) &&
	       (map->to == PIXEL_U8 || is_float(map->to));
}

static float convert(uint32_t from, uint32_t to, float value)
{
	if (from == to)
		return value;
	if (from == PIXEL_U8)
		return element_round(to, value / 255.0f);
	if (to != PIXEL_U8)
		return element_round(to, value);
	/* torchvision: times max + 1 - 1e-3, so that each byte gets about as many floats. */
	value = element_round(from, value * 255.999f);
	return value > -1 && value < 256 ? truncf(value) : NAN;
}

float element_map_apply(const struct element_map *map, uint32_t channel, float value)
{
	if (map->kind == ELEMENT_CONVERT)
		return convert(map->from, map->to, value);
	value = element_round(map->to, value - map->mean[channel]);
	return element_round(map->to, value / map->std[channel]);
}
