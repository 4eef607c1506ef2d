/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/part.h"
#include "daemon/worker/render.h"

#include <stdatomic.h>
#include <stdint.h>

/*
 * What a stream gets in place of a sample that cannot be delivered (job_attach.on_bad_sample):
 *
 *   ERROR    nothing: the row is not rendered, and the stream ends
 *   MASK     a row of zero bytes with the sample's own index and label, BATCH_ROW_MASKED
 *   REPLACE  another sample with its own index and label, BATCH_ROW_REPLACED; masked when none of
 *            REPLACE_TRIES others can be delivered either
 *
 * A pure function of the stream's seed, the epoch, the sample and which files are bad: workers, their
 * number and their deaths have no part in it.
 */

/* The position that stands in at try `attempt` (1 .. REPLACE_TRIES) for position `sample` of `samples` (at
 * least 2); never `sample` itself. With mix as in splitmix64 (Steele, Lea and Flood 2014):
 *   h = 0; for v in seed, epoch, sample, attempt: h = mix(h + v + 0x9e3779b97f4a7c15)
 *   (sample + 1 + h % (samples - 1)) % samples
 * In a whole data set positions are samples; in a part of one they count its samples. */
uint64_t replacement_sample(
	uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t attempt, uint64_t samples);

/* The sample that attempt `attempt` at row `i` of the job is about: its own for 0, else one of the
 * stream's `part` (of at least 2). */
static inline uint64_t job_attempt_sample(const struct job_render *job, uint64_t seed, uint32_t i,
	uint32_t attempt, const struct part *part)
{
	if (attempt == 0)
		return job->samples[i];
	return part_sample(
		part, replacement_sample(seed, job->epoch, part_position(part, job->samples[i]),
			      attempt, part->count));
}

/* Fill row `i` of a job that fits. `attempt` (may be NULL) tells which attempt is at hand. 0, or the
 * enum bad_reason of the job's own sample with the reason in `why`; with MASK and REPLACE the row is
 * done then too, with ERROR it is not. */
int render_job_row(struct renderer *renderer, const struct view *view, const struct job_render *job,
	uint32_t i, _Atomic uint32_t *attempt, struct error_text *why);
