/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of pictures, and the plan of a stream of them. */
#include "daemon/image/decode/digest.h"
#include "daemon/image/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <xxhash.h>

/* An L picture has the digest of the same picture in RGB, at every size of a piece. */
static void grey_is_rgb(void **state)
{
	static const uint32_t widths[] = {1, 2, 31, 1023, 1024, 1025, 2048, 5000};
	struct image grey = IMAGE_NULL, rgb = IMAGE_NULL;

	(void)state;
	for (size_t n = 0; n < sizeof(widths) / sizeof(widths[0]); n++) {
		struct batch_digest a, b;

		assert_int_equal(image_resize(&grey, widths[n], 3, 1), 0);
		assert_int_equal(image_resize(&rgb, widths[n], 3, 3), 0);
		for (uint32_t i = 0; i < 3 * widths[n]; i++) {
			grey.pixels[i] = (uint8_t)(i * 7 + i / 256);
			for (int c = 0; c < 3; c++)
				rgb.pixels[3 * i + c] = grey.pixels[i];
		}
		image_digest(&grey, 12, &a);
		image_digest(&rgb, 12, &b);
		assert_memory_equal(&a, &b, sizeof(a));
		assert_int_equal(a.xxh3, XXH3_64bits(rgb.pixels, 9 * (size_t)widths[n]));
		assert_int_equal(a.width, widths[n]);
		assert_int_equal(a.height, 3);
		assert_int_equal(a.bytes, 12);
		rgb.pixels[9 * widths[n] - 1] ^= 1;
		image_digest(&rgb, 12, &b);
		assert_true(a.xxh3 != b.xxh3);
	}
	image_finish(&grey);
	image_finish(&rgb);
}

static void the_plan_is_valid(void **state)
{
	struct transform_plan plan;

	(void)state;
	for (uint32_t channels = 1; channels <= 3; channels += 2) {
		transform_plan_digests(&plan, channels, PIXEL_NHWC);
		assert_true(transform_plan_valid(&plan));
		assert_int_equal(plan.decode_channels, channels);
		assert_int_equal(plan.row_bytes, 24);
		assert_int_equal(plan.layout, PIXEL_NHWC);
		plan.row_bytes = 23;
		assert_false(transform_plan_valid(&plan));
		plan.row_bytes = 24;
		plan.op_count = 1;
		assert_false(transform_plan_valid(&plan));
		plan.op_count = 0;
		plan.decode_channels = 2;
		assert_false(transform_plan_valid(&plan));
		plan.decode_channels = channels;
		plan.rows = 77;
		assert_false(transform_plan_valid(&plan));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grey_is_rgb),
		cmocka_unit_test(the_plan_is_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
