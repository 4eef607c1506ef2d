/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that libpng never looks at, and what Pillow would have said about them. */
#include "daemon/image/decode/decode.h"
#include "tests/unit/png_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

enum place {
	BEFORE, /* the picture data */
	AFTER,
	BOTH, /* at either place, on its own */
};

#define DATA(string) string, sizeof(string) - 1

struct chunk_case {
	const char *type;
	const char *data;
	uint32_t length;
	enum place place;
	bool refused;
};

/* On a 9 x 7 picture of 8-bit RGB. */
static const struct chunk_case cases[] = {
	{"gAMA", DATA("\0\1\2"), BOTH, true},
	{"gAMA", DATA("\0\1\2\3"), BOTH, false},
	{"sRGB", DATA(""), BOTH, true},
	{"sRGB", DATA("\7"), BOTH, false},
	{"pHYs", DATA("\0\0\0\1\0\0\0\1"), BOTH, true},
	{"pHYs", DATA("\0\0\0\0\0\0\0\0\0"), BOTH, false},
	{"cHRM", DATA("\0\0\0\0\0"), BOTH, true},
	{"cHRM", DATA(""), BOTH, false},
	{"tRNS", DATA("\0\1\0\2\0"), BOTH, true},
	{"tRNS", DATA("\0\1\0\2\0\3"), BOTH, false},
	{"iCCP", DATA("no end of the name"), BOTH, true},
	{"iCCP", DATA(""), BOTH, true},
	{"iCCP", DATA("name\0\0rubbish"), BOTH, false},
	{"zTXt", DATA("key\0\1rubbish"), BOTH, true},
	{"zTXt", DATA("key\0\0rubbish"), BOTH, false},
	{"zTXt", DATA("key\0"), BOTH, false},
	{"zTXt", DATA("key"), BOTH, false},
	{"zTXt", DATA(""), BOTH, false},
	{"tEXt", DATA(""), BOTH, false},
	{"tEXt", DATA("\0\0\0\xff\xff"), BOTH, false},
	{"iTXt", DATA("\0"), BOTH, false},
	{"eXIf", DATA(""), BOTH, false},
	{"bKGD", DATA(""), BOTH, false},
	{"sPLT", DATA("name\0\x10\1"), BOTH, false},
	{"juNk", DATA(""), BOTH, false},
	{"juNK", DATA("anything"), BOTH, false},
	/* A critical chunk that nobody knows may change what the picture means. */
	{"JUNK", DATA(""), BEFORE, true},
	{"JUNK", DATA(""), AFTER, false},
	{"acTL", DATA("\0\0\0\1\0\0\0"), BOTH, true},
	{"acTL", DATA("\0\0\0\0\0\0\0\0"), BOTH, false},
	{"fcTL", DATA("\0\0\0\0\0\0\0\x9"), BOTH, true},
	{"fcTL", DATA("\0\0\0\0\0\0\0\x9\0\0\0\x7\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), BOTH, false},
	{"fcTL", DATA("\0\0\0\1\0\0\0\x9\0\0\0\x7\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), BOTH, true},
	{"fcTL", DATA("\0\0\0\0\0\0\0\x9\0\0\0\x7\0\0\0\1\0\0\0\0\0\0\0\0\0\0"), BOTH, true},
	{"fcTL", DATA("\0\0\0\0\0\0\0\x9\0\0\0\x7\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0"), BOTH,
		true},
	{"fcTL", DATA("\0\0\0\0\0\0\0\x5\0\0\0\x5\0\0\0\1\0\0\0\1\0\0\0\0\0\0"), BEFORE, true},
	{"fcTL", DATA("\0\0\0\0\0\0\0\x5\0\0\0\x5\0\0\0\1\0\0\0\1\0\0\0\0\0\0"), AFTER, false},
	{"fdAT", DATA("\0\0\0\0rubbish"), BOTH, true},
	{"fdAT", DATA("\0\0\0\1rubbish"), BOTH, true},
	{"fdAT", DATA(""), BOTH, true},
};

static const struct png_picture small = {.width = 9, .height = 7, .colour_type = 2, .bit_depth = 8};

static int decode(const struct png_file *file, struct error_text *error)
{
	static const struct decode_options limits = {.max_pixels = DECODE_MAX_PIXELS};
	struct image image = IMAGE_NULL;
	int r = image_decode(file->bytes, file->length, DECODE_RGB, &limits, &image, error);

	if (r == 0)
		for (uint32_t i = 0; i < 9 * 7 * 3; i++)
			assert_int_equal(
				image.pixels[i], png_sample(&small, i / 3 % 9, i / 3 / 9, i % 3));
	image_finish(&image);
	return r;
}

static void check_case(const struct chunk_case *c, const char *in_front_of)
{
	struct error_text error = {.text = ""};
	struct png_file file;
	int r;

	png_file_write(&file, &small);
	png_file_insert(&file, png_file_find(&file, in_front_of), c->type, c->data, c->length, 0);
	r = decode(&file, &error);
	if (r != (c->refused ? DECODE_BAD : 0) ||
		(c->refused && strstr(error.text, c->type) == NULL))
		fail_msg("%s of %u bytes in front of %s: %d '%s'", c->type, c->length, in_front_of,
			r, error.text);
	png_file_finish(&file);
}

static void metadata(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].place != AFTER)
			check_case(&cases[i], "IDAT");
		if (cases[i].place != BEFORE)
			check_case(&cases[i], "IEND");
	}
}

/* What tRNS must hold depends on the colour type. */
static void transparency(void **state)
{
	static const struct {
		int colour_type;
		uint32_t length;
		bool refused;
	} lengths[] = {{0, 1, true}, {0, 2, false}, {2, 5, true}, {2, 6, false}, {3, 0, false},
		{3, 1, false}, {4, 0, false}, {6, 0, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		static const struct decode_options limits = {.max_pixels = DECODE_MAX_PIXELS};
		struct png_picture picture = {.width = 3,
			.height = 3,
			.colour_type = lengths[i].colour_type,
			.bit_depth = 8,
			.palette = 9};
		struct image image = IMAGE_NULL;
		struct png_file file;
		int r;

		png_file_write(&file, &picture);
		png_file_insert(&file, png_file_find(&file, "IDAT"), "tRNS", "\0\0\0\0\0",
			lengths[i].length, 0);
		r = image_decode(file.bytes, file.length, DECODE_L, &limits, &image, NULL);
		assert_int_equal(r, lengths[i].refused ? DECODE_BAD : 0);
		png_file_finish(&file);
		image_finish(&image);
	}
}

/* Pillow checks the CRC of every chunk up to the picture data, and of none behind it. */
static void checksums(void **state)
{
	struct error_text error = {.text = ""};
	struct png_file file;

	(void)state;
	png_file_write(&file, &small);
	png_file_insert(&file, png_file_find(&file, "IEND"), "tEXt", "key\0text", 8, 1);
	assert_int_equal(decode(&file, &error), 0);
	png_file_insert(&file, png_file_find(&file, "IDAT"), "tEXt", "key\0text", 8, 1);
	assert_int_equal(decode(&file, &error), DECODE_BAD);
	assert_non_null(strstr(error.text, "tEXt: CRC error"));
	png_file_finish(&file);
}

/* acTL of `frames`, then chunks named by letters: c a fcTL and d an fdAT, each in sequence, x an
 * fcTL out of sequence, I the picture data. */
static int decode_animation(uint8_t frames, const char *chunks)
{
	uint8_t actl[8] = {0, 0, 0, frames}, sequence = 0;
	struct error_text error = {.text = ""};
	const char *next = "IDAT";
	struct png_file file;
	int r;

	png_file_write(&file, &small);
	png_file_insert(&file, png_file_find(&file, next), "acTL", actl, 8, 0);
	for (; *chunks != '\0'; chunks++) {
		uint8_t data[26] = {
			0, 0, 0, *chunks == 'x' ? 99 : sequence, 0, 0, 0, 9, 0, 0, 0, 7};

		if (*chunks == 'I') {
			next = "IEND";
			continue;
		}
		png_file_insert(&file, png_file_find(&file, next), *chunks == 'd' ? "fdAT" : "fcTL",
			data, sizeof(data), 0);
		sequence++;
	}
	r = decode(&file, &error);
	png_file_finish(&file);
	return r;
}

static void animations(void **state)
{
	(void)state;
	/* The picture data is the first frame, or stands beside the frames. */
	assert_int_equal(decode_animation(2, "cIcd"), 0);
	assert_int_equal(decode_animation(2, "Icdcd"), 0);
	assert_int_equal(decode_animation(1, "Icd"), 0);
	assert_int_equal(decode_animation(1, "cI"), 0);
	/* Frame data before any frame, or instead of the picture. */
	assert_int_equal(decode_animation(2, "Idcd"), DECODE_BAD);
	assert_int_equal(decode_animation(2, "cdI"), DECODE_BAD);
	/* An animation is left at its second frame; a single picture is read to its end. */
	assert_int_equal(decode_animation(2, "cIx"), 0);
	assert_int_equal(decode_animation(1, "Ix"), 0);
	assert_int_equal(decode_animation(1, "cIx"), DECODE_BAD);
	assert_int_equal(decode_animation(0, "Ix"), DECODE_BAD);
	assert_int_equal(decode_animation(2, "xI"), DECODE_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata),
		cmocka_unit_test(transparency),
		cmocka_unit_test(checksums),
		cmocka_unit_test(animations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
