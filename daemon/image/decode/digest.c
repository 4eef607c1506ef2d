/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/digest.h"

#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* a state on the stack */
#include <xxhash.h>

/* L pixels, three bytes each, piece by piece. */
static XXH64_hash_t hash_grey(const uint8_t *pixels, size_t count)
{
	enum { PIECE = 1024 };
	uint8_t rgb[3 * PIECE];
	XXH3_state_t state;

	XXH3_INITSTATE(&state);
	XXH3_64bits_reset(&state);
	for (size_t done = 0; done < count; done += PIECE) {
		size_t piece = count - done < PIECE ? count - done : PIECE;

		for (size_t i = 0; i < piece; i++)
			memset(rgb + 3 * i, pixels[done + i], 3);
		XXH3_64bits_update(&state, rgb, 3 * piece);
	}
	return XXH3_64bits_digest(&state);
}

void image_digest(const struct image *image, uint64_t bytes, struct batch_digest *digest)
{
	size_t pixels = (size_t)image->width * image->height;

	*digest = (struct batch_digest){
		.xxh3 = image->channels == 1 ? hash_grey(image->pixels, pixels)
					     : XXH3_64bits(image->pixels, 3 * pixels),
		.width = image->width,
		.height = image->height,
		.bytes = bytes,
	};
}
