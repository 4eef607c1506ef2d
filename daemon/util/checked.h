/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Arithmetic on sizes that come from outside: true and a result, or false on overflow. */
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
	return !__builtin_add_overflow(a, b, sum);
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

/* Round up to a multiple of `unit`, a power of two. */
static inline bool checked_align(uint64_t value, uint64_t unit, uint64_t *aligned)
{
	if (!checked_add(value, unit - 1, aligned))
		return false;
	*aligned &= ~(unit - 1);
	return true;
}

/* Does [offset, offset + length) lie inside [0, size)? An empty range at the end does. */
static inline bool checked_range(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}
