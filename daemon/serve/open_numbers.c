/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/open_numbers.h"

#include <stdarg.h>
#include <stdio.h>

int open_refuse(struct error_text *error, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return error_set(error, STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, "%s", text);
}

/* Is each of these numbers of pixels within `least` and the most that is taken? */
static bool edges_fit(const uint32_t *edges, size_t count, uint32_t least)
{
	for (size_t i = 0; i < count; i++) {
		if (edges[i] < least || edges[i] > IMAGE_OP_EDGE_MAX)
			return false;
	}
	return true;
}

int open_size(uint32_t *width, uint32_t *height, const uint32_t *size, size_t count,
	const char *transform, struct error_text *error)
{
	if (count != 1 && count != 2)
		return open_refuse(error, "%s: size takes 1 or 2 values", transform);
	if (!edges_fit(size, count, 1))
		return open_refuse(error, "%s: size must be 1 to %d", transform, IMAGE_OP_EDGE_MAX);
	*height = size[0];
	*width = size[count - 1];
	return 0;
}

int open_padding(uint32_t edges[4], const uint32_t *padding, size_t count, const char *transform,
	struct error_text *error)
{
	if (count != 1 && count != 2 && count != 4)
		return open_refuse(error, "%s: padding takes 1, 2 or 4 values", transform);
	if (!edges_fit(padding, count, 0))
		return open_refuse(
			error, "%s: padding must be 0 to %d", transform, IMAGE_OP_EDGE_MAX);
	edges[0] = padding[0];
	edges[1] = padding[count > 1];
	edges[2] = padding[count == 4 ? 2 : 0];
	edges[3] = padding[count == 4 ? 3 : count - 1];
	return 0;
}

int open_fill(uint8_t fill[4], uint32_t *values, const uint32_t *given, size_t count,
	const char *transform, struct error_text *error)
{
	if (count != 0 && count != 1 && count != 3)
		return open_refuse(error, "%s: fill takes 1 or 3 values", transform);
	for (size_t i = 0; i < count; i++) {
		if (given[i] > 255)
			return open_refuse(error, "%s: fill must be 0 to 255", transform);
		fill[i] = (uint8_t)given[i];
	}
	*values = count == 0 ? 1 : (uint32_t)count;
	return 0;
}

int open_padding_mode(uint32_t *mode, Stoker__V1__PaddingMode given, const char *transform,
	struct error_text *error)
{
	switch (given) {
	case STOKER__V1__PADDING_MODE__PADDING_MODE_UNSPECIFIED:
	case STOKER__V1__PADDING_MODE__PADDING_MODE_CONSTANT: *mode = WINDOW_CONSTANT; return 0;
	case STOKER__V1__PADDING_MODE__PADDING_MODE_EDGE: *mode = WINDOW_EDGE; return 0;
	case STOKER__V1__PADDING_MODE__PADDING_MODE_REFLECT: *mode = WINDOW_REFLECT; return 0;
	case STOKER__V1__PADDING_MODE__PADDING_MODE_SYMMETRIC: *mode = WINDOW_SYMMETRIC; return 0;
	default: return open_refuse(error, "%s: unknown padding mode", transform);
	}
}

int open_filter(uint32_t *filter, Stoker__V1__Interpolation given, enum resample_filter usual,
	const char *transform, struct error_text *error)
{
	switch (given) {
	case STOKER__V1__INTERPOLATION__INTERPOLATION_UNSPECIFIED: *filter = usual; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_NEAREST: *filter = RESAMPLE_NEAREST; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_BILINEAR:
		*filter = RESAMPLE_BILINEAR;
		return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_BICUBIC: *filter = RESAMPLE_BICUBIC; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_LANCZOS: *filter = RESAMPLE_LANCZOS; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_BOX: *filter = RESAMPLE_BOX; return 0;
	case STOKER__V1__INTERPOLATION__INTERPOLATION_HAMMING: *filter = RESAMPLE_HAMMING; return 0;
	default: return open_refuse(error, "%s: unknown interpolation", transform);
	}
}
