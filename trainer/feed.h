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
 *           feed_model_batch(&feed, batch, &rows, &problem);
 *           ... model_train(model, &rows) ...
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
	void *valid;     /* copy of the rows that are not masked, or NULL */
	uint64_t number; /* model_queued() after it was queued */
};

struct feed {
	struct stoker *stoker;
	struct stoker_stream *stream;
	const struct stoker_info *info;
	struct model *model; /* borrowed */
	struct feed_held held[FEED_HELD_MAX + 1];
	unsigned count, most; /* held now, at most */
	void *valid;          /* of the batch that feed_hold takes next */
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

/* The batch in the model's terms, without its masked rows: those are no pictures. Nothing is left of a
 * batch that is all masked (rows = 0), which the model must not see. Borrows from `batch`, or from a
 * copy that lives as long. -ENOMEM. */
int feed_model_batch(struct feed *feed, const struct stoker_batch *batch, struct model_batch *rows,
	struct problem *problem);

/* `batch`, taken by feed_model_batch before, has been queued in the model: release it as soon as it has
 * been read. */
int feed_hold(struct feed *feed, struct stoker_batch *batch, struct problem *problem);
