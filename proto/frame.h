/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * A frame is this header and one protobuf message (PROTOCOL.md):
 *
 *   offset 0  u32 LE  payload length in bytes, 1..limit
 *   offset 4  u16 LE  descriptors that travel with the frame (SCM_RIGHTS on its first byte)
 *   offset 6  u16     zero
 *
 * The limits are checked on the header, before anything is allocated. Client frames are small
 * because a protobuf parser makes far more heap than its input: protobuf-c makes 36 MiB out of 1 MiB
 * of empty submessages.
 */
enum {
	FRAME_HEADER_BYTES = 8,
	FRAME_CLIENT_MAX = 64 << 10,  /* payload of a client's frame */
	FRAME_CONTROL_MAX = 1 << 20,  /* payload of a server's frame, inline batches excepted */
	FRAME_INLINE_MAX = 256 << 20, /* payload of a frame with an inline batch */
	FRAME_FDS_MAX = 1,            /* descriptors per frame: Opened carries the arena's */

	PROTOCOL_VERSION = 1,
	PROTOCOL_STREAMS_MAX = 16,                           /* open streams per connection */
	PROTOCOL_DEPTH_MAX = 256,                            /* batches in flight per stream */
	PROTOCOL_BATCH_SIZE_MAX = 65536,                     /* samples per batch */
	PROTOCOL_CLIENT_NAME_MAX = 64,                       /* bytes of Hello.client */
	PROTOCOL_TRANSFORMS_MAX = 32,                        /* steps of a pipeline */
	PROTOCOL_BAD_ROWS_MAX = 256,                         /* entries of Batch.bad_row */
	PROTOCOL_BAD_TEXT_MAX = 255,                         /* bytes of BadRow.text */
	PROTOCOL_BAD_ROW_BYTES = PROTOCOL_BAD_TEXT_MAX + 32, /* of one entry, packed, at most */
	PROTOCOL_LISTS_MAX = 16, /* ListClasses and ListSamples that wait, per connection */
};

struct frame_header {
	uint32_t length; /* bytes of payload */
	uint16_t fds;
};

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *header);

/* 0 and a header that is within the limits, or -EBADMSG (reserved bits set, empty payload, too many
 * descriptors), -EMSGSIZE (longer than `max_length`). */
int frame_decode(
	const uint8_t in[FRAME_HEADER_BYTES], uint32_t max_length, struct frame_header *header);
