/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/decode.h"
#include "tests/unit/jpeg_writer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

static const struct decode_options limits = {.max_pixels = DECODE_MAX_PIXELS};
static const struct jpeg_picture small = {
	.width = 37, .height = 29, .colours = JCS_YCbCr, .subsampling = 2};
static const struct jpeg_picture progressive = {
	.width = 37, .height = 29, .colours = JCS_YCbCr, .subsampling = 2, .progressive = 1};

/* Decode a copy that is exactly as long as the file, so that a sanitizer sees a read past its end. */
static int decode(const uint8_t *bytes, size_t length, enum decode_colour colour,
	struct image *image, struct error_text *error)
{
	uint8_t *copy = malloc(length != 0 ? length : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, bytes, length);
	error->text[0] = '\0';
	r = image_decode(copy, length, colour, &limits, image, error);
	free(copy);
	if (r != 0)
		assert_true(error->text[0] != '\0');
	return r;
}

static void assert_refused(const struct jpeg_file *file, size_t length, const char *says)
{
	struct image image = IMAGE_NULL;
	struct error_text error;

	assert_int_equal(decode(file->bytes, length, DECODE_RGB, &image, &error), DECODE_BAD);
	if (strstr(error.text, says) == NULL)
		fail_msg("'%s' does not say '%s'", error.text, says);
	assert_int_equal(decode(file->bytes, length, DECODE_L, &image, &error), DECODE_BAD);
	image_finish(&image);
}

/* What Pillow makes of a CMYK file's pixel, computed another way than in the decoder: a x b / 255 is
 * never half way between two numbers, so rounding it is all that MULDIV255 does. */
static uint8_t rgb_of_cmyk(uint8_t byte, uint8_t k)
{
	double share = (255 - byte) * k / 255.0;

	return (uint8_t)(k - (int)(share + 0.5));
}

/* The RGB pixels that must come out: the caller frees. */
static uint8_t *expected_rgb(const struct jpeg_file *file, const struct jpeg_picture *picture)
{
	size_t pixels = (size_t)picture->width * picture->height;
	uint8_t *cmyk, *rgb;

	if (jpeg_channels(picture) != 4)
		return jpeg_file_read_plainly(file, JCS_RGB);
	cmyk = jpeg_file_read_plainly(file, JCS_CMYK);
	rgb = malloc(3 * pixels);
	assert_non_null(rgb);
	for (size_t i = 0; i < 3 * pixels; i++)
		rgb[i] = rgb_of_cmyk(cmyk[i / 3 * 4 + i % 3], cmyk[i / 3 * 4 + 3]);
	free(cmyk);
	return rgb;
}

/* Compression at quality 100 keeps what was put in, nearly; grey and colour must not be mixed up. */
static void assert_near_source(const struct image *image, const struct jpeg_picture *picture)
{
	uint64_t off = 0;

	if (picture->subsampling == 2 || jpeg_channels(picture) == 4)
		return;
	for (uint32_t y = 0; y < image->height; y++)
		for (uint32_t x = 0; x < image->width; x++)
			for (uint32_t c = 0; c < 3; c++) {
				uint32_t from = picture->colours == JCS_GRAYSCALE ? 0 : c;

				off += (uint64_t)abs(
					image->pixels[((size_t)y * image->width + x) * 3 + c] -
					jpeg_sample(x, y, from));
			}
	assert_true(off <= (uint64_t)image->width * image->height * 3 * 2);
}

static void check_picture(const struct jpeg_picture *picture, struct image *image)
{
	size_t pixels = (size_t)picture->width * picture->height;
	struct error_text error;
	struct jpeg_file file;
	uint8_t *rgb;

	jpeg_file_write(&file, picture);
	rgb = expected_rgb(&file, picture);
	if (decode(file.bytes, file.length, DECODE_RGB, image, &error) != 0)
		fail_msg("colours %d: %s", picture->colours, error.text);
	assert_int_equal(image->width, picture->width);
	assert_int_equal(image->height, picture->height);
	assert_int_equal(image->channels, 3);
	assert_memory_equal(image->pixels, rgb, 3 * pixels);
	assert_near_source(image, picture);

	assert_int_equal(decode(file.bytes, file.length, DECODE_L, image, &error), 0);
	assert_int_equal(image->channels, 1);
	image_rgb_to_l(rgb, rgb, pixels);
	assert_memory_equal(image->pixels, rgb, pixels);
	free(rgb);
	jpeg_file_finish(&file);
}

static void every_kind(void **state)
{
	static const J_COLOR_SPACE colours[] = {
		JCS_GRAYSCALE, JCS_RGB, JCS_YCbCr, JCS_CMYK, JCS_YCCK};
	static const uint32_t sizes[][2] = {{1, 1}, {8, 8}, {17, 33}, {100, 75}, {300, 2}};
	struct image image = IMAGE_NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t c = 0; c < sizeof(colours) / sizeof(colours[0]); c++)
			for (int kind = 0; kind < 16; kind++)
				check_picture(
					&(struct jpeg_picture){
						.width = sizes[i][0],
						.height = sizes[i][1],
						.colours = colours[c],
						.subsampling = 1 + (kind >> 3 & 1),
						.progressive = kind & 1,
						.arithmetic = kind >> 1 & 1,
						.restart = kind >> 2 & 1,
					},
					&image);
	image_finish(&image);
}

static void set_size(struct jpeg_file *file, uint8_t sof, uint32_t width, uint32_t height)
{
	uint8_t *frame = file->bytes + jpeg_file_find(file, sof);

	frame[5] = (uint8_t)(height >> 8);
	frame[6] = (uint8_t)height;
	frame[7] = (uint8_t)(width >> 8);
	frame[8] = (uint8_t)width;
}

static void limits_from_the_header(void **state)
{
	const struct decode_options tight = {.max_pixels = 37 * 29};
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct jpeg_file file;
	struct picture_info info;

	(void)state;
	jpeg_file_write(&file, &small);
	assert_int_equal(
		image_decode(file.bytes, file.length, DECODE_L, &tight, &image, &error), 0);
	set_size(&file, 0xc0, 37, 30);
	assert_int_equal(image_decode(file.bytes, file.length, DECODE_L, &tight, &image, &error),
		DECODE_BAD);
	assert_non_null(strstr(error.text, "37 x 30 pixels is larger than the limit of 1073"));
	assert_int_equal(image_probe(file.bytes, file.length, &tight, &info, &error), DECODE_BAD);
	/* Nothing may be taken for it: this would be 12 GiB of pixels. */
	set_size(&file, 0xc0, 65500, 65500);
	assert_refused(&file, file.length, "65500 x 65500 pixels is larger");
	set_size(&file, 0xc0, 37, 0);
	assert_refused(&file, file.length, "damaged JPEG");
	image_finish(&image);
	jpeg_file_finish(&file);
}

static void probe_reads_the_header_alone(void **state)
{
	struct picture_info info;
	struct error_text error;
	struct jpeg_file file;
	size_t data;

	(void)state;
	jpeg_file_write(&file, &small);
	data = jpeg_file_find(&file, 0xda);
	data += 2 + (size_t)(file.bytes[data + 2] << 8 | file.bytes[data + 3]);
	assert_int_equal(image_probe(file.bytes, data, &limits, &info, &error), 0);
	assert_int_equal(info.width, 37);
	assert_int_equal(info.height, 29);
	for (size_t length = 3; length < data; length++)
		assert_int_equal(
			image_probe(file.bytes, length, &limits, &info, &error), DECODE_BAD);
	jpeg_file_finish(&file);
}

static void scans(void **state)
{
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct jpeg_file file;
	size_t last, length;
	uint8_t *scan;

	(void)state;
	/* Ten scans to begin with; the last, a refinement, is allowed to come again. */
	jpeg_file_write(&file, &progressive);
	last = jpeg_file_find_last(&file, 0xda);
	length = file.length - 2 - last;
	scan = malloc(length);
	assert_non_null(scan);
	memcpy(scan, file.bytes + last, length);
	for (int i = 10; i < 500; i++)
		jpeg_file_insert(&file, last, scan, length);
	assert_int_equal(decode(file.bytes, file.length, DECODE_RGB, &image, &error), 0);
	jpeg_file_insert(&file, last, scan, length);
	assert_refused(&file, file.length, "more than 500 scans");
	free(scan);
	image_finish(&image);
	jpeg_file_finish(&file);
}

static void kinds_that_are_not_supported(void **state)
{
	struct jpeg_file file;
	size_t frame;

	(void)state;
	jpeg_file_write(&file, &small);
	frame = jpeg_file_find(&file, 0xc0);
	file.bytes[frame + 4] = 12;
	assert_refused(&file, file.length, "12 bits per sample is not supported");
	file.bytes[frame + 4] = 8;
	for (uint8_t kind = 0xc3; kind <= 0xcf; kind++) {
		/* Huffman tables, arithmetic coding and its conditions */
		if (kind == 0xc4 || kind == 0xc9 || kind == 0xca || kind == 0xcc)
			continue;
		file.bytes[frame + 1] = kind;
		assert_refused(&file, file.length, "lossless or hierarchical JPEG");
	}
	jpeg_file_finish(&file);

	jpeg_file_write(&file, &(struct jpeg_picture){.width = 8, .height = 9});
	assert_refused(&file, file.length, "2 components is neither grey nor RGB nor CMYK");
	jpeg_file_finish(&file);
}

/* Every shorter file is refused, or it has lost nothing that shows. */
static void check_cuts(const struct jpeg_picture *picture)
{
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct jpeg_file file;
	size_t accepted = 0;
	uint8_t *rgb;

	jpeg_file_write(&file, picture);
	rgb = expected_rgb(&file, picture);
	for (size_t length = 3; length < file.length; length++) {
		if (decode(file.bytes, length, DECODE_RGB, &image, &error) == DECODE_BAD) {
			assert_non_null(strstr(error.text, "cut short"));
			continue;
		}
		assert_true(file.length - length <= 3);
		assert_memory_equal(image.pixels, rgb, (size_t)3 * 37 * 29);
		accepted++;
	}
	/* A file of several scans is not known to be complete before its last two bytes are there. */
	if (picture->progressive)
		assert_int_equal(accepted, 0);
	free(rgb);
	image_finish(&image);
	jpeg_file_finish(&file);
}

static void cut_anywhere(void **state)
{
	(void)state;
	check_cuts(&small);
	check_cuts(&progressive);
}

static void what_follows_the_picture(void **state)
{
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct jpeg_file file, other;
	uint8_t *rgb;

	(void)state;
	/* A second picture, as in MPO, or anything else. */
	jpeg_file_write(&file, &small);
	rgb = expected_rgb(&file, &small);
	jpeg_file_write(
		&other, &(struct jpeg_picture){.width = 8, .height = 9, .colours = JCS_RGB});
	jpeg_file_insert(&file, file.length, other.bytes, other.length);
	jpeg_file_insert(&file, file.length, "rest", 4);
	assert_int_equal(decode(file.bytes, file.length, DECODE_RGB, &image, &error), 0);
	assert_int_equal(image.width, 37);
	assert_memory_equal(image.pixels, rgb, (size_t)3 * 37 * 29);
	free(rgb);
	image_finish(&image);
	jpeg_file_finish(&other);
	jpeg_file_finish(&file);
}

/* A marker that cannot be, instead of the end: Pillow sees it in the first 64 KiB only. */
static void damage_behind_the_picture(void **state)
{
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct jpeg_file file;
	uint8_t *rgb, *zeros = calloc(1, 65536);

	(void)state;
	assert_non_null(zeros);
	jpeg_file_write(&file, &small);
	rgb = expected_rgb(&file, &small);
	file.length -= 2;
	jpeg_file_insert(&file, file.length, zeros, 65536 - 2 - file.length);
	jpeg_file_insert(&file, file.length, "\xff\x02", 2);
	assert_refused(&file, file.length, "Unsupported marker type 0x02");
	jpeg_file_insert(&file, 65534, zeros, 1);
	assert_int_equal(decode(file.bytes, file.length, DECODE_RGB, &image, &error), 0);
	assert_memory_equal(image.pixels, rgb, (size_t)3 * 37 * 29);
	free(rgb);
	free(zeros);
	image_finish(&image);
	jpeg_file_finish(&file);
}

/* Flip every bit: a result or a reason each time, and libjpeg keeps its warnings to itself. */
static void flip_anywhere(void **state)
{
	int capture = memfd_create("stderr", MFD_CLOEXEC), saved = dup(2);
	size_t passed = 0, refused = 0;
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct jpeg_file file;

	(void)state;
	assert_true(capture >= 0 && saved >= 0 && dup2(capture, 2) == 2);
	jpeg_file_write(&file, &progressive);
	for (size_t bit = 24; bit < file.length * 8; bit++) {
		int r;

		file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		r = decode(file.bytes, file.length, DECODE_RGB, &image, &error);
		file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(r == 0 || r == DECODE_BAD);
		*(r == 0 ? &passed : &refused) += 1;
	}
	assert_true(dup2(saved, 2) == 2);
	assert_true(passed > 100 && refused > 100);
	assert_int_equal(lseek(capture, 0, SEEK_END), 0);
	close(saved);
	close(capture);
	image_finish(&image);
	jpeg_file_finish(&file);
}

static void environment_changes_nothing(void **state)
{
	struct image image = IMAGE_NULL;
	struct error_text error;
	struct jpeg_file file;

	(void)state;
	jpeg_file_write(&file, &progressive);
	/* A limit of 1 kB for libjpeg, too little for this file. */
	assert_int_equal(setenv("JPEGMEM", "1", 1), 0);
	assert_int_equal(decode(file.bytes, file.length, DECODE_RGB, &image, &error), 0);
	assert_int_equal(unsetenv("JPEGMEM"), 0);
	image_finish(&image);
	jpeg_file_finish(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind),
		cmocka_unit_test(limits_from_the_header),
		cmocka_unit_test(probe_reads_the_header_alone),
		cmocka_unit_test(scans),
		cmocka_unit_test(kinds_that_are_not_supported),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(what_follows_the_picture),
		cmocka_unit_test(damage_behind_the_picture),
		cmocka_unit_test(flip_anywhere),
		cmocka_unit_test(environment_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
