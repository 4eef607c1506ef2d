/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void header_is_little_endian(void **state)
{
	static const uint8_t expected[8] = {0x04, 0x03, 0x02, 0x01, 0x01, 0x00, 0x00, 0x00};
	struct frame_header header = {.length = 0x01020304, .fds = 1}, back;
	uint8_t bytes[8];

	(void)state;
	frame_encode(bytes, &header);
	assert_memory_equal(bytes, expected, 8);
	assert_int_equal(frame_decode(bytes, 0x01020304, &back), 0);
	assert_int_equal(back.length, 0x01020304);
	assert_int_equal(back.fds, 1);
}

static void limits_are_checked(void **state)
{
	static const struct {
		uint8_t bytes[8];
		uint32_t max;
		int result;
	} cases[] = {
		{{1, 0, 0, 0, 0, 0, 0, 0}, 1, 0},
		{{2, 0, 0, 0, 0, 0, 0, 0}, 1, -EMSGSIZE},
		{{0, 0, 0, 0, 0, 0, 0, 0}, 1, -EBADMSG},
		{{0, 0, 1, 0, 0, 0, 0, 0}, FRAME_CLIENT_MAX, 0},
		{{1, 0, 1, 0, 0, 0, 0, 0}, FRAME_CLIENT_MAX, -EMSGSIZE},
		{{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, FRAME_INLINE_MAX, -EMSGSIZE},
		{{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, UINT32_MAX, 0},
		{{1, 0, 0, 0, FRAME_FDS_MAX, 0, 0, 0}, 1, 0},
		{{1, 0, 0, 0, FRAME_FDS_MAX + 1, 0, 0, 0}, 1, -EBADMSG},
		{{1, 0, 0, 0, 0, 1, 0, 0}, 1, -EBADMSG},
		{{1, 0, 0, 0, 0, 0, 1, 0}, 1, -EBADMSG},
		{{1, 0, 0, 0, 0, 0, 0, 0x80}, 1, -EBADMSG},
		{"GET / HT", FRAME_CLIENT_MAX, -EBADMSG},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct frame_header header = {.length = 77, .fds = 77};

		assert_int_equal(
			frame_decode(cases[i].bytes, cases[i].max, &header), cases[i].result);
		if (cases[i].result < 0)
			assert_int_equal(header.length, 77);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_is_little_endian),
		cmocka_unit_test(limits_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
