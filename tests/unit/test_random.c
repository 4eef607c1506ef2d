/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by counting: the published answers, the distributions, and what the key tells apart. */
#include "daemon/image/random.h"

#include "tests/unit/statistics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#ifdef NDEBUG
#error "tests need assert"
#endif

static const struct random_key plain = {.seed = 42, .epoch = 3, .sample = 17};

/* kat_vectors of Random123, the authors' own library. */
static void known_answers(void **state)
{
	static const struct {
		uint32_t counter[4], key[2], answer[4];
	} known[] = {
		{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
			{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
			{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};
	uint32_t out[4];

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		philox4x32_10(known[i].counter, known[i].key, out);
		assert_memory_equal(out, known[i].answer, sizeof(out));
	}
}

/* Blocks of the sequence are Philox's, of this counter: once it is written down it must not change, or
 * runs cannot be repeated. */
static void the_counter_is_fixed(void **state)
{
	const struct random_key key = {
		.seed = 0x1122334455667788, .epoch = 0x0123456789abcdef, .sample = 0x99};
	struct random_source source = random_source_of(&key, 21);
	uint32_t out[4];

	(void)state;
	for (uint32_t block = 0; block < 3; block++) {
		const uint32_t counter[4] = {
			block, 0x99, 0x89abcdef, (0x01234567 & 0x7ffffff) | UINT32_C(21) << 27};

		philox4x32_10(counter, (uint32_t[]){0x55667788, 0x11223344}, out);
		for (int i = 0; i < 4; i++)
			assert_int_equal(random_word(&source), out[i]);
	}
}

static uint64_t first_words(struct random_key key, uint32_t transform)
{
	struct random_source source = random_source_of(&key, transform);
	uint64_t first = random_word(&source);

	return first << 32 | random_word(&source);
}

static void every_part_of_the_key_counts(void **state)
{
	uint64_t seen[64 + 59 + 32 + 32];
	size_t count = 0;

	(void)state;
	for (int bit = 0; bit < 64; bit++)
		seen[count++] = first_words((struct random_key){.seed = UINT64_C(1) << bit}, 0);
	for (int bit = 0; bit < 59; bit++)
		seen[count++] = first_words((struct random_key){.epoch = UINT64_C(1) << bit}, 0);
	for (int bit = 0; bit < 32; bit++)
		seen[count++] = first_words((struct random_key){.sample = UINT64_C(1) << bit}, 0);
	for (uint32_t transform = 0; transform < 32; transform++)
		seen[count++] = first_words((struct random_key){0}, transform);
	assert_int_equal(count, sizeof(seen) / sizeof(seen[0]));
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(seen[i] != seen[k]);
	assert_int_equal(first_words(plain, 5), first_words(plain, 5));
}

static void units_are_uniform(void **state)
{
	enum { COUNT = 100000, BINS = 1000 };
	static double values[COUNT];
	static unsigned bins[BINS], pairs[BINS];
	struct random_source source = random_source_of(&plain, 0);
	unsigned lowest[2] = {0};

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		values[i] = random_unit(&source);
		assert_true(values[i] >= 0 && values[i] < 1);
		bins[(int)(values[i] * BINS)]++;
		/* the lowest of the 53 bits is there, and even */
		lowest[(uint64_t)(values[i] * 0x1p53) & 1]++;
		if (i > 0)
			pairs[(int)(values[i - 1] * 31) * 31 + (int)(values[i] * 31)]++;
	}
	assert_true(chi_square(bins, BINS, COUNT) < chi_square_bound(BINS));
	assert_true(chi_square(pairs, 961, COUNT - 1) < chi_square_bound(961));
	assert_true(chi_square(lowest, 2, COUNT) < chi_square_bound(2));
	assert_true(kolmogorov_smirnov(values, COUNT) < KOLMOGOROV_SMIRNOV_BOUND);
}

/* The first numbers of neighbouring samples, epochs and transforms, where counters differ by one. */
static void neighbours_are_independent(void **state)
{
	enum { COUNT = 20000 };
	static double by_sample[COUNT], by_epoch[COUNT];
	static unsigned pairs[400];

	(void)state;
	for (uint32_t i = 0; i < COUNT; i++) {
		struct random_key sample = plain, epoch = plain;
		struct random_source source;
		double other;

		sample.sample = i;
		epoch.epoch = i;
		source = random_source_of(&sample, 1);
		by_sample[i] = random_unit(&source);
		source = random_source_of(&epoch, 1);
		by_epoch[i] = random_unit(&source);
		source = random_source_of(&sample, 2);
		other = random_unit(&source);
		pairs[(int)(by_sample[i] * 20) * 20 + (int)(other * 20)]++;
	}
	assert_true(chi_square(pairs, 400, COUNT) < chi_square_bound(400));
	assert_true(kolmogorov_smirnov(by_sample, COUNT) < KOLMOGOROV_SMIRNOV_BOUND);
	assert_true(kolmogorov_smirnov(by_epoch, COUNT) < KOLMOGOROV_SMIRNOV_BOUND);
}

static void ranges(void **state)
{
	struct random_source source = random_source_of(&plain, 0);
	double next = nextafter(1, 2);

	(void)state;
	for (int i = 0; i < 1000; i++) {
		double value = random_between(&source, -30, 70);

		assert_true(value >= -30 && value < 70);
		assert_true(random_between(&source, 1, next) == 1);
		assert_true(random_between(&source, 0.3, 0.3) == 0.3);
		assert_true(random_between(&source, 0, 0) == 0);
	}
}

static void whole_numbers_are_even(void **state)
{
	enum { COUNT = 30000 };
	static const uint32_t sizes[] = {2, 3, 5, 7, 24, 100};
	struct random_source source = random_source_of(&plain, 0);
	unsigned thirds[3] = {0};

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		unsigned counts[100] = {0};

		for (int i = 0; i < COUNT; i++)
			counts[random_below(&source, sizes[s])]++; /* bounds: the sanitizer */
		assert_true(chi_square(counts, sizes[s], COUNT) < chi_square_bound(sizes[s]));
	}
	assert_int_equal(random_below(&source, 1), 0);
	/* Without rejection every third value would come twice as often as the others. */
	for (int i = 0; i < COUNT; i++)
		thirds[random_below(&source, UINT32_C(3) << 30) % 3]++;
	assert_true(chi_square(thirds, 3, COUNT) < chi_square_bound(3));
	for (int i = 0; i < 100; i++)
		assert_true(random_below(&source, UINT32_MAX) < UINT32_MAX);
}

static void normals(void **state)
{
	enum { COUNT = 100000 };
	static double values[COUNT];
	struct random_source source = random_source_of(&plain, 0);
	double sum = 0, squares = 0, products = 0;

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		values[i] = random_normal(&source);
		assert_true(isfinite(values[i]));
		sum += values[i];
		squares += values[i] * values[i];
		if (i % 2 == 1)
			products += values[i - 1] * values[i];
	}
	assert_true(fabs(sum / COUNT) < 4 / sqrt(COUNT));
	assert_true(fabs(squares / COUNT - 1) < 4 * sqrt(2. / COUNT));
	assert_true(fabs(products / (COUNT / 2)) < 4 / sqrt(COUNT / 2));
	for (int i = 0; i < COUNT; i++)
		values[i] = erfc(-values[i] / M_SQRT2) / 2;
	assert_true(kolmogorov_smirnov(values, COUNT) < KOLMOGOROV_SMIRNOV_BOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(the_counter_is_fixed),
		cmocka_unit_test(every_part_of_the_key_counts),
		cmocka_unit_test(units_are_uniform),
		cmocka_unit_test(neighbours_are_independent),
		cmocka_unit_test(ranges),
		cmocka_unit_test(whole_numbers_are_even),
		cmocka_unit_test(normals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
