/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/frame.h"

#include <errno.h>

void frame_encode(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *header)
{
	for (int i = 0; i < 4; i++)
		out[i] = header->length >> (8 * i);
	out[4] = header->fds & 0xff;
	out[5] = header->fds >> 8;
	out[6] = 0;
	out[7] = 0;
}

int frame_decode(
	const uint8_t in[FRAME_HEADER_BYTES], uint32_t max_length, struct frame_header *header)
{
	uint32_t length = 0;
	uint16_t fds = in[4] | in[5] << 8;

	for (int i = 0; i < 4; i++)
		length |= (uint32_t)in[i] << (8 * i);
	if (in[6] || in[7] || length == 0 || fds > FRAME_FDS_MAX)
		return -EBADMSG;
	if (length > max_length)
		return -EMSGSIZE;
	*header = (struct frame_header){.length = length, .fds = fds};
	return 0;
}
