/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/init.h"

#include <math.h>

enum { MT_WORDS = 624, MT_SHIFT = 397 };

/* MT19937: Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998). */
struct mt {
	uint32_t word[MT_WORDS];
	unsigned next;
};

/* torch keeps the low 32 bits of its seed for the CPU's generator. */
static void mt_seed(struct mt *mt, uint64_t seed)
{
	mt->word[0] = (uint32_t)seed;
	for (uint32_t i = 1; i < MT_WORDS; i++) {
		uint32_t previous = mt->word[i - 1];

		mt->word[i] = 1812433253u * (previous ^ previous >> 30) + i;
	}
	mt->next = MT_WORDS;
}

static void mt_refill(struct mt *mt)
{
	for (unsigned i = 0; i < MT_WORDS; i++) {
		uint32_t y =
			(mt->word[i] & 0x80000000u) | (mt->word[(i + 1) % MT_WORDS] & 0x7fffffffu);

		mt->word[i] =
			mt->word[(i + MT_SHIFT) % MT_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
	}
	mt->next = 0;
}

static uint32_t mt_draw(struct mt *mt)
{
	uint32_t y;

	if (mt->next == MT_WORDS)
		mt_refill(mt);
	y = mt->word[mt->next++];
	y ^= y >> 11;
	y ^= y << 7 & 0x9d2c5680u;
	y ^= y << 15 & 0xefc60000u;
	return y ^ y >> 18;
}

/* at::uniform_real_distribution<float>: 24 random bits, scaled. torch's compiler fuses the scaling
 * into one rounding on every CPU with FMA; fmaf does the same everywhere. */
static void draw_uniform(struct mt *mt, double bound, float *values, size_t count)
{
	float from = (float)-bound, to = (float)bound;

	for (size_t i = 0; i < count; i++) {
		float x = (float)(mt_draw(mt) & 0xffffff) * 0x1p-24f;

		values[i] = fmaf(x, to - from, from);
	}
}

/* nn.Linear.reset_parameters: kaiming_uniform_(weight, a=sqrt(5)), then the bias. Both bounds are
 * 1 / sqrt(inputs), but torch rounds the first one on its way, which these steps repeat. */
static float *init_linear(struct mt *mt, uint32_t inputs, uint32_t outputs, float *values)
{
	double a = sqrt(5.0);
	double gain = sqrt(2.0 / (1.0 + a * a));
	double deviation = gain / sqrt((double)inputs);
	size_t matrix = (size_t)inputs * outputs;

	draw_uniform(mt, sqrt(3.0) * deviation, values, matrix);
	draw_uniform(mt, 1.0 / sqrt((double)inputs), values + matrix, outputs);
	return values + matrix + outputs;
}

void init_weights(const struct model_config *config, uint64_t seed, float *weights)
{
	struct mt mt;

	mt_seed(&mt, seed);
	weights = init_linear(
		&mt, config->input.channels * config->input.plane, config->hidden, weights);
	init_linear(&mt, config->hidden, config->classes, weights);
}
