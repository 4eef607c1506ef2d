/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/decode.h"
#include "tests/unit/png_writer.h"

#include <errno.h>
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

static const struct decode_options limits = {.max_pixels = DECODE_MAX_PIXELS};

/* Decode a copy that is exactly as long as the file, so that a sanitizer sees a read past its end. */
static int decode(const uint8_t *bytes, size_t length, enum decode_colour colour,
	struct image *image, struct error_text *error)
{
	uint8_t *copy = malloc(length != 0 ? length : 1);
	int r;

	assert_non_null(copy);
	if (length != 0)
		memcpy(copy, bytes, length);
	error->text[0] = '\0';
	r = image_decode(copy, length, colour, &limits, image, error);
	free(copy);
	if (r != 0)
		assert_true(error->text[0] != '\0');
	return r;
}

static void assert_refused(const uint8_t *bytes, size_t length, const char *says)
{
	struct image image = IMAGE_NULL;
	struct error_text error;

	assert_int_equal(decode(bytes, length, DECODE_RGB, &image, &error), DECODE_BAD);
	if (strstr(error.text, says) == NULL)
		fail_msg("'%s' does not say '%s'", error.text, says);
	assert_int_equal(decode(bytes, length, DECODE_L, &image, &error), DECODE_BAD);
	image_finish(&image);
}

/* Channel c of the RGB pixel that must come out: worked out from the samples, not by libpng. */
static uint8_t expected_rgb(const struct png_picture *picture, uint32_t x, uint32_t y, uint32_t c)
{
	uint32_t colour = (picture->colour_type & 2) != 0 ? c : 0;
	uint32_t v;

	if (picture->colour_type == 3)
		return png_palette(png_sample(picture, x, y, 0), c);
	v = png_sample(picture, x, y, colour);
	if (picture->bit_depth == 16)
		return (uint8_t)(v >> 8);
	return (uint8_t)(v * 255 / ((1u << picture->bit_depth) - 1));
}

static uint8_t expected_l(const struct png_picture *picture, uint32_t x, uint32_t y)
{
	uint32_t r = expected_rgb(picture, x, y, 0), g = expected_rgb(picture, x, y, 1),
		 b = expected_rgb(picture, x, y, 2);

	return (uint8_t)((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
}

static void assert_pixels(const struct image *image, const struct png_picture *picture)
{
	assert_int_equal(image->width, picture->width);
	assert_int_equal(image->height, picture->height);
	for (uint32_t y = 0; y < image->height; y++)
		for (uint32_t x = 0; x < image->width; x++) {
			const uint8_t *p =
				image->pixels + ((size_t)y * image->width + x) * image->channels;

			if (image->channels == 1) {
				assert_int_equal(*p, expected_l(picture, x, y));
				continue;
			}
			for (uint32_t c = 0; c < 3; c++)
				assert_int_equal(p[c], expected_rgb(picture, x, y, c));
		}
}

static void check_picture(const struct png_picture *picture, struct image *image)
{
	static const enum decode_colour colours[] = {DECODE_L, DECODE_RGB};
	struct png_file file;
	struct picture_info info;

	png_file_write(&file, picture);
	for (int i = 0; i < 2; i++) {
		struct error_text error;
		int r = decode(file.bytes, file.length, colours[i], image, &error);

		if (r != 0)
			fail_msg("colour type %d, %d bits: %s", picture->colour_type,
				picture->bit_depth, error.text);
		assert_int_equal(image->channels, colours[i]);
		assert_pixels(image, picture);
	}
	/* The header alone suffices for the probe. */
	assert_int_equal(image_probe(file.bytes, 33, &limits, &info, NULL), 0);
	assert_int_equal(info.width, picture->width);
	assert_int_equal(info.height, picture->height);
	assert_int_equal(image_probe(file.bytes, 32, &limits, &info, NULL), DECODE_BAD);
	png_file_finish(&file);
}

static const struct {
	int colour_type, bit_depth;
} kinds[] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1}, {3, 2}, {3, 4},
	{3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};

static void every_kind(void **state)
{
	/* Adam7 has passes without any pixel in the small ones. */
	static const uint32_t sizes[][2] = {{1, 1}, {2, 1}, {1, 9}, {5, 3}, {8, 8}, {33, 17}};
	struct image image = IMAGE_NULL; /* one for all: leftovers must not show */

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (int variant = 0; variant < 8; variant++) {
				struct png_picture picture = {
					.width = sizes[s][0],
					.height = sizes[s][1],
					.colour_type = kinds[k].colour_type,
					.bit_depth = kinds[k].bit_depth,
					.interlaced = variant & 1,
					.with_gamma = variant >> 1 & 1,
					.with_transparency = variant >> 2 & 1,
					.palette = 1 << (kinds[k].bit_depth & 15),
				};

				check_picture(&picture, &image);
			}
	image_finish(&image);
}

static void short_palette(void **state)
{
	struct png_picture picture = {
		.width = 16, .height = 16, .colour_type = 3, .bit_depth = 8, .palette = 200};
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct png_file file;
	size_t plte;

	(void)state;
	/* Cut PLTE down to one entry: nearly every index is out of range. Any colour is right. */
	png_file_write(&file, &picture);
	plte = png_file_find(&file, "PLTE");
	memmove(file.bytes + plte, file.bytes + plte + 12 + 600, file.length - plte - 612);
	file.length -= 612;
	assert_refused(file.bytes, file.length, "PLTE");
	png_file_insert(&file, plte, "PLTE", "abc", 3, 0);
	assert_int_equal(decode(file.bytes, file.length, DECODE_RGB, &image, &error), 0);
	png_file_finish(&file);
	image_finish(&image);
}

static void luma(void **state)
{
	static const uint8_t rgb[] = {
		255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 1, 2, 3};
	static const uint8_t expected[] = {76, 150, 29, 255, 0, 2};
	uint8_t l[6], grey[3];

	(void)state;
	image_rgb_to_l(rgb, l, 6);
	assert_memory_equal(l, expected, 6);
	/* Grey stays what it is, which lets a grey picture skip RGB. */
	for (int v = 0; v < 256; v++) {
		memset(grey, v, 3);
		image_rgb_to_l(grey, l, 1);
		assert_int_equal(l[0], v);
	}
}

static const struct png_picture small = {
	.width = 9, .height = 7, .colour_type = 2, .bit_depth = 8, .with_gamma = 1};

static void limits_from_the_header(void **state)
{
	struct decode_options tight = {.max_pixels = 63};
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct png_file file;
	struct picture_info info;

	(void)state;
	png_file_write(&file, &small);
	assert_int_equal(
		image_decode(file.bytes, file.length, DECODE_L, &tight, &image, &error), 0);
	assert_int_equal(image_probe(file.bytes, file.length, &tight, &info, &error), 0);
	image_finish(&image);

	tight.max_pixels = 62;
	assert_int_equal(image_decode(file.bytes, file.length, DECODE_L, &tight, &image, &error),
		DECODE_BAD);
	assert_non_null(strstr(error.text, "9 x 7"));
	assert_non_null(strstr(error.text, "limit of 62 pixels"));
	assert_null(image.pixels); /* no memory was taken */
	assert_int_equal(image_probe(file.bytes, file.length, &tight, &info, &error), DECODE_BAD);
	png_file_finish(&file);
}

/* A bomb: the largest header there is, or one that fits the limit, and hardly any data behind it. */
static void bombs(void **state)
{
	static const uint32_t sizes[][2] = {{0x7fffffff, 0x7fffffff}, {13378, 13377},
		{1, 178956970}, {0, 5}, {5, 0}, {1u << 31, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t ihdr[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 2};
		struct png_file file;

		png_file_write(&file, &small);
		for (int b = 0; b < 4; b++) {
			ihdr[b] = (uint8_t)(sizes[i][0] >> (24 - 8 * b));
			ihdr[4 + b] = (uint8_t)(sizes[i][1] >> (24 - 8 * b));
		}
		memmove(file.bytes + 8, file.bytes + 33, file.length - 33);
		file.length -= 25;
		png_file_insert(&file, 8, "IHDR", ihdr, 13, 0);
		assert_refused(file.bytes, file.length, "PNG");
		png_file_finish(&file);
	}
}

static void wide_rows(void **state)
{
	struct png_picture picture = {.width = 2000000, .height = 1, .bit_depth = 8};
	struct image image = IMAGE_NULL;
	struct png_file file;

	(void)state;
	/* Twice as wide as libpng's own limit. */
	check_picture(&picture, &image);
	/* Two rows of it would take 64 MiB beside the pixels. */
	picture.width = 32 << 20;
	picture.bit_depth = 1;
	png_file_write(&file, &picture);
	assert_refused(file.bytes, file.length, "too wide");
	png_file_finish(&file);
	image_finish(&image);
}

static void cut_anywhere(void **state)
{
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct png_file file;

	(void)state;
	png_file_write(&file, &small);
	for (size_t length = 0; length < file.length - 4; length++)
		assert_refused(file.bytes, length,
			length == 0   ? "empty file"
			: length < 8  ? "not PNG or JPEG"
			: length < 33 ? "ends inside its header"
				      : "cut short");
	/* The CRC of IEND is not missed: Pillow stops at its name. */
	for (size_t length = file.length - 4; length <= file.length; length++) {
		assert_int_equal(decode(file.bytes, length, DECODE_RGB, &image, &error), 0);
		assert_pixels(&image, &small);
	}
	image_finish(&image);
	png_file_finish(&file);
}

static void flip_anywhere(void **state)
{
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct png_file file;
	size_t iend;

	(void)state;
	png_file_write(&file, &small);
	iend = png_file_find(&file, "IEND");
	for (size_t bit = 0; bit < file.length * 8; bit++) {
		bool matters = bit / 8 < iend || (bit / 8 >= iend + 4 && bit / 8 < iend + 8);

		file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (matters)
			assert_refused(
				file.bytes, file.length, bit < 64 ? "not PNG" : "damaged PNG");
		else
			assert_int_equal(
				decode(file.bytes, file.length, DECODE_RGB, &image, &error), 0);
		file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	image_finish(&image);
	png_file_finish(&file);
}

static void signatures(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		const char *says;
	} cases[] = {
		{"", 0, "empty file"},
		{"\x89", 1, "not PNG or JPEG"},
		{"\x89PNG\r\n\x1a", 7, "not PNG or JPEG"},
		{"\x89PNG\r\n\x1a\n", 8, "ends inside its header"},
		{"\x89PNG\n\n\x1a\n\0\0\0\rIHDR", 16, "not PNG or JPEG"},
		{"GIF89a", 6, "not PNG or JPEG"},
		{"BM\x8a\xc0", 4, "not PNG or JPEG"},
		{"RIFF\x10\0\0\0WEBPVP8 ", 16, "not PNG or JPEG"},
		{"\xff\xd8", 2, "not PNG or JPEG"},
		{"\xff\xd8\xff\xe0\0\x10JFIF", 10, "damaged JPEG: cut short"},
	};
	struct picture_info info;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error_text error = {.text = ""};

		assert_refused((const uint8_t *)cases[i].bytes, cases[i].length, cases[i].says);
		assert_int_equal(
			image_probe(cases[i].bytes, cases[i].length, &limits, &info, &error),
			DECODE_BAD);
		assert_non_null(strstr(error.text, cases[i].says));
	}
}

static void one_buffer(void **state)
{
	struct image image = IMAGE_NULL;

	(void)state;
	assert_int_equal(image_resize(&image, 100, 100, 3), 0);
	assert_int_equal(image.capacity, 30000);
	assert_int_equal(image_resize(&image, 28, 28, 1), 0);
	assert_int_equal(image.capacity, 30000);
	/* A giant's memory goes back with the next picture of ordinary size. */
	assert_int_equal(image_resize(&image, 8192, 8192, 1), 0);
	assert_int_equal(image_resize(&image, 28, 28, 1), 0);
	assert_int_equal(image.capacity, 784);
	assert_int_equal(image_resize(&image, UINT32_MAX, UINT32_MAX, 3), -EOVERFLOW);
	image_finish(&image);
	image_finish(&image);
	assert_null(image.pixels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind),
		cmocka_unit_test(short_palette),
		cmocka_unit_test(luma),
		cmocka_unit_test(limits_from_the_header),
		cmocka_unit_test(bombs),
		cmocka_unit_test(wide_rows),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(flip_anywhere),
		cmocka_unit_test(signatures),
		cmocka_unit_test(one_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
