/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/part.h"
#include "daemon/serve/budget.h"
#include "daemon/serve/catalog.h"
#include "daemon/util/error.h"

#include <stdint.h>
#include <uv.h>

/*
 * A part of a data set, drawn once for all streams of it:
 *
 *   shared_part_get(...)     on the loop; the whole data set is none of these
 *   shared_part_fill(part)   in a thread, by each who got it: the first one draws, others wait for that
 *   ... part->part ...       the samples, once a fill has returned 0
 *   shared_part_unref(part)  on the loop
 *
 * It takes 4 bytes a sample from the memory budget, and for as long as nobody has filled it those that
 * drawing needs too. Whoever holds one also holds its data set.
 */
struct shared_part {
	unsigned references;
	struct dataset *dataset; /* in whose list it is; borrowed */
	struct shared_part *next;
	struct budget *budget;
	uv_loop_t *loop;
	uint64_t first, end;
	uint64_t charged; /* bytes of the budget */
	uv_mutex_t lock;  /* of what follows, until it is filled */
	int fd;           /* sealed memfd, see part_draw; -1 before */
	struct part part;
	uv_work_t work; /* gives the memory back */
};

/* The part [first, end) of the data set, which is READY, with a reference more; NULL with the reason when
 * there is no memory. */
struct shared_part *shared_part_get(struct dataset *dataset, uv_loop_t *loop, struct budget *budget,
	uint64_t first, uint64_t end, struct error_text *error);

/* 0 or -errno. May be called again, and in several threads. */
int shared_part_fill(struct shared_part *part);

/* After a fill: give back what drawing had taken of the budget. On the loop. */
void shared_part_filled(struct shared_part *part);

struct shared_part *shared_part_ref(struct shared_part *part);
void shared_part_unref(struct shared_part *part); /* NULL is fine */
