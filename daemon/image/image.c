/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/image.h"

#include "daemon/util/checked.h"

#include <errno.h>
#include <stdlib.h>

/* One giant picture must not pin its memory for the rest of a worker's life. */
#define IMAGE_KEEP_MAX (UINT64_C(32) << 20)

int image_resize(struct image *image, uint32_t width, uint32_t height, uint32_t channels)
{
	uint64_t size = (uint64_t)width * height;

	if (!checked_mul(size, channels, &size) || size > PTRDIFF_MAX)
		return -EOVERFLOW;
	if (size > image->capacity ||
		(image->capacity > IMAGE_KEEP_MAX && size <= IMAGE_KEEP_MAX)) {
		image_finish(image);
		image->pixels = malloc(size);
		if (image->pixels == NULL)
			return -ENOMEM;
		image->capacity = size;
	}
	image->width = width;
	image->height = height;
	image->channels = channels;
	return 0;
}

void image_finish(struct image *image)
{
	free(image->pixels);
	*image = (struct image)IMAGE_NULL;
}

void image_rgb_to_l(const uint8_t *rgb, uint8_t *l, size_t pixels)
{
	for (size_t i = 0; i < pixels; i++) {
		const uint8_t *p = rgb + 3 * i;

		l[i] = (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16);
	}
}
