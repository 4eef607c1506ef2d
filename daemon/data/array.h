/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Make room for `more` elements of `element` bytes behind `used` ones in a growing array, given by
 * the address of its pointer. 0 or -ENOMEM, which leaves the array as it is. Grows by half, so that
 * a table of millions wastes little. */
static inline int array_reserve(
	void *array, size_t *capacity, size_t used, size_t more, size_t element)
{
	void **pointer = array;
	size_t wanted = *capacity + *capacity / 2;
	void *grown;

	if (more <= *capacity - used)
		return 0;
	if (wanted < used + more)
		wanted = used + more;
	if (wanted < 64)
		wanted = 64;
	grown = reallocarray(*pointer, wanted, element);
	if (!grown)
		return -ENOMEM;
	*pointer = grown;
	*capacity = wanted;
	return 0;
}
