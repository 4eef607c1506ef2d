/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"
#include "proto/batch_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The enumerations of stoker.h have the protocol's numbers. */
_Static_assert((int)STOKER_U8 == STOKER__V1__DTYPE__DTYPE_U8, "dtype");
_Static_assert((int)STOKER_F16 == STOKER__V1__DTYPE__DTYPE_F16, "dtype");
_Static_assert((int)STOKER_BF16 == STOKER__V1__DTYPE__DTYPE_BF16, "dtype");
_Static_assert((int)STOKER_F64 == STOKER__V1__DTYPE__DTYPE_F64, "dtype");
_Static_assert((int)STOKER_F32 == STOKER__V1__DTYPE__DTYPE_F32, "dtype");
_Static_assert((int)STOKER_NCHW == STOKER__V1__LAYOUT__LAYOUT_NCHW, "layout");
_Static_assert((int)STOKER_NHWC == STOKER__V1__LAYOUT__LAYOUT_NHWC, "layout");
_Static_assert(
	(int)STOKER_BAD_MASK == STOKER__V1__ON_BAD_SAMPLE__ON_BAD_SAMPLE_MASK, "on_bad_sample");
_Static_assert((int)STOKER_BAD_REPLACE == STOKER__V1__ON_BAD_SAMPLE__ON_BAD_SAMPLE_REPLACE,
	"on_bad_sample");
_Static_assert((int)STOKER_ROW_MASKED == BATCH_ROW_MASKED, "row status");
_Static_assert((int)STOKER_ROW_REPLACED == BATCH_ROW_REPLACED, "row status");
_Static_assert((int)STOKER_ROW_MASKED == STOKER__V1__ROW_STATUS__ROW_MASKED, "row status");
_Static_assert((int)STOKER_ROW_REPLACED == STOKER__V1__ROW_STATUS__ROW_REPLACED, "row status");
_Static_assert((int)STOKER_ROWS_DIGESTS == STOKER__V1__ROWS__ROWS_DIGESTS, "rows");
_Static_assert((int)STOKER_ROWS_PARAMETERS == STOKER__V1__ROWS__ROWS_PARAMETERS, "rows");
_Static_assert(sizeof(struct stoker_digest) == sizeof(struct batch_digest), "digest");
_Static_assert((int)STOKER_SHARED == STOKER__V1__PAYLOAD__PAYLOAD_SHARED, "payload");
_Static_assert((int)STOKER_INLINE == STOKER__V1__PAYLOAD__PAYLOAD_INLINE, "payload");

static bool multiply(uint64_t a, uint64_t b, uint64_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

static bool fits(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

static uint64_t dtype_bytes(Stoker__V1__Dtype dtype)
{
	switch (dtype) {
	case STOKER__V1__DTYPE__DTYPE_U8: return 1;
	case STOKER__V1__DTYPE__DTYPE_F16:
	case STOKER__V1__DTYPE__DTYPE_BF16: return 2;
	case STOKER__V1__DTYPE__DTYPE_F32: return 4;
	case STOKER__V1__DTYPE__DTYPE_F64: return 8;
	default: return 0;
	}
}

/* Do shape, dtype and row_bytes agree, and does a batch have a size that memory can have? */
static bool shape_valid(const Stoker__V1__Opened *opened, uint32_t batch_size)
{
	uint64_t bytes = dtype_bytes(opened->dtype);

	if (opened->n_shape != 3)
		return false;
	for (int i = 0; i < 3; i++) {
		if (!multiply(bytes, opened->shape[i], &bytes))
			return false;
	}
	return bytes > 0 && bytes == opened->row_bytes && multiply(bytes, batch_size, &bytes) &&
	       bytes <= PTRDIFF_MAX;
}

/* Do all slots lie inside the memory, and all rows inside their slots? */
static bool geometry_valid(const Stoker__V1__Opened *opened, uint32_t batch_size)
{
	uint64_t table = (uint64_t)batch_size * sizeof(struct batch_row);
	uint64_t tensor = opened->row_bytes * batch_size; /* shape_valid has checked it */
	uint64_t slots;

	return opened->slots > 0 && opened->arena_bytes <= PTRDIFF_MAX &&
	       opened->slots_offset >= sizeof(struct batch_arena_header) &&
	       opened->slots_offset % BATCH_ARENA_PAGE == 0 &&
	       opened->slot_stride % BATCH_ARENA_PAGE == 0 &&
	       opened->tensor_offset % BATCH_ARENA_PAGE == 0 && opened->tensor_offset >= table &&
	       fits(opened->tensor_offset, tensor, opened->slot_stride) &&
	       multiply(opened->slots, opened->slot_stride, &slots) &&
	       fits(opened->slots_offset, slots, opened->arena_bytes);
}

static int not_credible(struct stoker_stream *stream, const char *what)
{
	return client_die(stream->stoker, -EBADMSG,
		"the daemon at %s broke the protocol: the answer to Open has %s",
		stream->stoker->socket, what);
}

/* A memory that could still shrink would end us by SIGBUS in the middle of a batch. */
static int map_arena(struct stoker_stream *stream, const Stoker__V1__Opened *opened, int fd)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct stat status;
	void *memory;
	int seals;

	if (fd < 0)
		return not_credible(stream, "no descriptor of the shared memory");
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & needed) != needed)
		return not_credible(stream, "shared memory that is not sealed");
	if (fstat(fd, &status) < 0 || status.st_size != opened->arena_bytes)
		return not_credible(stream, "shared memory of another size than it says");
	memory = mmap(NULL, opened->arena_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return client_error(stream->stoker, -errno, "mapping %llu bytes of batches: %s",
			(unsigned long long)opened->arena_bytes, strerror(errno));
	stream->info.arena = memory;
	stream->info.arena_bytes = opened->arena_bytes;
	stream->slots = opened->slots;
	stream->slots_offset = opened->slots_offset;
	stream->slot_stride = opened->slot_stride;
	stream->tensor_offset = opened->tensor_offset;
	return 0;
}

/* Frames of this stream carry a whole batch: pixels, an index and a label of at most 10 bytes each and
 * a status of one per row, why rows are bad, and the fixed fields. */
static int accept_inline_frames(struct stoker_stream *stream)
{
	enum { FIXED_FIELDS = 1024, ROW_FIELDS = 21 };
	uint64_t most = stream->info.batch_size * (stream->info.row_bytes + ROW_FIELDS) +
			PROTOCOL_BAD_ROWS_MAX * PROTOCOL_BAD_ROW_BYTES + FIXED_FIELDS;
	struct stoker *stoker = stream->stoker;

	if (most > stoker->max_inline_frame)
		most = stoker->max_inline_frame;
	if (most > stoker->io.max_length)
		stoker->io.max_length = most;
	return 0;
}

int stream_adopt(struct stoker_stream *stream, const struct stoker_options *options,
	const Stoker__V1__Opened *opened, int fd)
{
	struct stoker_info *info = &stream->info;
	int payload = opened->payload;

	if ((int)opened->dtype != (int)options->dtype ||
		(int)opened->layout != (int)options->layout)
		return not_credible(stream, "another dtype or layout than asked for");
	if ((payload != STOKER_SHARED && payload != STOKER_INLINE) ||
		(options->payload != 0 && payload != options->payload))
		return not_credible(stream, "another payload than asked for");
	if (!shape_valid(opened, options->batch_size) ||
		(options->rows == STOKER_ROWS_DIGESTS &&
			opened->row_bytes != sizeof(struct stoker_digest)))
		return not_credible(stream, "a shape that does not fit its bytes");
	if (opened->depth == 0 || opened->depth > PROTOCOL_DEPTH_MAX)
		return not_credible(stream, "a depth out of range");

	*info = (struct stoker_info){
		.shape = {opened->shape[0], opened->shape[1], opened->shape[2]},
		.dtype = options->dtype,
		.layout = options->layout,
		.payload = (enum stoker_payload)payload,
		.batch_size = options->batch_size,
		.row_bytes = opened->row_bytes,
		.dataset_samples = opened->dataset_samples,
		.epoch_samples = opened->epoch_samples,
		.epoch_batches = opened->epoch_batches,
		.classes = opened->classes,
		.depth = opened->depth,
		.fingerprint = opened->fingerprint,
	};
	if (info->payload == STOKER_INLINE)
		return accept_inline_frames(stream);
	if (!geometry_valid(opened, options->batch_size))
		return not_credible(stream, "a layout that does not fit its memory");
	return map_arena(stream, opened, fd);
}
