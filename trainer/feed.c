/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/feed.h"

#include "trainer/clock.h"
#include "trainer/stop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

int feed_open(struct feed *feed, struct stoker *stoker, const struct stoker_options *options,
	struct problem *problem)
{
	int r = stoker_open(stoker, options, &feed->stream);

	if (r < 0)
		return problem_set(
			problem, r, "data set %s: %s", options->dataset, stoker_message(stoker));
	feed->stoker = stoker;
	feed->info = stoker_stream_info(feed->stream);
	/* One batch must stay with the daemon, or nothing more could come. */
	feed->most = feed->info->depth > FEED_HELD_MAX ? FEED_HELD_MAX
		     : feed->info->depth > 0           ? feed->info->depth - 1
						       : 0;
	return 0;
}

static void release_held(struct feed_held *held)
{
	stoker_release(held->batch);
	free(held->valid);
}

void feed_finish(struct feed *feed)
{
	for (unsigned i = 0; i < feed->count; i++)
		release_held(&feed->held[i]);
	free(feed->valid);
	stoker_close(feed->stream);
	*feed = (struct feed)FEED_NULL;
}

static int release_read(struct feed *feed, bool wait, struct problem *problem)
{
	uint64_t consumed;
	unsigned done = 0;

	if (feed->count == 0)
		return 0;
	if (model_consumed(feed->model, wait, &consumed) < 0)
		return problem_set(problem, -EIO, "%s", model_problem(feed->model));
	while (done < feed->count && feed->held[done].number <= consumed)
		release_held(&feed->held[done++]);
	feed->count -= done;
	memmove(feed->held, feed->held + done, feed->count * sizeof(feed->held[0]));
	return 0;
}

int feed_hold(struct feed *feed, struct stoker_batch *batch, struct problem *problem)
{
	int r;

	feed->held[feed->count].batch = batch;
	feed->held[feed->count].valid = feed->valid;
	feed->valid = NULL;
	feed->held[feed->count].number = model_queued(feed->model);
	feed->count++;
	r = release_read(feed, false, problem);
	while (r == 0 && feed->count > feed->most)
		r = release_read(feed, true, problem);
	return r;
}

static int wait_for_batch(struct feed *feed, struct problem *problem)
{
	struct pollfd polled[2] = {
		{.fd = stoker_fd(feed->stoker), .events = POLLIN},
		{.fd = stop_fd(), .events = POLLIN},
	};
	double start = clock_seconds();
	int r = poll(polled, 2, -1);

	feed->wait_seconds += clock_seconds() - start;
	if (r < 0 && errno != EINTR)
		return problem_set(problem, -errno, "poll: %s", strerror(errno));
	return 0;
}

/* Nothing has come. The daemon may be waiting for the slots of batches that are being copied, so
 * these are given back first; the end of a copy would not wake poll(). */
static int wait_for_more(struct feed *feed, struct problem *problem)
{
	return feed->count > 0 ? release_read(feed, true, problem) : wait_for_batch(feed, problem);
}

/* After a pass: its last batches must not be missing while another stream is read. */
static int release_all(struct feed *feed, struct problem *problem)
{
	int r = 0;

	while (r == 0 && feed->count > 0)
		r = release_read(feed, true, problem);
	return r;
}

int feed_next(struct feed *feed, struct stoker_batch **batch, struct problem *problem)
{
	int r;

	do {
		if (stop_signal())
			return FEED_STOP;
		r = release_read(feed, false, problem);
		if (r < 0)
			return r;
		r = stoker_next(feed->stream, 0, batch);
		if (r == STOKER_AGAIN && wait_for_more(feed, problem) < 0)
			return -EIO;
	} while (r == STOKER_AGAIN);
	if ((r == STOKER_END || r == STOKER_EPOCH_END) && release_all(feed, problem) < 0)
		return -EIO;
	switch (r) {
	case STOKER_END: return FEED_END;
	case STOKER_BATCH: return FEED_BATCH;
	case STOKER_EPOCH_END: return FEED_EPOCH_END;
	default: return problem_set(problem, r, "%s", stoker_message(feed->stoker));
	}
}

/* Copy the rows that are not masked: indices, labels and pixels, in one allocation. */
static int copy_valid(struct feed *feed, const struct stoker_batch *batch, struct model_batch *rows)
{
	size_t row_bytes = feed->info->row_bytes;
	uint64_t *samples = malloc(batch->rows * (sizeof(uint64_t) + row_bytes + sizeof(int32_t)));
	uint8_t *pixels;
	int32_t *labels;
	uint32_t n = 0;

	if (!samples)
		return -ENOMEM;
	/* Each is aligned behind the one before: 8, 4 and at most 4 bytes. */
	labels = (int32_t *)(samples + batch->rows);
	pixels = (uint8_t *)(labels + batch->rows);
	for (uint32_t i = 0; i < batch->rows; i++) {
		if (batch->statuses[i] == STOKER_ROW_MASKED)
			continue;
		samples[n] = batch->samples[i];
		labels[n] = batch->labels[i];
		memcpy(pixels + n++ * row_bytes, (const uint8_t *)batch->data + i * row_bytes,
			row_bytes);
	}
	feed->valid = samples;
	rows->pixels = pixels;
	rows->labels = labels;
	rows->samples = samples;
	rows->rows = n;
	return 0;
}

static bool has_masked(const struct stoker_batch *batch)
{
	return batch->statuses && memchr(batch->statuses, STOKER_ROW_MASKED, batch->rows);
}

int feed_model_batch(struct feed *feed, const struct stoker_batch *batch, struct model_batch *rows,
	struct problem *problem)
{
	*rows = (struct model_batch){
		.pixels = batch->data,
		.labels = batch->labels,
		.samples = batch->samples,
		.rows = batch->rows,
	};
	if (has_masked(batch) && copy_valid(feed, batch, rows) < 0)
		return problem_set(problem, -ENOMEM, "out of memory");
	return 0;
}
