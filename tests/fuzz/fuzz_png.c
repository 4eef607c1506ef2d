/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/picture.h"

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* libFuzzer's own; absent where the corpus is only replayed. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Small enough for the fuzzer's memory and time, large enough for every shape of row. */
	static const struct decode_options options = {.max_pixels = 1 << 20};

	check_picture(data, size, &options);
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
