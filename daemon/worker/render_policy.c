/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/render_policy.h"

#include <string.h>

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t replacement_sample(
	uint64_t seed, uint64_t epoch, uint64_t sample, uint32_t attempt, uint64_t samples)
{
	const uint64_t key[] = {seed, epoch, sample, attempt};
	uint64_t h = 0;

	for (int i = 0; i < 4; i++)
		h = mix(h + key[i] + UINT64_C(0x9e3779b97f4a7c15));
	return (sample + 1 + h % (samples - 1)) % samples;
}

/* One attempt: 0, or why its sample cannot be delivered. */
static int try_row(struct renderer *renderer, const struct view *view, const struct job_render *job,
	uint32_t i, uint32_t attempt, uint64_t sample, struct error_text *why)
{
	int r;

	if (job->skip[i] >> attempt & 1)
		return error_set(why, BAD_KILLER, "its decoding has killed a worker twice");
	r = render_row(renderer, view, job->slot, job->first_row + i, job->epoch, sample, why);
	if (r < 0)
		return error_set(why, BAD_PICTURE, "cannot be decoded: %s", strerror(-r));
	return r;
}

static void mask_row(const struct view *view, const struct job_render *job, uint32_t i)
{
	uint32_t row = job->first_row + i;

	memset(arena_pixels(&view->arena, job->slot, row), 0, view->arena.geometry.row_bytes);
	arena_rows(&view->arena, job->slot)[row] = (struct batch_row){
		.sample = job->samples[i],
		.label = view->index.samples[job->samples[i]].label,
		.status = BATCH_ROW_MASKED,
	};
}

int render_job_row(struct renderer *renderer, const struct view *view, const struct job_render *job,
	uint32_t i, _Atomic uint32_t *attempt, struct error_text *why)
{
	uint32_t tries = view->on_bad_sample == BAD_SAMPLE_REPLACE && view->part.count > 1
				 ? REPLACE_TRIES
				 : 0;
	struct error_text unsaid; /* why a stand-in is bad: told when its own turn comes */
	int bad = try_row(renderer, view, job, i, 0, job->samples[i], why);

	if (bad == 0 || view->on_bad_sample == BAD_SAMPLE_ERROR)
		return bad;
	for (uint32_t n = 1; n <= tries; n++) {
		if (attempt != NULL)
			atomic_store_explicit(attempt, n, memory_order_release);
		if (try_row(renderer, view, job, i, n,
			    job_attempt_sample(job, view->seed, i, n, &view->part), &unsaid) == 0) {
			arena_rows(&view->arena, job->slot)[job->first_row + i].status =
				BATCH_ROW_REPLACED;
			return bad;
		}
	}
	mask_row(view, job, i);
	return bad;
}
