/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "proto/batch_layout.h"

/* The digest of a decoded picture: of its RGB pixels, with those of an L picture repeated, so that it
 * is that of Pillow's convert('RGB').tobytes(). `bytes` is the size of its file. */
void image_digest(const struct image *image, uint64_t bytes, struct batch_digest *digest);
