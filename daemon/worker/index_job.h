/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/dataset.h"

#include <stdint.h>

/* Build the index of the data set at `path` and send it as RESULT_INDEXED, or why not as
 * RESULT_FAILED; RESULT_PROGRESS on the way, at most every 200 ms. Unpacked data may take
 * `max_memory` bytes. 0, or -errno when nothing could be sent. */
int index_job_run(int socket_fd, const char *path, const struct dataset_options *options,
	uint64_t max_memory);
