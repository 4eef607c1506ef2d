/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/stoker.h"
#include "trainer/model.h"

/*
 * Batches of one stream on their way through the model. A device may copy a batch while it computes
 * the one before, so up to FEED_HELD_MAX batches are held until they have been read.
 *
 *   feed_open(&feed, stoker, &options, &problem);  feed.info tells the shape for the model
 *   feed.model = model;
 *   while ((r = feed_next(&feed, &batch, &problem)) == FEED_BATCH) {
 *           ... model_train(model, ...) ...
 *           feed_hold(&feed, batch, &problem);
 *   }
 */
enum { FEED_HELD_MAX = 2 };

enum feed_result {
	FEED_END = 0,
	FEED_BATCH = 1,
	FEED_EPOCH_END = 2,
	FEED_STOP = 3, /* a signal asks to stop */
};

struct feed_held {
	struct stoker_batch *batch;
	uint64_t number; /* model_queued() after it was queued */
};

struct feed {
	struct stoker *stoker;
	struct stoker_stream *stream;
	const struct stoker_info *info;
	struct model *model; /* borrowed */
	struct feed_held held[FEED_HELD_MAX + 1];
	unsigned count, most; /* held now, at most */
	double wait_seconds;  /* spent without any batch at hand; the caller resets it */
};

#define FEED_NULL                                                                                  \
	{                                                                                          \
		.stream = NULL                                                                     \
	}

int feed_open(struct feed *feed, struct stoker *stoker, const struct stoker_options *options,
	struct problem *problem);
void feed_finish(struct feed *feed);

/* enum feed_result or a negative errno. */
int feed_next(struct feed *feed, struct stoker_batch **batch, struct problem *problem);

/* `batch` has been queued in the model: release it as soon as it has been read. */
int feed_hold(struct feed *feed, struct stoker_batch *batch, struct problem *problem);

/* The batch in the model's terms; borrows from `batch`. */
struct model_batch feed_model_batch(const struct stoker_batch *batch);
