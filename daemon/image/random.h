/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Random numbers by counting: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
 * as easy as 1, 2, 3", 2011). What is drawn is a function of the key and of how many numbers were
 * drawn before, so no state travels from sample to sample and from process to process.
 *
 *   struct random_source source = random_source_of(&key, transform);
 *   angle = random_between(&source, -30, 30);
 */

/* Whose numbers they are. */
struct random_key {
	uint64_t seed;   /* of the stream: Philox's key */
	uint64_t epoch;  /* told apart below 2^59 */
	uint64_t sample; /* index in the data set; told apart below 2^32 */
};

/* Ten rounds on a counter of 128 bits. */
void philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* One sequence of 2^34 words. The counter's words are the number of the block, the sample, the lower
 * half of the epoch, and its upper half with the transform in the five highest bits. */
struct random_source {
	uint32_t key[2];
	uint32_t counter[4];
	uint32_t words[4];
	uint32_t used; /* of `words` */
	double spare;  /* the second of a pair of normal numbers ... */
	uint32_t kept; /* ... 1 = is still to be given out */
};

/* The sequence of one transform, 0 .. 31, for one sample. */
struct random_source random_source_of(const struct random_key *key, uint32_t transform);

/* Evenly distributed in 0 .. 2^32 - 1. */
uint32_t random_word(struct random_source *source);

/* Evenly distributed in [0, 1), a multiple of 2^-53. */
double random_unit(struct random_source *source);

/* Evenly distributed in [least, most), or `least` where both are equal. */
double random_between(struct random_source *source, double least, double most);

/* Evenly distributed in 0 .. n - 1, without any bias (Lemire 2019). n is at least 1. */
uint32_t random_below(struct random_source *source, uint32_t n);

/* Normally distributed, mean 0, variance 1 (Box and Muller 1958). */
double random_normal(struct random_source *source);
