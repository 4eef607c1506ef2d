/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/cuda_backend.h"

#include <string.h>

static size_t pixel_bytes(const struct cuda *cuda, uint32_t rows)
{
	return backend_inputs(&cuda->backend) * rows *
	       model_value_bytes(cuda->backend.input.values);
}

static int create_events(struct cuda *cuda)
{
	for (unsigned i = 0; i < CUDA_RING; i++) {
		struct cuda_step *step = &cuda->ring[i];
		cudaEvent_t *events[] = {&step->copy_start, &step->copy_end, &step->compute_start,
			&step->compute_end};

		for (unsigned j = 0; j < 4; j++) {
			int r = cuda_check(cuda,
				cudaEventCreateWithFlags(events[j], cudaEventBlockingSync),
				"cudaEventCreateWithFlags");

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int create_buffer(struct cuda *cuda, struct cuda_buffer *buffer)
{
	size_t labels = cuda->backend.max_rows * sizeof(int32_t);
	int r = cuda_allocate(cuda, pixel_bytes(cuda, cuda->backend.max_rows), &buffer->pixels);

	if (r == 0)
		r = cuda_allocate(cuda, labels, (void **)&buffer->labels);
	if (r == 0)
		r = cuda_check(cuda, cudaMallocHost((void **)&buffer->host_labels, labels),
			"cudaMallocHost");
	return r;
}

static int create_tables(struct cuda *cuda)
{
	const struct model_input *input = &cuda->backend.input;
	size_t bytes = input->channels * sizeof(input->table[0]);
	int r;

	if (input->values == MODEL_F32)
		return 0;
	r = cuda_allocate(cuda,
		backend_inputs(&cuda->backend) * cuda->backend.max_rows * sizeof(float),
		(void **)&cuda->normalised);
	if (r < 0 || input->values != MODEL_U8)
		return r;
	r = cuda_allocate(cuda, bytes, (void **)&cuda->tables);
	if (r == 0)
		r = cuda_check(cuda,
			cudaMemcpyAsync(cuda->tables, input->table, bytes, cudaMemcpyHostToDevice,
				cuda->compute),
			"cudaMemcpyAsync");
	return r;
}

int cuda_batches_init(struct cuda *cuda)
{
	int r = create_events(cuda);

	for (unsigned i = 0; r == 0 && i < CUDA_BUFFERS; i++)
		r = create_buffer(cuda, &cuda->buffers[i]);
	if (r == 0)
		r = create_tables(cuda);
	/* The buffers are cleared on one stream and filled on the other. */
	if (r == 0)
		r = cuda_check(cuda, cudaStreamSynchronize(cuda->compute), "cudaStreamSynchronize");
	return r;
}

void cuda_batches_finish(struct cuda *cuda)
{
	if (cuda->copy)
		cudaStreamSynchronize(cuda->copy);
	if (cuda->compute)
		cudaStreamSynchronize(cuda->compute);
	for (unsigned i = 0; i < cuda->arena_count; i++)
		cudaHostUnregister((void *)cuda->arenas[i].start);
	for (unsigned i = 0; i < CUDA_BUFFERS; i++) {
		cudaFreeHost(cuda->buffers[i].host_labels);
		cudaFreeHost(cuda->buffers[i].host_pixels);
	}
	for (unsigned i = 0; i < CUDA_RING; i++) {
		struct cuda_step *step = &cuda->ring[i];
		cudaEvent_t events[] = {
			step->copy_start, step->copy_end, step->compute_start, step->compute_end};

		for (unsigned j = 0; j < 4; j++)
			if (events[j])
				cudaEventDestroy(events[j]);
	}
}

/* Where the driver can pin memory that is mapped read-only, the GPU copies straight from the arena;
 * elsewhere, or when the driver refuses, batches go through pinned buffers. */
int cuda_attach(struct backend *backend, const void *arena, size_t bytes)
{
	struct cuda *cuda = cuda_of(backend);
	int supported = 0, r;

	r = cuda_check(cuda,
		cudaDeviceGetAttribute(
			&supported, cudaDevAttrHostRegisterReadOnlySupported, cuda->index),
		"cudaDeviceGetAttribute");
	if (r < 0 || !supported || cuda->arena_count == CUDA_ARENAS)
		return r;
	if (cudaHostRegister((void *)arena, bytes, cudaHostRegisterReadOnly) != cudaSuccess) {
		cudaGetLastError(); /* or the next launch would report it */
		return 0;
	}
	cuda->arenas[cuda->arena_count].start = arena;
	cuda->arenas[cuda->arena_count].bytes = bytes;
	cuda->arena_count++;
	return 0;
}

static bool registered(const struct cuda *cuda, const char *from, size_t bytes)
{
	for (unsigned i = 0; i < cuda->arena_count; i++) {
		const struct cuda_arena *arena = &cuda->arenas[i];

		if (from >= arena->start && bytes <= arena->bytes &&
			(size_t)(from - arena->start) <= arena->bytes - bytes)
			return true;
	}
	return false;
}

/* Pinned memory that holds the batch's pixels: the arena itself, or a copy. */
static int pin_pixels(struct cuda *cuda, struct cuda_buffer *buffer,
	const struct model_batch *batch, const void **pinned)
{
	size_t bytes = pixel_bytes(cuda, batch->rows);

	*pinned = batch->pixels;
	if (registered(cuda, batch->pixels, bytes))
		return 0;
	if (!buffer->host_pixels) {
		int r = cuda_check(cuda,
			cudaMallocHost(
				&buffer->host_pixels, pixel_bytes(cuda, cuda->backend.max_rows)),
			"cudaMallocHost");

		if (r < 0)
			return r;
	}
	memcpy(buffer->host_pixels, batch->pixels, bytes);
	*pinned = buffer->host_pixels;
	return 0;
}

static int record(struct cuda *cuda, cudaEvent_t event, cudaStream_t stream)
{
	return cuda_check(cuda, cudaEventRecord(event, stream), "cudaEventRecord");
}

static int wait_for(struct cuda *cuda, cudaStream_t stream, cudaEvent_t event)
{
	return cuda_check(cuda, cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

/* Before batch n is queued: nothing of its buffers and events may be in use. */
static int make_room(struct cuda *cuda)
{
	uint64_t n = cuda->queued;
	int r = 0;

	/* Step n-7 needs the events of n-8 too, which batch n is about to take. */
	while (r == 0 && cuda->harvested + CUDA_RING <= n + 1)
		r = cuda_harvest_next(cuda);
	if (r < 0 || n < CUDA_BUFFERS)
		return r;
	r = cuda_check(cuda, cudaEventSynchronize(cuda_step_at(cuda, n - CUDA_BUFFERS)->copy_end),
		"cudaEventSynchronize");
	if (r == 0 && cuda->consumed < n - CUDA_BUFFERS + 1)
		cuda->consumed = n - CUDA_BUFFERS + 1;
	return r;
}

static int queue_copies(struct cuda *cuda, const void *pixels, uint32_t rows)
{
	uint64_t n = cuda->queued;
	struct cuda_buffer *buffer = &cuda->buffers[n % CUDA_BUFFERS];
	struct cuda_step *step = cuda_step_at(cuda, n);
	int r = 0;

	if (n >= CUDA_BUFFERS)
		r = wait_for(cuda, cuda->copy, cuda_step_at(cuda, n - CUDA_BUFFERS)->compute_end);
	if (r == 0)
		r = record(cuda, step->copy_start, cuda->copy);
	if (r == 0)
		r = cuda_check(cuda,
			cudaMemcpyAsync(buffer->pixels, pixels, pixel_bytes(cuda, rows),
				cudaMemcpyHostToDevice, cuda->copy),
			"cudaMemcpyAsync");
	if (r == 0)
		r = cuda_check(cuda,
			cudaMemcpyAsync(buffer->labels, buffer->host_labels, rows * sizeof(int32_t),
				cudaMemcpyHostToDevice, cuda->copy),
			"cudaMemcpyAsync");
	if (r == 0)
		r = record(cuda, step->copy_end, cuda->copy);
	if (r == 0)
		r = wait_for(cuda, cuda->compute, step->copy_end);
	if (r == 0)
		r = record(cuda, step->compute_start, cuda->compute);
	return r;
}

/* Pixels that came are floats afterwards, on the compute stream. */
static int queue_widening(struct cuda *cuda, const void *pixels, uint32_t rows)
{
	const struct model_input *input = &cuda->backend.input;
	cudaError_t error;

	if (input->values == MODEL_U8)
		error = kernel_normalise(cuda->compute, pixels, cuda->tables, input->channels,
			input->plane, (size_t)rows * input->channels, cuda->normalised);
	else
		error = kernel_widen(cuda->compute, pixels, input->values == MODEL_BF16,
			backend_inputs(&cuda->backend) * rows, cuda->normalised);
	return cuda_check(cuda, error, "kernel normalise");
}

int cuda_begin(
	struct backend *backend, const struct model_batch *batch, struct backend_batch *on_device)
{
	struct cuda *cuda = cuda_of(backend);
	struct cuda_buffer *buffer = &cuda->buffers[cuda->queued % CUDA_BUFFERS];
	bool is_float = backend->input.values == MODEL_F32;
	const void *pinned;
	int r = make_room(cuda);

	if (r == 0)
		r = backend_take_labels(backend, batch, buffer->host_labels);
	if (r == 0)
		r = pin_pixels(cuda, buffer, batch, &pinned);
	if (r == 0)
		r = queue_copies(cuda, pinned, batch->rows);
	if (r < 0)
		return r;
	on_device->x = is_float ? buffer->pixels : cuda->normalised;
	on_device->labels = buffer->labels;
	on_device->rows = batch->rows;
	return is_float ? 0 : queue_widening(cuda, buffer->pixels, batch->rows);
}

int cuda_end(struct backend *backend)
{
	struct cuda *cuda = cuda_of(backend);
	int r = record(cuda, cuda_step_at(cuda, cuda->queued)->compute_end, cuda->compute);

	cuda->queued++;
	return r;
}

int cuda_consumed(struct backend *backend, bool wait, uint64_t *count)
{
	struct cuda *cuda = cuda_of(backend);
	int r = 0;

	if (wait && cuda->consumed < cuda->queued) {
		r = cuda_check(cuda,
			cudaEventSynchronize(cuda_step_at(cuda, cuda->consumed)->copy_end),
			"cudaEventSynchronize");
		cuda->consumed++;
	}
	while (r == 0 && cuda->consumed < cuda->queued) {
		cudaError_t error = cudaEventQuery(cuda_step_at(cuda, cuda->consumed)->copy_end);

		if (error == cudaErrorNotReady) {
			(void)cudaGetLastError(); /* or the next launch would report it */
			break;
		}
		r = cuda_check(cuda, error, "cudaEventQuery");
		if (r == 0)
			cuda->consumed++;
	}
	*count = cuda->consumed;
	return r;
}
