/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"
#include "daemon/worker/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The samples of one data set that have turned out bad since it was indexed: how many, for which
 * reasons, and the first of them by name. A sample counts once, however many streams and epochs meet
 * it; `rows` counts each time. Costs nothing until the first one.
 */
enum { BAD_SAMPLES_LISTED = 100 };

struct bad_sample {
	uint64_t sample;
	enum bad_reason reason;
	struct error_text text; /* without the file's name */
};

struct bad_samples {
	uint8_t *seen; /* a bit for each sample; NULL before the first, or without memory */
	struct bad_sample *list;
	size_t listed;                 /* at most BAD_SAMPLES_LISTED */
	uint64_t rows;                 /* delivered masked or replaced, and streams ended */
	uint64_t samples[BAD_REASONS]; /* by reason, the one found first */
};

void bad_samples_finish(struct bad_samples *bad);

/* `sample` of `total` is bad. True when it is so for the first time. */
bool bad_samples_note(struct bad_samples *bad, uint64_t sample, uint64_t total,
	enum bad_reason reason, const struct error_text *text);
