/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a picture: both colours and the header alone must agree with each other. */
#include "daemon/image/decode.h"

#include <assert.h>
#include <string.h>
#include <zlib.h>

#ifdef NDEBUG
#error "the target needs assert"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* libFuzzer's own; absent where the corpus is only replayed. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static int decode(const uint8_t *data, size_t size, enum decode_colour colour, struct image *image,
	struct error_text *error)
{
	/* Small enough for the fuzzer's memory and time, large enough for every shape of row. */
	static const struct decode_limits limits = {.max_pixels = 1 << 20};
	uint32_t width = 0, height = 0;
	int r = image_decode(data, size, colour, &limits, image, error);

	assert(r == 0 || r == DECODE_BAD);
	if (r != 0) {
		assert(error->text[0] != '\0' && strlen(error->text) < ERROR_TEXT_MAX);
		return r;
	}
	assert(image_probe(data, size, &limits, &width, &height, NULL) == 0);
	assert(width == image->width && height == image->height);
	assert(image->channels == (uint32_t)colour);
	assert((uint64_t)width * height * colour <= image->capacity);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Kept from input to input, as a worker does: leftovers must never show. */
	static struct image rgb = IMAGE_NULL, l = IMAGE_NULL;
	struct error_text rgb_error = {.text = ""}, l_error = {.text = ""};
	int r = decode(data, size, DECODE_RGB, &rgb, &rgb_error);

	assert(decode(data, size, DECODE_L, &l, &l_error) == r);
	assert(strcmp(rgb_error.text, l_error.text) == 0);
	if (r == 0) {
		size_t pixels = (size_t)rgb.width * rgb.height;

		assert(rgb.width == l.width && rgb.height == l.height);
		image_rgb_to_l(rgb.pixels, rgb.pixels, pixels);
		assert(memcmp(rgb.pixels, l.pixels, pixels) == 0);
	}
	return 0;
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Most mutations would end at the first CRC; most of them get it put right instead. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	size_t offset = 8;

	size = LLVMFuzzerMutate(data, size, max_size);
	if (seed % 8 == 0)
		return size;
	while (size >= offset + 12 && be32(data + offset) <= size - offset - 12) {
		uint32_t length = be32(data + offset);
		uint32_t crc = crc32(0, data + offset + 4, 4 + length);
		uint8_t *stored = data + offset + 8 + length;

		for (int i = 0; i < 4; i++)
			stored[i] = (uint8_t)(crc >> (24 - 8 * i));
		offset += 12 + (size_t)length;
	}
	return size;
}
