/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/image/image.h"
#include "daemon/image/op/image_op.h"
#include "daemon/util/error.h"
#include "daemon/worker/job.h"
#include "daemon/worker/view.h"

#include <stdint.h>

/* Buffers that are reused from sample to sample. */
struct renderer {
	struct image image;
	struct image_ops_buffers image_ops;
	uint8_t *file;
	size_t file_capacity;
	uint64_t encoded_bytes; /* of the sample at hand */
	uint32_t notes;         /* enum render_note bits: of all rows since somebody cleared it */
};

#define RENDERER_NULL                                                                              \
	{                                                                                          \
		.file = NULL                                                                       \
	}

enum {
	RENDER_BAD = BAD_PICTURE, /* the bytes are at fault; the reason does not name the file */
};

/* Render sample `sample` into row `row` of slot `slot`: read, decode, transform, write pixels and the
 * row's entry in the table. Random transforms draw for this sample in `epoch`. Everything must be in
 * range (job_fits). 0, an enum bad_reason, -ENOMEM. */
int render_row(struct renderer *renderer, const struct view *view, uint32_t slot, uint32_t row,
	uint64_t epoch, uint64_t sample, struct error_text *why);

/* Is every number of this job inside the view's arena and index? */
bool render_job_fits(const struct view *view, const struct job_render *job);

/* Ask the kernel to read the sample's bytes ahead; costs a few microseconds and may do nothing. */
void render_read_ahead(const struct view *view, uint64_t sample);

void renderer_finish(struct renderer *renderer);
