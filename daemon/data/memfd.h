/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Anonymous files that others can map without fear: written once from front to back, then sealed. */

/* A new file, close-on-exec: fd or negative errno. */
int memfd_new(const char *name);

/* Append: 0 or negative errno. By write(), not by a mapping: running out of memory is then an error
 * and no SIGBUS. */
int memfd_append(int fd, const void *bytes, size_t length);

/* Nobody can write, grow, shrink or unseal it any more: 0 or negative errno. */
int memfd_seal(int fd);
