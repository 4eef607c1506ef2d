/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the files whose names come on stdin, each ended by NUL, for a test that knows the answers.
 * Per file, in order, on stdout: a line "name TAB status TAB WxH TAB bytes TAB peak TAB text", then
 * `bytes` bytes of RGB pixels. status is ok, bad (text says why) or the number of a fatal error. WxH is
 * what the header says where there are no pixels. peak is the most heap, in bytes, that decoding took,
 * pixels included; known with AddressSanitizer only, else 0. The argument is the number of decode flags,
 * none for 0.
 */
#include "daemon/image/decode/decode.h"
#include "daemon/util/ownership.h"

#include <stdio.h>
#include <string.h>

/* AddressSanitizer's (sanitizer/allocator_interface.h); absent from other builds. */
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(
	void (*on_malloc)(const volatile void *memory, size_t size),
	void (*on_free)(const volatile void *memory));
__attribute__((weak)) size_t __sanitizer_get_allocated_size(const volatile void *memory);

static size_t heap, heap_peak;

static void note_malloc(const volatile void *memory, size_t size)
{
	(void)memory;
	heap += size;
	if (heap > heap_peak)
		heap_peak = heap;
}

static void note_free(const volatile void *memory)
{
	heap -= memory != NULL ? __sanitizer_get_allocated_size(memory) : 0;
}

static void *read_file(const char *name, size_t *length)
{
	FILE *file = fopen(name, "rb");
	uint8_t *bytes = NULL;

	*length = 0;
	if (file == NULL)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0) {
		size_t size = (size_t)ftell(file);

		/* Exactly as long as the file, so that a sanitizer sees a read past its end. */
		bytes = malloc(size != 0 ? size : 1);
		rewind(file);
		*length = bytes != NULL ? fread(bytes, 1, size, file) : 0;
	}
	fclose(file);
	return bytes;
}

static void answer(const char *name, const struct decode_options *options, struct image *image)
{
	struct error_text error = {.text = ""};
	struct picture_info info = {.width = 0};
	size_t length, pixel_bytes = 0, before;
	_cleanup_free_ void *bytes = read_file(name, &length);
	char status[16] = "ok";
	int r;

	if (bytes == NULL) {
		printf("%s\tunreadable\t0x0\t0\t0\t\n", name);
		return;
	}
	image_probe(bytes, length, options, &info, NULL);
	image_finish(image);
	before = heap_peak = heap;
	r = image_decode(bytes, length, DECODE_RGB, options, image, &error);
	if (r == 0)
		pixel_bytes = (size_t)image->width * image->height * image->channels;
	else
		snprintf(status, sizeof(status), r == DECODE_BAD ? "bad" : "%d", r);
	printf("%s\t%s\t%ux%u\t%zu\t%zu\t%s\n", name, status, r == 0 ? image->width : info.width,
		r == 0 ? image->height : info.height, pixel_bytes, heap_peak - before, error.text);
	if (pixel_bytes != 0)
		fwrite(image->pixels, 1, pixel_bytes, stdout);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct decode_options options = {.max_pixels = DECODE_MAX_PIXELS};
	_cleanup_free_ char *name = NULL;
	struct image image = IMAGE_NULL;
	size_t capacity = 0;

	if (__sanitizer_install_malloc_and_free_hooks != NULL)
		__sanitizer_install_malloc_and_free_hooks(note_malloc, note_free);
	if (argc > 1)
		options.flags = (uint32_t)strtoul(argv[1], NULL, 10) & DECODE_FLAGS;
	while (getdelim(&name, &capacity, '\0', stdin) > 0)
		answer(name, &options, &image);
	image_finish(&image);
	return 0;
}
