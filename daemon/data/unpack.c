/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/unpack.h"

#include "daemon/data/index.h"
#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>

enum {
	GZIP_WINDOW = 15 + 16, /* zlib's way to say: largest window, gzip header required */
	INPUT_BYTES = 64 * 1024,
};

struct unpack_gzip {
	z_stream stream;
	bool between; /* at the end of a member: the file may end here, or another follow */
	bool first;   /* in the first member */
	uint8_t input[INPUT_BYTES];
};

static int refuse(const struct unpack *unpack, const char *what, struct error_text *error)
{
	return error_set(error, UNPACK_BAD, "%s: %s", escape(unpack->path).text, what);
}

/* Fill `bytes` from the file; short only at its end. */
static int read_file(
	struct unpack *unpack, void *bytes, size_t length, size_t *got, struct error_text *error)
{
	*got = 0;
	while (*got < length) {
		ssize_t n = read(unpack->fd, (uint8_t *)bytes + *got, length - *got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return refuse(unpack, strerror(errno), error);
		if (n == 0)
			break;
		*got += (size_t)n;
	}
	return 0;
}

static int start_gzip(struct unpack *unpack, struct error_text *error)
{
	struct unpack_gzip *gzip = calloc(1, sizeof(*gzip));

	if (!gzip || inflateInit2(&gzip->stream, GZIP_WINDOW) != Z_OK) {
		free(gzip);
		return error_set(
			error, -ENOMEM, "%s: %s", escape(unpack->path).text, strerror(ENOMEM));
	}
	gzip->first = true;
	unpack->inflate = gzip;
	return 0;
}

int unpack_open(struct unpack *unpack, const char *path, struct error_text *error)
{
	uint8_t magic[2];
	struct stat st;
	size_t got;
	int r;

	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	*unpack = (struct unpack){
		.path = path,
		.fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
	};
	if (unpack->fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (unpack->fd < 0 || fstat(unpack->fd, &st) < 0)
		return refuse(unpack, strerror(errno), error);
	if (!S_ISREG(st.st_mode))
		return refuse(unpack, "not a regular file", error);
	unpack->file_bytes = (uint64_t)st.st_size;
	unpack->mtime_ns = index_mtime_ns(&st);

	r = read_file(unpack, magic, sizeof(magic), &got, error);
	if (r != 0)
		return r;
	if (lseek(unpack->fd, 0, SEEK_SET) < 0)
		return refuse(unpack, strerror(errno), error);
	unpack->gzip = got == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
	return unpack->gzip ? start_gzip(unpack, error) : 0;
}

void unpack_close(struct unpack *unpack)
{
	if (unpack->inflate)
		inflateEnd(&unpack->inflate->stream);
	free(unpack->inflate);
	close_fd(unpack->fd);
	*unpack = (struct unpack)UNPACK_NULL;
}

/* Make sure that there is input, or say that the file ends. */
static int fill(struct unpack *unpack, struct error_text *error, bool *end)
{
	struct unpack_gzip *gzip = unpack->inflate;
	size_t got;
	int r;

	*end = false;
	if (gzip->stream.avail_in > 0)
		return 0;
	r = read_file(unpack, gzip->input, sizeof(gzip->input), &got, error);
	gzip->stream.next_in = gzip->input;
	gzip->stream.avail_in = (unsigned)got;
	*end = r == 0 && got == 0;
	return r;
}

/* Turn zlib's verdict on one call of inflate() into ours. */
static int judge(struct unpack *unpack, int verdict, struct error_text *error)
{
	struct unpack_gzip *gzip = unpack->inflate;

	switch (verdict) {
	case Z_OK:
	case Z_BUF_ERROR: /* no progress without more input or room: not an error */ return 0;
	case Z_STREAM_END:
		gzip->between = true;
		gzip->first = false;
		return inflateReset(&gzip->stream) == Z_OK ? 0 : -EINVAL;
	case Z_MEM_ERROR:
		return error_set(
			error, -ENOMEM, "%s: %s", escape(unpack->path).text, strerror(ENOMEM));
	}
	/* zlib checks the header before anything comes out of a member. */
	if (!gzip->first && gzip->stream.total_out == 0 && gzip->stream.msg &&
		strcmp(gzip->stream.msg, "incorrect header check") == 0)
		return refuse(unpack, "bytes follow the end of the gzip stream: get the file again",
			error);
	return error_set(error, UNPACK_BAD,
		"%s: the gzip stream is damaged (%s): get the file again",
		escape(unpack->path).text, gzip->stream.msg ? gzip->stream.msg : "no reason given");
}

static int read_gzip(
	struct unpack *unpack, uint8_t *bytes, size_t length, size_t *got, struct error_text *error)
{
	struct unpack_gzip *gzip = unpack->inflate;

	*got = 0;
	while (*got < length) {
		size_t room = length - *got < INT_MAX ? length - *got : INT_MAX;
		bool end;
		int r = fill(unpack, error, &end);

		if (r == 0 && end && gzip->between)
			return 0;
		if (r == 0 && end)
			return refuse(
				unpack, "the gzip stream is cut off: get the file again", error);
		if (r != 0)
			return r;
		gzip->between = false;
		gzip->stream.next_out = bytes + *got;
		gzip->stream.avail_out = (unsigned)room;
		r = inflate(&gzip->stream, Z_NO_FLUSH);
		*got += room - gzip->stream.avail_out;
		r = judge(unpack, r, error);
		if (r != 0)
			return r;
	}
	return 0;
}

int unpack_read(
	struct unpack *unpack, void *bytes, size_t length, size_t *got, struct error_text *error)
{
	if (unpack->inflate)
		return read_gzip(unpack, bytes, length, got, error);
	return read_file(unpack, bytes, length, got, error);
}
