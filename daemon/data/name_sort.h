/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Sort the elements [first, count) of an array, of `size` bytes each, by the strings that they stand
 * for, in byte order. An element starts with a size_t, the offset of its terminated string in `text`.
 * 0 or -ENOMEM.
 *
 * qsort would do but for its hidden system call: glibc asks how much memory the machine has, which
 * the index worker's filter need not allow.
 */
int name_sort(void *array, size_t first, size_t count, size_t size, const char *text);
