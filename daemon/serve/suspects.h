/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Samples of one stream at which workers have died. One that a worker survives is absolved; one that
 * has killed two is convicted for as long as the stream lives. Every entry has cost a process, so the
 * list stays short.
 */
enum { SUSPECT_DEATHS = 2 };

struct suspect {
	uint64_t sample;
	uint32_t deaths;
};

struct suspects {
	struct suspect *list;
	size_t count, capacity;
};

void suspects_finish(struct suspects *suspects);

/* A worker died at `sample`: how many have by now, or -ENOMEM. */
int suspects_blame(struct suspects *suspects, uint64_t sample);

/* Deaths at `sample`. */
uint32_t suspects_deaths(const struct suspects *suspects, uint64_t sample);

/* A worker has been through with `sample`. */
void suspects_absolve(struct suspects *suspects, uint64_t sample);

/* Forget all that are not convicted. */
void suspects_absolve_all(struct suspects *suspects);
