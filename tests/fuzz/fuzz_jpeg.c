/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* libFuzzer's own; absent where the corpus is only replayed. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Few, for 500 scans may go over them. */
	static const struct decode_options options = {.max_pixels = 1 << 16};

	check_picture(data, size, &options);
	return 0;
}

/* Make another marker of the one that comes first at or behind `offset`. */
static void change_marker(uint8_t *data, size_t size, size_t offset, unsigned int seed)
{
	static const uint8_t markers[] = {0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc9, 0xca, 0xcc, 0xd0,
		0xd7, 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xe0, 0xe1, 0xee, 0xfe};

	for (; offset + 1 < size; offset++)
		if (data[offset] == 0xff && data[offset + 1] != 0) {
			data[offset + 1] = markers[seed % sizeof(markers)];
			return;
		}
}

/* Most mutations would end as another format; most of them get the signature back instead. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	static const uint8_t signature[] = {0xff, 0xd8, 0xff};

	size = LLVMFuzzerMutate(data, size, max_size);
	if (seed % 16 == 0 || size < sizeof(signature))
		return size;
	if (seed % 4 == 0)
		change_marker(data, size, seed / 64 % size, seed / 16);
	memcpy(data, signature, sizeof(signature));
	return size;
}
