/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats and ConvertImageDtype; that pipelines give torch's values is for test_random_transforms.py. */
#include "daemon/image/element.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

/* Each half, what lies in the middle of two, and what lies right beside the middle. */
static void halves(void **state)
{
	(void)state;
	for (uint16_t h = 0; h < 0x7c00; h++) {
		float value = f16_to_float(h), next = f16_to_float(h + 1);
		float middle = h == 0x7bff ? 65520 : (value + next) / 2;
		uint16_t even = h % 2 == 0 ? h : h + 1;

		assert_true(value == ldexpf((float)(h < 0x400 ? h : (h & 0x3ff) | 0x400),
					     h < 0x400 ? -24 : (h >> 10) - 25));
		assert_int_equal(f16_from_float(value), h);
		assert_int_equal(f16_from_float(-value), h | 0x8000);
		assert_int_equal(f16_from_float(middle), even);
		assert_int_equal(f16_from_float(-middle), even | 0x8000);
		assert_int_equal(f16_from_float(nextafterf(middle, 0)), h);
		assert_int_equal(f16_from_float(nextafterf(middle, INFINITY)), h + 1);
	}
	assert_int_equal(f16_from_float(FLT_MAX), 0x7c00);
	assert_int_equal(f16_from_float(-INFINITY), 0xfc00);
	assert_true(f16_to_float(0xfc00) == -INFINITY);
	assert_int_equal(f16_from_float(FLT_TRUE_MIN), 0);
	assert_int_equal(f16_from_float(-FLT_MIN), 0x8000);
	assert_true(signbit(f16_to_float(0x8000)));
	assert_true(isnan(f16_to_float(f16_from_float(NAN))));
}

static void brain_floats(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x7f80; h++) {
		float value = bf16_to_float((uint16_t)h), middle;
		uint32_t bits = h << 16 | 0x8000;

		memcpy(&middle, &bits, sizeof(middle));
		assert_int_equal(bf16_from_float(value), h);
		assert_int_equal(bf16_from_float(-value), h | 0x8000);
		assert_int_equal(bf16_from_float(middle), h + h % 2);
		assert_int_equal(bf16_from_float(nextafterf(middle, 0)), h);
		assert_int_equal(bf16_from_float(nextafterf(middle, INFINITY)), h + 1);
	}
	assert_int_equal(bf16_from_float(INFINITY), 0x7f80);
	assert_int_equal(bf16_from_float(FLT_MAX), 0x7f80);
	assert_true(isnan(bf16_to_float(bf16_from_float(NAN))));
	assert_true(isnan(bf16_to_float(bf16_from_float(-NAN))));
}

static float converted(uint32_t from, uint32_t to, float value)
{
	const struct element_map map = {.kind = ELEMENT_CONVERT, .from = from, .to = to};

	assert_true(element_map_valid(&map));
	return element_map_apply(&map, 0, value);
}

static void conversions(void **state)
{
	(void)state;
	for (int v = 0; v < 256; v++) {
		float value = (float)v;

		assert_true(converted(PIXEL_U8, PIXEL_F32, value) == value / 255.0f);
		assert_true(converted(PIXEL_F32, PIXEL_U8, value / 255.0f) == value);
		assert_true(converted(PIXEL_U8, PIXEL_U8, value) == value);
	}
	assert_true(converted(PIXEL_U8, PIXEL_BF16, 100) == 0.392578125f);
	assert_true(converted(PIXEL_F32, PIXEL_U8, 0.999f) == 255);
	assert_true(converted(PIXEL_F32, PIXEL_U8, -0.001f) == 0);
	/* torch makes of these what its machine does */
	assert_true(isnan(converted(PIXEL_F32, PIXEL_U8, 1.01f)));
	assert_true(isnan(converted(PIXEL_F32, PIXEL_U8, -0.004f)));
	assert_true(isnan(converted(PIXEL_F32, PIXEL_U8, NAN)));
	assert_true(isnan(converted(PIXEL_F16, PIXEL_U8, 1)));
}

static void maps_are_checked(void **state)
{
	struct element_map map = {.kind = ELEMENT_CONVERT, .from = PIXEL_U8, .to = PIXEL_F64};

	(void)state;
	assert_false(element_map_valid(&map));
	map.to = PIXEL_F32;
	assert_true(element_map_valid(&map));
	map.from = 0;
	assert_false(element_map_valid(&map));
	map.kind = ELEMENT_NORMALIZE;
	assert_true(element_map_valid(&map));
	map.to = PIXEL_U8;
	assert_false(element_map_valid(&map));
	map.kind = 3;
	assert_false(element_map_valid(&map));
}

static void stored(void **state)
{
	uint8_t bytes[5] = {0xee, 0xee, 0xee, 0xee, 0xee};
	float value;

	(void)state;
	element_store(PIXEL_U8, 255.9f, bytes);
	assert_int_equal(bytes[0], 255);
	element_store(PIXEL_U8, 256, bytes);
	assert_int_equal(bytes[0], 0);
	element_store(PIXEL_U8, -1, bytes);
	assert_int_equal(bytes[0], 0);
	element_store(PIXEL_U8, NAN, bytes);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(bytes[1], 0xee);
	element_store(PIXEL_F16, 1, bytes + 1);
	assert_memory_equal(bytes + 1, ((uint8_t[]){0x00, 0x3c, 0xee, 0xee}), 4);
	element_store(PIXEL_BF16, 1, bytes + 1);
	assert_memory_equal(bytes + 1, ((uint8_t[]){0x80, 0x3f, 0xee, 0xee}), 4);
	element_store(PIXEL_F32, 0.1f, bytes + 1);
	memcpy(&value, bytes + 1, sizeof(value));
	assert_true(value == 0.1f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(halves),
		cmocka_unit_test(brain_floats),
		cmocka_unit_test(conversions),
		cmocka_unit_test(maps_are_checked),
		cmocka_unit_test(stored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
