/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of data sets: their names, and what is in them, against numbers of torch 1.13. */
#include "daemon/data/memfd.h"
#include "daemon/data/order.h"
#include "daemon/data/part.h"
#include "daemon/data/part_name.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The name must parse; which places it means among `samples`, or PART_BAD. */
static int places(const char *text, uint64_t samples, uint64_t *first, uint64_t *end)
{
	struct error_text error = {""};
	struct part_name name;
	char bounds[PART_BOUNDS_MAX];
	int r = part_name_parse(&name, text, strlen(text), &error);

	if (r != 0)
		fail_msg("%s: %s", text, error.text);
	part_name_format(&name, bounds);
	if (name.from.given || name.to.given)
		assert_string_equal(bounds, text + name.dataset_length);
	else
		assert_string_equal(bounds, "");
	return part_name_resolve(&name, samples, first, end, &error);
}

static void check(const char *text, uint64_t samples, uint64_t first, uint64_t end)
{
	uint64_t a, b;

	assert_int_equal(places(text, samples, &a, &b), 0);
	if (a != first || b != end)
		fail_msg("%s of %u: %u .. %u", text, (unsigned)samples, (unsigned)a, (unsigned)b);
}

static void names(void **state)
{
	(void)state;
	check("train", 10, 0, 10);
	check("train[:]", 10, 0, 10);
	check("train[0%:100%]", 10, 0, 10);
	check("train[:90%]", 300, 0, 270);
	check("train[90%:]", 300, 270, 300);
	check("train[1000:2000]", 5000, 1000, 2000);
	check("train[:500]", 500, 0, 500);
	check("train[-10%:]", 300, 270, 300);
	check("train[:-10%]", 300, 0, 270);
	check("train[-20:-5]", 100, 80, 95);
	check("train[10%:50]", 100, 10, 50);
	check("train[5:50%]", 100, 5, 50);
	check("a.b-c_d[7:8]", 100, 7, 8);
	check("x[0:4294967294]", 4294967294, 0, 4294967294);
	check("x[99%:]", 4294967294, 4252017621, 4294967294);
}

/* Python: round(n * p / 100), halves to the even number. */
static void percentages_are_rounded_as_python_does(void **state)
{
	(void)state;
	check("x[:1%]", 150, 0, 2); /* 1.5 */
	check("x[:1%]", 250, 0, 2); /* 2.5 */
	check("x[:1%]", 251, 0, 3);
	check("x[:1%]", 249, 0, 2);
	check("x[:50%]", 7, 0, 4); /* 3.5 */
	check("x[:50%]", 5, 0, 2); /* 2.5 */
	check("x[50%:]", 5, 2, 5);
	check("x[-50%:]", 5, 2, 5);
	check("x[:-1%]", 250, 0, 248); /* 99% is 247.5 */
	check("x[-1%:]", 250, 248, 250);
}

static void every_percentage_splits_without_gap(void **state)
{
	char left[32], right[32], from_end[32];

	(void)state;
	for (uint64_t samples = 1; samples < 333; samples++) {
		for (int p = 0; p <= 100; p++) {
			uint64_t a = 0, b = 0, c = samples, d = samples, e, f;
			int r;

			snprintf(left, sizeof(left), "x[:%d%%]", p);
			snprintf(right, sizeof(right), "x[%d%%:]", p);
			snprintf(from_end, sizeof(from_end), "x[-%d%%:]", 100 - p);
			r = places(left, samples, &a, &b);
			assert_true(r == 0 || (r == PART_BAD && b == 0));
			r = places(right, samples, &c, &d);
			assert_true(r == 0 || (r == PART_BAD && c == samples));
			assert_int_equal(a, 0);
			assert_int_equal(b, c);
			assert_int_equal(d, samples);
			assert_int_equal(places(from_end, samples, &e, &f), r);
			assert_true(e == c && f == d);
		}
	}
}

static void refused(const char *text, const char *says)
{
	struct error_text error = {""};
	struct part_name name;

	assert_int_equal(part_name_parse(&name, text, strlen(text), &error), PART_BAD);
	if (strstr(error.text, says) == NULL)
		fail_msg("%s: %s", text, error.text);
}

static void bad_names_are_shown_their_place(void **state)
{
	struct part_name name;

	(void)state;
	refused("train[", "\"train[\" ends too early");
	refused("train[:", "\"train[:\" ends too early");
	refused("train[:90%", "\"train[:90%\" ends too early: ']' is missing");
	refused("train[:9O%]", "after \"train[:9\" comes \"O%]\" where '%' or ']' should");
	refused("train[]", "after \"train[\" comes \"]\"");
	refused("train[90%]", "after \"train[90%\" comes \"]\" where ':' should");
	refused("train[5]", "where '%' or ':' should");
	refused("train[:12.5%]", "after \"train[:12\" comes \".5%]\"");
	refused("train[: 5]", "comes \" 5]\"");
	refused("train[:5]x", "after \"train[:5]\" comes \"x\" where the end of the name should");
	refused("train[:5][:3]", "the end of the name");
	refused("train[:10%]+test", "comes \"+test\"");
	refused("train[:-]", "after \"train[:-\" comes \"]\"");
	refused("train[--5:]", "comes \"-5:]\"");
	refused("train[:101%]", "comes \"101%]\" where a percentage of at most 100%");
	refused("train[:12345678901]", "a number of at most 10 digits");
	refused("train[1:2:3]", "after \"train[1:2\" comes \":3]\"");
	refused("[:90%]", "the name of a data set");
	refused("train[\xff:\n]", "\\xff");
	assert_int_equal(part_name_parse(&name, "train]:", 7, NULL), 0);
	assert_int_equal(name.dataset_length, 7); /* a name that no data set has */
	assert_int_equal(part_name_parse(&name, NULL, 0, NULL), 0);
	assert_int_equal(name.dataset_length, 0);
}

static void empty(const char *text, uint64_t samples, const char *says)
{
	struct error_text error = {""};
	struct part_name name;
	uint64_t a, b;

	assert_int_equal(part_name_parse(&name, text, strlen(text), NULL), 0);
	assert_int_equal(part_name_resolve(&name, samples, &a, &b, &error), PART_BAD);
	if (strstr(error.text, says) == NULL)
		fail_msg("%s: %s", text, error.text);
}

static void parts_without_samples_are_refused(void **state)
{
	(void)state;
	empty("x[5:5]", 10, "holds no samples: of 10 it begins at 5 and ends before 5");
	empty("x[7:3]", 10, "begins at 7 and ends before 3");
	empty("x[:0%]", 10, "holds no samples");
	empty("x[-0:]", 10, "holds no samples");
	empty("x[:1%]", 10, "holds no samples");
	empty("x[:11]", 10, "11 is out of range: the data set has 10 samples");
	empty("x[-11:]", 10, "-11 is out of range");
}

static void check_part(uint64_t samples, uint64_t first, uint64_t end, const uint32_t *wanted)
{
	_cleanup_fd_ int fd = part_draw(samples, first, end);
	struct part part;

	assert_true(fd >= 0);
	assert_int_equal(part_map(&part, fd, end - first, samples, NULL), 0);
	assert_int_equal(part.count, end - first);
	for (uint64_t i = 0; i < part.count; i++) {
		assert_int_equal(part_sample(&part, i), wanted[i]);
		assert_int_equal(part_position(&part, wanted[i]), i);
	}
	part_unmap(&part);
}

/* torch.randperm(10, generator=torch.Generator().manual_seed(0)) is 4 1 7 5 3 9 0 8 6 2 */
static void parts_are_those_of_torch(void **state)
{
	(void)state;
	check_part(10, 0, 9, (const uint32_t[]){0, 1, 3, 4, 5, 6, 7, 8, 9});
	check_part(10, 9, 10, (const uint32_t[]){2});
	check_part(10, 0, 3, (const uint32_t[]){1, 4, 7});
	check_part(10, 3, 7, (const uint32_t[]){0, 3, 5, 9});
	check_part(1, 0, 1, (const uint32_t[]){0});
}

/* More than is written at a time, and each sample in exactly one of the two. */
static void two_parts_are_the_whole(void **state)
{
	enum { N = 70001, CUT = 40000 };
	int left = part_draw(N, 0, CUT), right = part_draw(N, CUT, N);
	struct part a, b;
	uint64_t i = 0, k = 0;

	(void)state;
	assert_int_equal(part_map(&a, left, CUT, N, NULL), 0);
	assert_int_equal(part_map(&b, right, N - CUT, N, NULL), 0);
	for (uint32_t sample = 0; sample < N; sample++) {
		bool in_a = i < a.count && a.samples[i] == sample;
		bool in_b = k < b.count && b.samples[k] == sample;

		assert_true(in_a != in_b);
		i += in_a;
		k += in_b;
	}
	part_unmap(&a);
	part_unmap(&b);
	close_fd(left);
	close_fd(right);
}

static void bad_ranges_are_not_drawn(void **state)
{
	(void)state;
	assert_int_equal(part_draw(10, 5, 5), -EINVAL);
	assert_int_equal(part_draw(10, 5, 11), -EINVAL);
	assert_int_equal(part_draw(ORDER_SAMPLES_MAX + 1ull, 0, 1), -EINVAL);
}

static void check_map_refuses(
	const uint32_t *samples, size_t bytes, uint64_t count, uint64_t of, bool seal)
{
	_cleanup_fd_ int fd = memfd_new("test");
	struct error_text error = {""};
	struct part part;

	assert_int_equal(memfd_append(fd, samples, bytes), 0);
	if (seal)
		assert_int_equal(memfd_seal(fd), 0);
	assert_int_equal(part_map(&part, fd, count, of, &error), -EBADMSG);
	assert_true(error.text[0] != '\0' && part.samples == NULL);
}

static void what_is_no_part_is_not_mapped(void **state)
{
	static const uint32_t good[] = {1, 2, 5}, twice[] = {1, 1, 2}, back[] = {2, 1, 5};

	(void)state;
	check_map_refuses(good, sizeof(good), 3, 6, false);
	check_map_refuses(good, sizeof(good), 2, 6, true);
	check_map_refuses(good, sizeof(good), 4, 6, true);
	check_map_refuses(good, sizeof(good), 0, 6, true);
	check_map_refuses(good, sizeof(good) - 1, 3, 6, true);
	check_map_refuses(good, sizeof(good), 3, 5, true);
	check_map_refuses(good, sizeof(good), 3, 2, true);
	check_map_refuses(twice, sizeof(twice), 3, 6, true);
	check_map_refuses(back, sizeof(back), 3, 6, true);
}

static void fingerprints(void **state)
{
	const uint64_t index = UINT64_C(0x123456789abcdef0);
	uint64_t a = part_fingerprint(index, 100, 0, 90), b = part_fingerprint(index, 100, 90, 100);

	(void)state;
	assert_int_equal(part_fingerprint(index, 100, 0, 100), index);
	assert_true(a != index && b != index && a != b);
	assert_int_equal(a >> 32, index >> 32);
	assert_int_equal(b >> 32, index >> 32);
	assert_true(part_fingerprint(index + 1, 100, 0, 90) != a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(percentages_are_rounded_as_python_does),
		cmocka_unit_test(every_percentage_splits_without_gap),
		cmocka_unit_test(bad_names_are_shown_their_place),
		cmocka_unit_test(parts_without_samples_are_refused),
		cmocka_unit_test(parts_are_those_of_torch),
		cmocka_unit_test(two_parts_are_the_whole),
		cmocka_unit_test(bad_ranges_are_not_drawn),
		cmocka_unit_test(what_is_no_part_is_not_mapped),
		cmocka_unit_test(fingerprints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
