/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/dataset.h"

#include <stdint.h>

/* Receive JOB_INDEX, build the index of the data set at `path`, or take a saved one that still matches,
 * and send it as RESULT_INDEXED, or why not as RESULT_FAILED; RESULT_PROGRESS on the way, at most every
 * 200 ms. Unpacked data may take `max_memory` bytes, and one picture has at most
 * `max_pixels`; `roots` (ends with NULL) is what may be read. 0, or
 * -errno when nothing could be received or sent. */
int index_job_run(int socket_fd, const char *path, const struct dataset_options *options,
	const char *const *roots, uint64_t max_memory, uint64_t max_pixels);
