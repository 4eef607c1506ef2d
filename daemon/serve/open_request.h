/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/part_name.h"
#include "daemon/image/transform.h"
#include "daemon/serve/cursor.h"
#include "daemon/serve/stream.h"
#include "daemon/util/error.h"
#include "proto/frame.h"
#include "stoker.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

/* A client's Open, checked as far as that is possible without the data set. */
struct open_request {
	uint32_t request;
	struct part_name part; /* its bytes are the message's */
	struct transform_step steps[PROTOCOL_TRANSFORMS_MAX];
	size_t step_count;
	enum row_content rows;
	enum pixel_dtype dtype; /* F64 with ROW_PARAMETERS */
	enum pixel_layout layout;
	uint32_t decode_flags;       /* enum decode_flag bits */
	struct stream_params params; /* order.samples and fingerprint come from the data set */
	uint32_t depth;              /* 0 = ours to choose */
	bool is_inline;
	bool has_start;
	struct cursor start;
};

/* Fill `request`: 0, or a positive Stoker__V1__ErrorCode with a sentence. */
int open_request_parse(struct open_request *request, const Stoker__V1__Open *open, bool takes_fds,
	struct error_text *error);

/* The message's cursor, or one with world 1 for absent fields. */
struct cursor cursor_from_message(const Stoker__V1__Cursor *message);
void cursor_to_message(const struct cursor *cursor, Stoker__V1__Cursor *message);
