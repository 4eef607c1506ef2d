/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/problem.h"

#include <stdbool.h>
#include <stdint.h>

/* What a person or a program sees of a run, on stdout; notes go to stderr. */
struct report {
	bool json;
	bool bar;              /* stdout is a terminal: draw a progress bar */
	uint64_t epochs;       /* in all */
	double drawn_at;       /* clock_seconds() when the bar was last drawn */
	bool bar_visible;      /* the current line holds the bar */
	double indexing_due;   /* clock_seconds() of the next line about indexing; 0 = none yet */
	bool indexing_visible; /* the terminal's line says how far that is */
};

struct report_epoch {
	uint64_t epoch; /* from 1 */
	double seconds; /* of the training pass: first request to last result */
	uint64_t images;
	uint64_t masked; /* left out, since they are bad */
	double loss;     /* mean over the images, each taken when it was trained on */
	bool validated;
	double val_accuracy;      /* 0..1 */
	double data_wait_seconds; /* without any batch at hand */
	double device_busy;       /* share of `seconds`, 0..1 */
};

void report_init(struct report *report, bool json, uint64_t epochs);

/* A line on stderr. */
__attribute__((format(printf, 2, 3))) void report_note(
	struct report *report, const char *format, ...);

/* A data set is being indexed; called about every second. On a terminal one line that is written over, by
 * whatever is noted next; in a log a line after a second, and then every ten. */
void report_indexing(struct report *report, uint64_t samples);
void report_indexed(struct report *report);

/* `done` of `steps` of this epoch, `rate` images per second. Cheap enough for every step. */
void report_progress(
	struct report *report, uint64_t epoch, uint64_t done, uint64_t steps, double rate);

/* The mean loss of one batch; `step` counts from 1 through all epochs. */
void report_step(struct report *report, uint64_t step, double loss);

/* -EIO when stdout cannot be written. */
int report_epoch(struct report *report, const struct report_epoch *epoch, struct problem *problem);
