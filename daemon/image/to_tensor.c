/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/erase.h"
#include "daemon/image/transform.h"

#include <assert.h>
#include <string.h>

/*
 * One inner loop per way the channels travel: `repeat` writes one decoded channel to three,
 * `planes` takes interleaved RGB apart, `table` maps each byte to its value. The loops are plain and
 * their pointers do not alias, so that the compiler may unroll and vectorise them.
 */
static void u8_planes(const uint8_t *restrict in, uint8_t *restrict out, size_t pixels)
{
	uint8_t *restrict r = out, *restrict g = out + pixels, *restrict b = out + 2 * pixels;

	for (size_t i = 0; i < pixels; i++) {
		r[i] = in[3 * i];
		g[i] = in[3 * i + 1];
		b[i] = in[3 * i + 2];
	}
}

static void u8_interleaved_repeat(const uint8_t *restrict in, uint8_t *restrict out, size_t pixels)
{
	for (size_t i = 0; i < pixels; i++)
		out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
}

static void copy_bytes(const struct transform_plan *plan, const uint8_t *in, uint8_t *out)
{
	size_t pixels = (size_t)plan->width * plan->height;
	bool planar = plan->layout == PIXEL_NCHW;

	if (plan->image_channels == 3 && planar)
		u8_planes(in, out, pixels);
	else if (plan->image_channels == plan->channels)
		memcpy(out, in, pixels * plan->channels);
	else if (planar)
		for (uint32_t c = 0; c < plan->channels; c++)
			memcpy(out + c * pixels, in, pixels);
	else
		u8_interleaved_repeat(in, out, pixels);
}

/* The same loops for each type of value: NAME_render(plan, in, out, tables). */
#define DEFINE_RENDER(NAME, TYPE)                                                                  \
	static void NAME##_plane(const uint8_t *restrict in, TYPE *restrict out, size_t pixels,    \
		const TYPE *restrict table)                                                        \
	{                                                                                          \
		for (size_t i = 0; i < pixels; i++)                                                \
			out[i] = table[in[i]];                                                     \
	}                                                                                          \
                                                                                                   \
	static void NAME##_planes(const uint8_t *restrict in, TYPE *restrict out, size_t pixels,   \
		const TYPE(*restrict table)[256])                                                  \
	{                                                                                          \
		TYPE *restrict r = out, *restrict g = out + pixels,                                \
			       *restrict b = out + 2 * pixels;                                     \
                                                                                                   \
		for (size_t i = 0; i < pixels; i++) {                                              \
			r[i] = table[0][in[3 * i]];                                                \
			g[i] = table[1][in[3 * i + 1]];                                            \
			b[i] = table[2][in[3 * i + 2]];                                            \
		}                                                                                  \
	}                                                                                          \
                                                                                                   \
	static void NAME##_interleaved(const uint8_t *restrict in, TYPE *restrict out,             \
		size_t pixels, const TYPE(*restrict table)[256])                                   \
	{                                                                                          \
		for (size_t i = 0; i < 3 * pixels; i += 3) {                                       \
			out[i] = table[0][in[i]];                                                  \
			out[i + 1] = table[1][in[i + 1]];                                          \
			out[i + 2] = table[2][in[i + 2]];                                          \
		}                                                                                  \
	}                                                                                          \
                                                                                                   \
	static void NAME##_interleaved_repeat(const uint8_t *restrict in, TYPE *restrict out,      \
		size_t pixels, const TYPE(*restrict table)[256])                                   \
	{                                                                                          \
		for (size_t i = 0; i < pixels; i++) {                                              \
			out[3 * i] = table[0][in[i]];                                              \
			out[3 * i + 1] = table[1][in[i]];                                          \
			out[3 * i + 2] = table[2][in[i]];                                          \
		}                                                                                  \
	}                                                                                          \
                                                                                                   \
	static void NAME##_render(const struct transform_plan *plan, const uint8_t *in, TYPE *out, \
		const TYPE(*table)[256])                                                           \
	{                                                                                          \
		size_t pixels = (size_t)plan->width * plan->height;                                \
		bool planar = plan->layout == PIXEL_NCHW;                                          \
                                                                                                   \
		if (plan->image_channels == 3 && planar)                                           \
			NAME##_planes(in, out, pixels, table);                                     \
		else if (plan->image_channels == 3)                                                \
			NAME##_interleaved(in, out, pixels, table);                                \
		else if (planar || plan->channels == 1)                                            \
			for (uint32_t c = 0; c < plan->channels; c++)                              \
				NAME##_plane(in, out + c * pixels, pixels, table[c]);              \
		else                                                                               \
			NAME##_interleaved_repeat(in, out, pixels, table);                         \
	}

DEFINE_RENDER(table8, uint8_t)
DEFINE_RENDER(table16, uint16_t)
DEFINE_RENDER(table32, float)

void transform_render(const struct transform_plan *plan, const struct random_key *key,
	const struct image *image, void *row)
{
	assert(image->width == plan->width && image->height == plan->height &&
		image->channels == plan->image_channels);
	if (!plan->has_table)
		copy_bytes(plan, image->pixels, row);
	else if (plan->dtype == PIXEL_U8)
		table8_render(plan, image->pixels, row, plan->table8);
	else if (plan->dtype == PIXEL_F32)
		table32_render(plan, image->pixels, row, plan->table);
	else
		table16_render(plan, image->pixels, row, plan->table16);
	for (uint32_t i = 0; i < plan->erase_count; i++)
		erase_row(plan, &plan->erases[i], key, row);
}
