/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/checkpoint.h"
#include "trainer/feed.h"
#include "trainer/options.h"
#include "trainer/report.h"
#include "trainer/transform_tail.h"

/* A run: what training_open (setup.c) puts together and training_run (loop.c) drives. */
struct training {
	const struct options *options;
	struct transform_tail tail;     /* with u8 batches */
	struct transform_tail val_tail; /* with u8 batches and --val-transform */
	struct checkpoint checkpoint;
	bool resumed; /* `checkpoint` was loaded */
	bool unsaved; /* steps were trained that the file does not hold yet */
	struct stoker *stoker;
	struct feed train, val; /* val.stream is NULL without --val */
	struct model_config config;
	struct model *model;
	struct report report;
	struct problem problem; /* of the function that failed */
};

/* Connect, open the streams, make the model, load the checkpoint. Negative errno with
 * training->problem filled; training_close is needed in any case. */
int training_open(struct training *training, const struct options *options);
void training_close(struct training *training);

/* Train to the last epoch. 0, the number of the signal that ended it, or a negative errno. */
int training_run(struct training *training);
