/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/random.h"

#include <math.h>

enum { ROUNDS = 10, TRANSFORM_SHIFT = 27 };

/* Multipliers and Weyl increments of the paper's Philox4x32. */
#define MULTIPLIER_0 UINT32_C(0xd2511f53)
#define MULTIPLIER_1 UINT32_C(0xcd9e8d57)
#define INCREMENT_0  UINT32_C(0x9e3779b9)
#define INCREMENT_1  UINT32_C(0xbb67ae85)

void philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t product0 = (uint64_t)MULTIPLIER_0 * c0;
		uint64_t product1 = (uint64_t)MULTIPLIER_1 * c2;

		c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)product1;
		c3 = (uint32_t)product0;
		k0 += INCREMENT_0;
		k1 += INCREMENT_1;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

struct random_source random_source_of(const struct random_key *key, uint32_t transform)
{
	uint32_t high = (uint32_t)(key->epoch >> 32) & ((UINT32_C(1) << TRANSFORM_SHIFT) - 1);

	return (struct random_source){
		.key = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)},
		.counter = {0, (uint32_t)key->sample, (uint32_t)key->epoch,
			high | transform << TRANSFORM_SHIFT},
		.used = 4,
	};
}

uint32_t random_word(struct random_source *source)
{
	if (source->used == 4) {
		philox4x32_10(source->counter, source->key, source->words);
		source->counter[0]++;
		source->used = 0;
	}
	return source->words[source->used++];
}

double random_unit(struct random_source *source)
{
	uint64_t low = random_word(source), high = random_word(source);

	return (double)((high << 32 | low) >> 11) * 0x1p-53;
}

double random_between(struct random_source *source, double least, double most)
{
	double value = least + (most - least) * random_unit(source);

	/* The sum may have been rounded up. */
	return value < most || least == most ? value : nextafter(most, least);
}

uint32_t random_below(struct random_source *source, uint32_t n)
{
	uint64_t product = (uint64_t)random_word(source) * n;

	if ((uint32_t)product < n) {
		uint32_t surplus = -n % n; /* 2^32 mod n */

		while ((uint32_t)product < surplus)
			product = (uint64_t)random_word(source) * n;
	}
	return (uint32_t)(product >> 32);
}

double random_normal(struct random_source *source)
{
	double radius, angle;

	if (source->kept) {
		source->kept = 0;
		return source->spare;
	}
	radius = sqrt(-2 * log(1 - random_unit(source)));
	angle = 2 * M_PI * random_unit(source);
	source->spare = radius * sin(angle);
	source->kept = 1;
	return radius * cos(angle);
}
