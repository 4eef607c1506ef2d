/* SPDX-License-Identifier: Apache-2.0 */
/* The order of samples against values printed by torch 1.13's DistributedSampler. */
#include "daemon/data/order.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MANY 60000

struct golden {
	struct order_params params;
	uint64_t epoch;
	uint32_t order[10];
	uint64_t length;
};

static const struct golden goldens[] = {
	/* samples, shuffle, seed, rank, world, shard_drop */
	{{1, true, 0, 0, 1, false}, 0, {0}, 1},
	{{2, true, 0, 0, 1, false}, 0, {0, 1}, 2},
	{{2, true, 1, 0, 1, false}, 0, {1, 0}, 2},
	{{10, true, 0, 0, 1, false}, 0, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}, 10},
	{{10, true, 0, 0, 1, false}, 1, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4}, 10},
	{{10, true, 42, 0, 1, false}, 3, {7, 6, 5, 3, 4, 9, 0, 8, 2, 1}, 10},
	/* only the low 32 bits of seed + epoch count */
	{{10, true, (UINT64_C(1) << 32) + 45, 0, 1, false}, 0, {7, 6, 5, 3, 4, 9, 0, 8, 2, 1}, 10},
	{{10, true, (UINT64_C(1) << 63) + 7, 0, 1, false}, 5, {3, 5, 8, 1, 0, 6, 9, 2, 7, 4}, 10},
	/* shards: padded, cut, and both without shuffle */
	{{10, true, 7, 0, 3, false}, 2, {0, 7, 9, 3}, 4},
	{{10, true, 7, 1, 3, false}, 2, {5, 6, 1, 0}, 4},
	{{10, true, 7, 2, 3, false}, 2, {8, 2, 4, 5}, 4},
	{{10, true, 7, 2, 3, true}, 2, {8, 2, 4}, 3},
	{{10, false, 0, 3, 4, false}, 0, {3, 7, 1}, 3},
	{{10, false, 0, 3, 4, true}, 0, {3, 7}, 2},
	/* more ranks than samples: the list is repeated more than once */
	{{3, true, 1, 7, 8, false}, 0, {2}, 1},
	{{3, true, 1, 2, 8, false}, 0, {0}, 1},
	{{1, true, 0, 4, 5, false}, 0, {0}, 1},
	{{2, true, 3, 6, 7, false}, 1, {0}, 1},
	{{3, false, 0, 6, 8, false}, 0, {0}, 1},
};

static void test_golden_orders(void **state)
{
	for (size_t k = 0; k < sizeof(goldens) / sizeof(goldens[0]); k++) {
		const struct golden *golden = &goldens[k];
		struct order order;

		assert_int_equal(order_init(&order, &golden->params), 0);
		assert_int_equal(order.length, golden->length);
		assert_int_equal(order_length(&golden->params), golden->length);
		order_set_epoch(&order, golden->epoch);
		for (uint64_t i = 0; i < order.length; i++)
			assert_int_equal(order_at(&order, i), golden->order[i]);
		order_finish(&order);
	}
	(void)state;
}

static void test_large_orders(void **state)
{
	static const struct {
		uint64_t samples, seed, epoch;
		uint32_t first[6], last[3];
	} rows[] = {
		{60000, 0, 0, {36044, 10678, 57327, 55074, 21567, 15479}, {31951, 27130, 1544}},
		{60000, 0, 19, {43645, 37773, 11635, 46051, 41216, 6464}, {11359, 13403, 54585}},
		{1000003, 12345, 7, {936655, 499172, 299412, 174600, 224386, 566942},
			{345653, 540168, 103768}},
	};

	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		struct order_params params = {
			.samples = rows[k].samples,
			.shuffle = true,
			.seed = rows[k].seed,
			.world = 1,
		};
		struct order order;

		assert_int_equal(order_init(&order, &params), 0);
		order_set_epoch(&order, rows[k].epoch);
		for (uint64_t i = 0; i < 6; i++)
			assert_int_equal(order_at(&order, i), rows[k].first[i]);
		assert_true(order.settled < 10); /* the shuffle is lazy */
		for (uint64_t i = 0; i < 3; i++)
			assert_int_equal(order_at(&order, params.samples - 3 + i), rows[k].last[i]);
		for (uint64_t i = 0; i < 6; i++) /* and earlier places stay what they were */
			assert_int_equal(order_at(&order, i), rows[k].first[i]);
		order_finish(&order);
	}
	(void)state;
}

static void test_every_sample_once(void **state)
{
	struct order_params params = {.samples = MANY, .shuffle = true, .seed = 9, .world = 1};
	static uint8_t seen[MANY];
	struct order order;

	assert_int_equal(order_init(&order, &params), 0);
	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		order_set_epoch(&order, epoch);
		memset(seen, 0, sizeof(seen));
		for (uint64_t i = 0; i < MANY; i++)
			seen[order_at(&order, i)]++;
		for (uint64_t i = 0; i < MANY; i++)
			assert_int_equal(seen[i], 1);
	}
	order_finish(&order);
	(void)state;
}

/* Positions asked in any order, and an epoch come back to, give what reading straight on gives. */
static void test_random_access(void **state)
{
	struct order_params params = {
		.samples = 5003, .shuffle = true, .seed = 4, .rank = 1, .world = 3};
	struct order straight, jumping;

	assert_int_equal(order_init(&straight, &params), 0);
	assert_int_equal(order_init(&jumping, &params), 0);
	order_set_epoch(&straight, 2);
	order_set_epoch(&jumping, 6);
	order_at(&jumping, 1000);
	order_set_epoch(&jumping, 2);
	assert_int_equal(jumping.epoch, 2);
	for (uint64_t i = 0; i < straight.length; i++) {
		uint64_t position = i * 997 % straight.length; /* 997 and 1668 share no factor */

		order_at(&straight, i);
		order_at(&jumping, position);
	}
	for (uint64_t i = straight.length; i-- > 0;)
		assert_int_equal(order_at(&straight, i), order_at(&jumping, i));
	order_finish(&straight);
	order_finish(&jumping);
	(void)state;
}

static void test_ranks_cover_the_padded_list(void **state)
{
	enum { SAMPLES = 103, WORLD = 8 };
	uint32_t times[SAMPLES] = {0};
	uint64_t total = 0;

	for (uint32_t rank = 0; rank < WORLD; rank++) {
		struct order_params params = {.samples = SAMPLES,
			.shuffle = true,
			.seed = 77,
			.rank = rank,
			.world = WORLD};
		struct order order;

		assert_int_equal(order_init(&order, &params), 0);
		assert_int_equal(order.length, 13);
		for (uint64_t i = 0; i < order.length; i++, total++)
			times[order_at(&order, i)]++;
		order_finish(&order);
	}
	assert_int_equal(total, 104);
	for (size_t i = 0; i < SAMPLES; i++)
		assert_in_range(times[i], 1, 2);
	(void)state;
}

static void test_refusals(void **state)
{
	static const struct order_params refused[] = {
		{.samples = 0, .world = 1},
		{.samples = UINT64_C(1) + ORDER_SAMPLES_MAX, .world = 1},
		{.samples = UINT64_MAX, .world = 1},
		{.samples = 10, .world = 0},
		{.samples = 10, .world = 2, .rank = 2},
		{.samples = 10, .world = 11, .shard_drop = true}, /* no sample for any rank */
		{.samples = 10, .world = UINT32_MAX, .shard_drop = true},
	};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct order order;

		assert_int_equal(order_init(&order, &refused[i]), -EINVAL);
		order_finish(&order);
	}
	(void)state;
}

static void test_extreme_world(void **state)
{
	struct order_params params = {
		.samples = 10, .world = UINT32_MAX, .rank = UINT32_MAX - 1, .shuffle = true};
	struct order order;

	assert_int_equal(order_init(&order, &params), 0);
	assert_int_equal(order.length, 1);
	/* rank 2^32 - 2 is place 4 of the list, 4294967294 % 10 */
	assert_int_equal(order_at(&order, 0), 3);
	order_finish(&order);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_orders),
		cmocka_unit_test(test_large_orders),
		cmocka_unit_test(test_every_sample_once),
		cmocka_unit_test(test_random_access),
		cmocka_unit_test(test_ranks_cover_the_padded_list),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_extreme_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
