/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/shared_part.h"

#include "daemon/util/ownership.h"

#include <inttypes.h>
#include <stdlib.h>

static uint64_t bytes_of(uint64_t first, uint64_t end)
{
	return (end - first) * sizeof(uint32_t);
}

static struct shared_part *find(const struct dataset *dataset, uint64_t first, uint64_t end)
{
	struct shared_part *part = dataset->parts;

	while (part != NULL && (part->first != first || part->end != end))
		part = part->next;
	return part;
}

struct shared_part *shared_part_get(struct dataset *dataset, uv_loop_t *loop, struct budget *budget,
	uint64_t first, uint64_t end, struct error_text *error)
{
	struct shared_part *part = find(dataset, first, end);
	uint64_t charge = bytes_of(first, end) + part_draw_memory(dataset->index.header->samples);

	if (part != NULL) {
		part->references++;
		return part;
	}
	if (!budget_take(budget, charge)) {
		error_set(error, 0,
			"this part needs %" PRIu64 " bytes of memory to be drawn, but only %" PRIu64
			" of %" PRIu64 " are left: raise memory in the daemon's configuration",
			charge, budget_left(budget), budget->limit);
		return NULL;
	}
	part = calloc(1, sizeof(*part));
	if (part == NULL || uv_mutex_init(&part->lock) < 0) {
		free(part);
		budget_give(budget, charge);
		error_set(error, 0, "out of memory");
		return NULL;
	}
	part->references = 1;
	part->dataset = dataset;
	part->next = dataset->parts;
	dataset->parts = part;
	part->budget = budget;
	part->loop = loop;
	part->first = first;
	part->end = end;
	part->charged = charge;
	part->fd = -1;
	return part;
}

struct shared_part *shared_part_ref(struct shared_part *part)
{
	part->references++;
	return part;
}

int shared_part_fill(struct shared_part *part)
{
	uint64_t samples = part->dataset->index.header->samples;
	int r = 0;

	uv_mutex_lock(&part->lock);
	if (part->fd < 0) {
		r = part_draw(samples, part->first, part->end);
		if (r >= 0) {
			part->fd = r;
			r = part_map(&part->part, part->fd, part->end - part->first, samples, NULL);
		}
		if (r < 0)
			part->fd = close_fd(part->fd);
	}
	uv_mutex_unlock(&part->lock);
	return r;
}

void shared_part_filled(struct shared_part *part)
{
	uint64_t charge = bytes_of(part->first, part->end);

	budget_give(part->budget, part->charged - charge);
	part->charged = charge;
}

static void release_memory(uv_work_t *work)
{
	struct shared_part *part = work->data;

	part_unmap(&part->part);
	close_fd(part->fd);
}

static void on_released(uv_work_t *work, int status)
{
	struct shared_part *part = work->data;

	(void)status;
	budget_give(part->budget, part->charged);
	uv_mutex_destroy(&part->lock);
	free(part);
}

void shared_part_unref(struct shared_part *part)
{
	struct shared_part **link;

	if (part == NULL || --part->references > 0)
		return;
	for (link = &part->dataset->parts; *link != part;)
		link = &(*link)->next;
	*link = part->next;
	part->work.data = part;
	if (uv_queue_work(part->loop, &part->work, release_memory, on_released) < 0) {
		release_memory(&part->work);
		on_released(&part->work, 0);
	}
}
