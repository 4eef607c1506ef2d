/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/training.h"

#include "trainer/clock.h"
#include "trainer/stop.h"

#include <errno.h>
#include <string.h>

static int model_failed(struct training *training)
{
	return problem_set(&training->problem, -EIO, "%s", model_problem(training->model));
}

/* Weights and cursor of the last batch trained, when there is something new. */
static int save(struct training *training)
{
	struct checkpoint *checkpoint = &training->checkpoint;
	int r;

	if (!training->options->checkpoint || !training->unsaved)
		return 0;
	if (model_weights_get(training->model, checkpoint->weights) < 0)
		return model_failed(training);
	r = checkpoint_save(training->options->checkpoint, checkpoint, &training->problem);
	if (r == 0)
		training->unsaved = false;
	return r;
}

static int log_step(struct training *training, const struct stoker_batch *batch)
{
	uint64_t step = batch->epoch * training->train.info->epoch_batches + batch->step + 1;
	float loss;

	if (training->options->log_every == 0 || step % training->options->log_every != 0)
		return 0;
	if (model_step_loss(training->model, &loss) < 0)
		return model_failed(training);
	report_step(&training->report, step, (double)loss);
	return 0;
}

static int train_batch(
	struct training *training, struct stoker_batch *batch, struct report_epoch *epoch)
{
	struct model_batch rows;
	int r = feed_model_batch(&training->train, batch, &rows, &training->problem);

	if (r == 0 && rows.rows > 0 && model_train(training->model, &rows) < 0)
		r = model_failed(training);
	if (r < 0) {
		stoker_release(batch);
		return r;
	}
	training->checkpoint.cursor = batch->cursor;
	training->unsaved = true;
	epoch->epoch = batch->epoch + 1;
	epoch->images += rows.rows;
	epoch->masked += batch->rows - rows.rows;
	if (rows.rows > 0)
		r = log_step(training, batch);
	report_progress(&training->report, epoch->epoch, batch->step + 1,
		training->train.info->epoch_batches,
		(double)epoch->images / (clock_seconds() - epoch->seconds));
	return r < 0 ? r : feed_hold(&training->train, batch, &training->problem);
}

/* One training pass, from where the stream stands to the end of its epoch. Until it ends,
 * epoch->seconds is the time at which it began. */
static int train_epoch(struct training *training, struct report_epoch *epoch)
{
	struct model_totals totals;
	struct stoker_batch *batch;
	int r;

	*epoch = (struct report_epoch){.seconds = clock_seconds()};
	training->train.wait_seconds = 0;
	while ((r = feed_next(&training->train, &batch, &training->problem)) == FEED_BATCH) {
		r = train_batch(training, batch, epoch);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (r != FEED_STOP && epoch->images == 0 && epoch->masked > 0 && !training->resumed)
		return problem_set(&training->problem, -ENODATA,
			"data set %s: every image of epoch %llu is bad; `stoker status` says why",
			training->options->dataset, (unsigned long long)epoch->epoch);
	if (model_totals(training->model, &totals) < 0)
		return model_failed(training);
	epoch->seconds = clock_seconds() - epoch->seconds;
	epoch->loss = totals.loss / (double)totals.rows;
	epoch->data_wait_seconds = training->train.wait_seconds;
	epoch->device_busy = totals.busy_seconds / epoch->seconds;
	return r;
}

/* One pass over the validation stream, which is endless: its next pass begins where this ends. */
static int validate(struct training *training, struct report_epoch *epoch)
{
	struct model_totals totals;
	struct stoker_batch *batch;
	int r;

	while ((r = feed_next(&training->val, &batch, &training->problem)) == FEED_BATCH) {
		struct model_batch rows;

		r = feed_model_batch(&training->val, batch, &rows, &training->problem);
		if (r == 0 && rows.rows > 0 && model_evaluate(training->model, &rows) < 0)
			r = model_failed(training);
		if (r < 0) {
			stoker_release(batch);
			return r;
		}
		r = feed_hold(&training->val, batch, &training->problem);
		if (r < 0)
			return r;
	}
	if (r < 0 || r == FEED_STOP)
		return r;
	if (model_totals(training->model, &totals) < 0)
		return model_failed(training);
	epoch->validated = totals.rows > 0;
	epoch->val_accuracy = (double)totals.correct / (double)totals.rows;
	return r;
}

static int finish_epoch(struct training *training, struct report_epoch *epoch)
{
	int r = save(training);

	if (r < 0)
		return r;
	if (epoch->masked > 0)
		report_note(&training->report,
			"epoch %llu: %llu bad images are masked and left out; `stoker status` names them",
			(unsigned long long)epoch->epoch, (unsigned long long)epoch->masked);
	if (training->val.stream) {
		r = validate(training, epoch);
		if (r < 0 || r == FEED_STOP)
			return r;
	}
	r = report_epoch(&training->report, epoch, &training->problem);
	return r < 0 ? r : FEED_EPOCH_END;
}

static int nothing_trained(struct training *training)
{
	if (!training->resumed)
		return problem_set(&training->problem, -ENODATA,
			"data set %s has no batch of %u images for this rank",
			training->options->dataset, training->options->batch_size);
	report_note(&training->report, "nothing is left to train: %s holds all %u epochs",
		training->options->checkpoint, training->options->epochs);
	return FEED_END;
}

static int train_epochs(struct training *training)
{
	struct report_epoch epoch;
	bool trained = false;
	int r;

	do {
		r = train_epoch(training, &epoch);
		if ((r == FEED_EPOCH_END || r == FEED_END) && epoch.images > 0) {
			trained = true;
			if (finish_epoch(training, &epoch) < 0)
				return -EIO;
		}
	} while (r == FEED_EPOCH_END && !stop_signal());
	return r == FEED_END && !trained ? nothing_trained(training) : r;
}

int training_run(struct training *training)
{
	struct problem first;
	int r = stop_install();

	if (r < 0)
		return problem_set(&training->problem, r, "signals: %s", strerror(-r));
	r = train_epochs(training);
	if (r < 0) {
		/* The steps up to here are good, whatever happened after them. */
		first = training->problem;
		save(training);
		training->problem = first;
		return r;
	}
	r = save(training);
	return r < 0 ? r : stop_signal();
}
