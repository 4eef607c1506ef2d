/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/transform.h"

#include <assert.h>
#include <string.h>

/*
 * One inner loop per way the channels travel: `repeat` writes one decoded channel to three,
 * `planes` takes interleaved RGB apart, `table` maps each byte to its float. The loops are plain and
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

static void f32_table(
	const uint8_t *restrict in, float *restrict out, size_t pixels, const float *restrict table)
{
	for (size_t i = 0; i < pixels; i++)
		out[i] = table[in[i]];
}

static void f32_planes(const uint8_t *restrict in, float *restrict out, size_t pixels,
	const float (*restrict table)[256])
{
	float *restrict r = out, *restrict g = out + pixels, *restrict b = out + 2 * pixels;

	for (size_t i = 0; i < pixels; i++) {
		r[i] = table[0][in[3 * i]];
		g[i] = table[1][in[3 * i + 1]];
		b[i] = table[2][in[3 * i + 2]];
	}
}

static void f32_interleaved(const uint8_t *restrict in, float *restrict out, size_t pixels,
	const float (*restrict table)[256])
{
	for (size_t i = 0; i < 3 * pixels; i += 3) {
		out[i] = table[0][in[i]];
		out[i + 1] = table[1][in[i + 1]];
		out[i + 2] = table[2][in[i + 2]];
	}
}

static void f32_interleaved_repeat(const uint8_t *restrict in, float *restrict out, size_t pixels,
	const float (*restrict table)[256])
{
	for (size_t i = 0; i < pixels; i++) {
		out[3 * i] = table[0][in[i]];
		out[3 * i + 1] = table[1][in[i]];
		out[3 * i + 2] = table[2][in[i]];
	}
}

static void render_u8(const struct transform_plan *plan, const uint8_t *in, uint8_t *out)
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

static void render_f32(const struct transform_plan *plan, const uint8_t *in, float *out)
{
	size_t pixels = (size_t)plan->width * plan->height;
	bool planar = plan->layout == PIXEL_NCHW;

	if (plan->image_channels == 3 && planar)
		f32_planes(in, out, pixels, plan->table);
	else if (plan->image_channels == 3)
		f32_interleaved(in, out, pixels, plan->table);
	else if (planar || plan->channels == 1)
		for (uint32_t c = 0; c < plan->channels; c++)
			f32_table(in, out + c * pixels, pixels, plan->table[c]);
	else
		f32_interleaved_repeat(in, out, pixels, plan->table);
}

void transform_render(const struct transform_plan *plan, const struct image *image, void *row)
{
	assert(image->width == plan->width && image->height == plan->height &&
		image->channels == plan->image_channels);
	if (plan->dtype == PIXEL_U8)
		render_u8(plan, image->pixels, row);
	else
		render_f32(plan, image->pixels, row);
}
