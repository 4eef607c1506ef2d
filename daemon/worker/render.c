/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/render.h"

#include "daemon/data/idx_pixels.h"
#include "daemon/image/decode/decode.h"
#include "daemon/image/decode/digest.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static int renderer_reserve(struct renderer *renderer, size_t bytes)
{
	enum { KEEP = 4 << 20 };
	size_t capacity = bytes < 64 << 10 ? 64 << 10 : bytes;
	uint8_t *file;

	/* One huge file must not pin its size in every worker for ever. */
	if (renderer->file_capacity >= bytes &&
		(renderer->file_capacity <= KEEP || bytes > renderer->file_capacity / 4))
		return 0;
	file = realloc(renderer->file, capacity);
	if (file == NULL)
		return -ENOMEM;
	renderer->file = file;
	renderer->file_capacity = capacity;
	return 0;
}

static int bad_errno(struct error_text *why, int error)
{
	if (error == EACCES || error == ELOOP || error == EXDEV)
		return error_set(why, BAD_UNREADABLE,
			"cannot be opened: %s (if it lies outside the data set, or is a link that does, "
			"name the place in the data set's also_read)",
			strerror(error));
	return error_set(why, BAD_UNREADABLE, "cannot be read: %s", strerror(error));
}

/* The data set itself is not there any more, or another one: workers may read the old one only. */
static int bad_source(const struct view *view, struct error_text *why)
{
	return error_set(why, BAD_UNREADABLE,
		"its data set cannot be opened: %s (if that has been replaced, reload stokerd)",
		strerror(view->source_errno));
}

static const char *file_type(mode_t mode)
{
	return S_ISDIR(mode)    ? "a directory"
	       : S_ISFIFO(mode) ? "a FIFO"
	       : S_ISSOCK(mode) ? "a socket"
				: "a device";
}

/* The archive that holds a sample, or NULL. */
static const struct index_source *source_of(const struct index *index, uint64_t sample)
{
	if (index->header->kind != INDEX_TAR)
		return NULL;
	return &index->sources[index->extents[sample].source];
}

/* Open the file that holds a sample: its own, or its archive. One at a time, so that the number of
 * archives does not matter. O_NONBLOCK: a FIFO must not stop the worker. -EISDIR also where the sandbox
 * does not let directories be opened. */
static int open_sample(const struct view *view, uint64_t sample)
{
	char path[PATH_MAX];
	struct stat st;
	const struct index_source *source = source_of(&view->index, sample);
	uint32_t length;
	const uint8_t *bytes = index_path(&view->index, sample, &length);
	int fd;

	if (source) {
		bytes = view->index.blob + source->offset;
		length = source->length;
	}
	memcpy(path, bytes, length);
	path[length] = '\0';
	fd = openat(view->source_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == EACCES && fstatat(view->source_fd, path, &st, 0) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	return -errno;
}

/* Read up to `bytes` at `offset`; a file may have shrunk since it was measured. */
static ssize_t read_at(int fd, uint8_t *buffer, size_t bytes, off_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = pread(fd, buffer + done, bytes - done, offset + (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* Where the sample's bytes lie in its open file: 0, or RENDER_BAD. */
static int find_extent(const struct view *view, uint64_t sample, int fd, uint64_t *offset,
	uint64_t *length, struct error_text *why)
{
	const struct index_source *source = source_of(&view->index, sample);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return bad_errno(why, errno);
	if (!S_ISREG(st.st_mode))
		return error_set(why, BAD_UNREADABLE, "is %s, not a file", file_type(st.st_mode));
	*offset = 0;
	*length = (uint64_t)st.st_size;
	if (source) {
		if ((uint64_t)st.st_size != source->bytes ||
			index_mtime_ns(&st) != source->mtime_ns)
			return error_set(why, BAD_UNREADABLE,
				"lies in an archive that has changed since it was indexed: reload stokerd");
		*offset = view->index.extents[sample].offset;
		*length = view->index.extents[sample].length;
	}
	if (*length > DECODE_FILE_MAX)
		return error_set(why, BAD_UNREADABLE, "is larger than %u MiB",
			(unsigned)(DECODE_FILE_MAX >> 20));
	return 0;
}

/* Read `length` bytes at `offset` into renderer->file, which has `*got` of them already and may get
 * fewer than asked for. */
static int fill(struct renderer *renderer, int fd, uint64_t offset, uint64_t length, size_t *got,
	struct error_text *why)
{
	int r = renderer_reserve(renderer, (size_t)length);
	ssize_t n;

	if (r < 0)
		return r;
	n = read_at(fd, renderer->file + *got, (size_t)length - *got, (off_t)(offset + *got));
	if (n < 0)
		return bad_errno(why, (int)-n);
	*got += (size_t)n;
	return 0;
}

/* Files of ordinary size are read at once. Of a larger one the front must first say that there is a
 * picture for so many bytes. */
static int read_file(struct renderer *renderer, const struct decode_options *options, int fd,
	uint64_t offset, uint64_t length, size_t *got, struct error_text *why)
{
	struct error_text front;
	struct picture_info info;
	int r;

	*got = 0;
	if (length <= DECODE_FILE_EXTRA)
		return fill(renderer, fd, offset, length, got, why);
	r = fill(renderer, fd, offset, DECODE_FILE_EXTRA, got, why);
	if (r == 0 && (r = image_probe(renderer->file, *got, options, &info, &front)) == DECODE_BAD)
		error_set(why, r, "%.200s (in the first %u of its %" PRIu64 " MiB)", front.text,
			(unsigned int)(DECODE_FILE_EXTRA >> 20), length >> 20);
	if (r == 0)
		r = image_check_length(&info, length, why);
	return r == 0 ? fill(renderer, fd, offset, length, got, why) : r;
}

static int load_file(
	struct renderer *renderer, const struct view *view, uint64_t sample, struct error_text *why)
{
	const struct decode_options options = {
		.max_pixels = view->plan.max_pixels,
		.flags = view->plan.decode_flags,
	};
	_cleanup_fd_ int fd = open_sample(view, sample);
	uint64_t offset = 0, length = 0;
	size_t got = 0;
	int r;

	if (fd == -EISDIR)
		return error_set(why, BAD_UNREADABLE, "is a directory, not a file");
	if (fd < 0)
		return bad_errno(why, -fd);
	r = find_extent(view, sample, fd, &offset, &length, why);
	if (r == 0)
		r = read_file(renderer, &options, fd, offset, length, &got, why);
	renderer->encoded_bytes = got;
	if (r == 0)
		r = image_decode(renderer->file, got,
			(enum decode_colour)view->plan.decode_channels, &options, &renderer->image,
			why);
	if (r == 0 && renderer->image.high_byte)
		renderer->notes |= NOTE_GREY16;
	return r;
}

/* The file may be changed, or another one, since it was indexed: its pixels would be anything's. */
static int check_raw(const struct view *view, struct error_text *why)
{
	const struct index_header *header = view->index.header;
	struct stat st;

	if (header->data_in_memfd)
		return 0;
	if (fstat(view->source_fd, &st) < 0)
		return bad_errno(why, errno);
	if (!S_ISREG(st.st_mode))
		return error_set(
			why, BAD_UNREADABLE, "is in %s, not a file", file_type(st.st_mode));
	if ((uint64_t)st.st_size != header->data_bytes ||
		index_mtime_ns(&st) != header->data_mtime_ns)
		return error_set(why, BAD_UNREADABLE,
			"the file has changed since it was indexed: reload stokerd");
	return 0;
}

/* Raw pixels of an IDX file. */
static int load_raw(
	struct renderer *renderer, const struct view *view, uint64_t sample, struct error_text *why)
{
	const struct index_header *header = view->index.header;
	const struct index_sample *entry = &view->index.samples[sample];
	struct image *image = &renderer->image;
	bool as_it_lies = header->pixels == 0;
	bool clip = (view->plan.decode_flags & DECODE_GREY16_CLIP) != 0;
	uint8_t *bytes;
	ssize_t got;
	int r = check_raw(view, why);

	if (r == 0 && index_pixel_bytes(header) != entry->length)
		r = error_set(why, RENDER_BAD, "has the wrong number of bytes");
	if (r == 0)
		r = image_resize(image, header->width, header->height, header->channels);
	if (r == 0 && !as_it_lies)
		r = renderer_reserve(renderer, entry->length);
	if (r != 0)
		return r;
	bytes = as_it_lies ? image->pixels : renderer->file;
	got = read_at(view->source_fd, bytes, entry->length, (off_t)entry->offset);
	if (got < 0)
		return bad_errno(why, (int)-got);
	if ((size_t)got != entry->length)
		return error_set(why, BAD_UNREADABLE, "the file has shrunk since it was indexed");
	if (!as_it_lies)
		idx_pixels(header, bytes, clip, image->pixels);
	if ((header->pixels & INDEX_PIXELS_16BIT) != 0 && header->channels == 1 && !clip)
		renderer->notes |= NOTE_GREY16;
	if (image->channels == 3 && view->plan.decode_channels == 1) {
		image_rgb_to_l(image->pixels, image->pixels, (size_t)image->width * image->height);
		image->channels = 1;
	}
	renderer->encoded_bytes = entry->length;
	return 0;
}

/* Transform the sample that has been decoded, and write what the stream's rows hold. */
static int fill_row(struct renderer *renderer, const struct view *view,
	const struct random_key *key, void *row, struct error_text *why)
{
	const struct transform_plan *plan = &view->plan;
	struct image *image = &renderer->image;
	uint32_t width = image->width, height = image->height;
	int r;

	if (plan->rows == ROW_DIGESTS) {
		image_digest(image, renderer->encoded_bytes, row);
		return 0;
	}
	r = transform_apply(plan, key, image, &renderer->image_ops, why);
	if (r == 0 && plan->rows == ROW_PARAMETERS)
		return transform_parameters(plan, key, width, height, row, why);
	if (r == 0)
		transform_render(plan, key, image, row);
	return r;
}

int render_row(struct renderer *renderer, const struct view *view, uint32_t slot, uint32_t row,
	uint64_t epoch, uint64_t sample, struct error_text *why)
{
	const struct random_key key = {.seed = view->seed, .epoch = epoch, .sample = sample};
	int r;

	if (view->source_fd < 0)
		return bad_source(view, why);
	if (view->index.header->kind == INDEX_IDX)
		r = load_raw(renderer, view, sample, why);
	else
		r = load_file(renderer, view, sample, why);
	if (r != 0)
		return r;
	if (renderer->image.channels != view->plan.decode_channels)
		return error_set(why, BAD_SIZE, "has %u channels", renderer->image.channels);
	r = fill_row(renderer, view, &key, arena_pixels(&view->arena, slot, row), why);
	if (r != 0)
		return r < 0 ? r : BAD_SIZE;
	arena_rows(&view->arena, slot)[row] = (struct batch_row){
		.sample = sample,
		.label = view->index.samples[sample].label,
		.status = BATCH_ROW_OK,
	};
	return 0;
}

bool render_job_fits(const struct view *view, const struct job_render *job)
{
	const struct arena_geometry *g = &view->arena.geometry;

	if (job->rows == 0 || job->rows > JOB_ROWS_MAX || job->slot >= g->slots ||
		job->first_row >= g->batch_size || job->rows > g->batch_size - job->first_row)
		return false;
	for (uint32_t i = 0; i < job->rows; i++) {
		if (job->samples[i] >= view->index.header->samples)
			return false;
	}
	return true;
}

void render_read_ahead(const struct view *view, uint64_t sample)
{
	const struct index_sample *entry = &view->index.samples[sample];

	if (view->source_fd < 0)
		return;
	if (view->index.header->kind == INDEX_IDX) {
		posix_fadvise(
			view->source_fd, (off_t)entry->offset, entry->length, POSIX_FADV_WILLNEED);
		return;
	}

	_cleanup_fd_ int fd = open_sample(view, sample);

	if (fd < 0)
		return;
	if (view->index.header->kind == INDEX_TAR)
		posix_fadvise(fd, (off_t)view->index.extents[sample].offset,
			view->index.extents[sample].length, POSIX_FADV_WILLNEED);
	else
		posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
}

void renderer_finish(struct renderer *renderer)
{
	image_finish(&renderer->image);
	image_ops_buffers_finish(&renderer->image_ops);
	free(renderer->file);
	renderer->file = NULL;
	renderer->file_capacity = 0;
}
