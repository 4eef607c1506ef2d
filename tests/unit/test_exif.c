/* SPDX-License-Identifier: Apache-2.0 */
/* EXIF data that are hostile, and pixels that are put into their places. What intact data mean is tested
 * against Pillow (test_exif.py). */
#include "daemon/image/decode/exif.h"
#include "daemon/image/decode/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A resolution outside the directory, then the orientation, 6. */
static const uint8_t data[] = {'I', 'I', '*', 0, 8, 0, 0, 0, 2, 0, 0x1a, 1, 5, 0, 1, 0, 0, 0, 38, 0,
	0, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 72, 0, 0, 0, 1, 0, 0, 0};
enum { RESOLUTION_END = 46, FIRST_OFFSET = 18 };

/* In a buffer of exactly this size, so that a sanitizer sees a read past its end. */
static uint32_t orientation(const void *bytes, size_t length)
{
	uint8_t *copy = malloc(length != 0 ? length : 1);
	uint32_t result;

	memcpy(copy, bytes, length);
	result = exif_orientation(copy, length);
	free(copy);
	return result;
}

static void every_length(void **state)
{
	(void)state;
	assert_int_equal(sizeof(data), RESOLUTION_END);
	assert_int_equal(orientation(data, sizeof(data)), 6);
	assert_int_equal(orientation(data, 0), EXIF_NONE);
	for (size_t length = 1; length < sizeof(data); length++)
		/* Without all of the resolution the directory ends before the orientation. */
		assert_int_equal(orientation(data, length), length < 8 ? EXIF_UPRIGHT : EXIF_NONE);
}

static void put32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static void hostile_offsets(void **state)
{
	static const uint32_t offsets[] = {0, 1, RESOLUTION_END - 8, RESOLUTION_END - 7,
		RESOLUTION_END, 0x7fffffff, 0xfffffff8, 0xffffffff};
	uint8_t bent[sizeof(data)];

	(void)state;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		memcpy(bent, data, sizeof(data));
		put32(bent + FIRST_OFFSET, offsets[i]);
		assert_int_equal(orientation(bent, sizeof(bent)),
			offsets[i] <= RESOLUTION_END - 8 ? 6 : EXIF_NONE);
		/* Where the directory is, and how many values there are. */
		memcpy(bent, data, sizeof(data));
		put32(bent + 4, offsets[i]);
		assert_int_equal(orientation(bent, sizeof(bent)), EXIF_NONE);
		memcpy(bent, data, sizeof(data));
		put32(bent + FIRST_OFFSET - 4, offsets[i]);
		assert_int_equal(orientation(bent, sizeof(bent)), offsets[i] < 2 ? 6 : EXIF_NONE);
	}
	/* More entries than there is room for. */
	memcpy(bent, data, sizeof(data));
	bent[8] = bent[9] = 0xff;
	assert_int_equal(orientation(bent, sizeof(bent)), 6);
}

static void any_bytes(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (int round = 0; round < 100000; round++) {
		uint8_t bent[sizeof(data)];
		size_t length;

		memcpy(bent, data, sizeof(data));
		for (int i = 0; i < 3; i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
			bent[(random >> 33) % sizeof(data)] = (uint8_t)(random >> 56);
		}
		length = (random >> 40) % 4 == 0 ? (random >> 44) % sizeof(data) : sizeof(data);
		assert_in_range(orientation(bent, length), EXIF_NONE, EXIF_ORIENTATION_MAX);
	}
}

static void segments(void **state)
{
	uint8_t segment[6 + sizeof(data)] = "Exif";

	(void)state;
	memcpy(segment + 6, data, sizeof(data));
	assert_int_equal(exif_segment_orientation(segment, sizeof(segment)), 6);
	assert_int_equal(exif_segment_orientation(segment, 6), EXIF_NONE);
	assert_int_equal(exif_segment_orientation(segment, 5), EXIF_UPRIGHT);
	segment[5] = 1;
	assert_int_equal(exif_segment_orientation(segment, sizeof(segment)), EXIF_UPRIGHT);
}

/* All rows at once, one by one, and the even columns before the odd one. */
static void pixels_go_to_their_places(void **state)
{
	/* 3 x 2 pixels, and what the orientations make of them. */
	static const char *const turned[] = {"abcdef", "abcdef", "cbafed", "fedcba", "defabc",
		"adbecf", "daebfc", "fcebda", "cfbead", "abcdef"};
	const uint8_t *in = (const uint8_t *)"abcdef";

	(void)state;
	for (uint32_t o = 0; o < sizeof(turned) / sizeof(turned[0]); o++) {
		struct placement whole = placement_of(o, 3, 2), part;
		uint8_t out[7] = "";

		placement_put(&whole, out, 1, 0, in, 3, 3, 2);
		assert_string_equal((char *)out, turned[o]);
		memset(out, 0, sizeof(out));
		for (uint32_t y = 0; y < 2; y++)
			placement_put(&whole, out, 1, y, in + 3 * (size_t)y, 3, 99, 1);
		assert_string_equal((char *)out, turned[o]);
		memset(out, 0, sizeof(out));
		for (uint32_t x0 = 0; x0 < 2; x0++)
			for (uint32_t y = 0; y < 2; y++) {
				uint8_t row[2] = {in[3 * y + x0], in[3 * y + 2]};

				part = placement_part(&whole, x0, y, 2, 1);
				placement_put(&part, out, 1, 0, row, 2 - x0, 2, 1);
			}
		assert_string_equal((char *)out, turned[o]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length),
		cmocka_unit_test(hostile_offsets),
		cmocka_unit_test(any_bytes),
		cmocka_unit_test(segments),
		cmocka_unit_test(pixels_go_to_their_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
