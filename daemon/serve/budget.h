/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bytes of shared memory that all streams together may take (`memory` in the config). */
struct budget {
	uint64_t limit;
	uint64_t used;
};

static inline uint64_t budget_left(const struct budget *budget)
{
	return budget->used < budget->limit ? budget->limit - budget->used : 0;
}

static inline bool budget_take(struct budget *budget, uint64_t bytes)
{
	if (bytes > budget_left(budget))
		return false;
	budget->used += bytes;
	return true;
}

static inline void budget_give(struct budget *budget, uint64_t bytes)
{
	budget->used -= bytes;
}
