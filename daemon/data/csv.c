/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/csv.h"

#include "daemon/data/array.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { END_OF_FILE = -1 };

int csv_init(struct csv_reader *reader, int fd, char separator)
{
	*reader = (struct csv_reader){.fd = fd, .separator = separator};
	reader->buffer = malloc(CSV_BUFFER_BYTES);
	return reader->buffer ? 0 : -ENOMEM;
}

void csv_finish(struct csv_reader *reader)
{
	free(reader->buffer);
	free(reader->text);
	*reader = (struct csv_reader){.fd = -1};
}

static void fill(struct csv_reader *reader)
{
	ssize_t n;

	do
		n = read(reader->fd, reader->buffer, CSV_BUFFER_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		reader->read_error = -errno;
	reader->at = 0;
	reader->filled = n > 0 ? (size_t)n : 0;
}

/* The next byte without taking it, or END_OF_FILE (a failure to read included). */
static int peek(struct csv_reader *reader)
{
	if (reader->at == reader->filled && !reader->read_error)
		fill(reader);
	return reader->at < reader->filled ? reader->buffer[reader->at] : END_OF_FILE;
}

static int take(struct csv_reader *reader)
{
	int byte = peek(reader);

	if (byte != END_OF_FILE)
		reader->at++;
	return byte;
}

static int bad(struct csv_reader *reader, struct error_text *reason, const char *what)
{
	reader->line = reader->lines + 1;
	return error_set(reason, CSV_BAD, "%s", what);
}

static int put(struct csv_reader *reader, int byte, struct error_text *reason)
{
	int r;

	if (byte == '\0' && reader->used < CSV_RECORD_MAX)
		return bad(reader, reason, "has a NUL byte: is it text, in UTF-8?");
	if (reader->used >= CSV_RECORD_MAX)
		return bad(reader, reason, "is longer than 1 MiB: is a closing quote missing?");
	r = array_reserve(&reader->text, &reader->capacity, reader->used, 2, 1);
	if (r < 0)
		return r;
	reader->text[reader->used++] = (char)byte;
	return 0;
}

/* End the field at hand. `put` has left room for the terminator, unless the field is the first byte. */
static int end_field(struct csv_reader *reader, struct error_text *reason)
{
	int r;

	if (reader->count == CSV_FIELDS_MAX)
		return bad(reader, reason, "has more than 1024 fields");
	r = array_reserve(&reader->text, &reader->capacity, reader->used, 1, 1);
	if (r < 0)
		return r;
	reader->text[reader->used++] = '\0';
	reader->starts[++reader->count] = reader->used;
	return 0;
}

/* Take the rest of a line end that began with `byte`. */
static void end_line(struct csv_reader *reader, int byte)
{
	if (byte == '\r' && peek(reader) == '\n')
		take(reader);
	reader->lines++;
}

/* From behind the opening quote to behind the closing one. */
static int read_quoted(struct csv_reader *reader, struct error_text *reason)
{
	uint64_t opened = reader->lines + 1;
	int r = 0, byte, before = 0;

	for (; r == 0; before = byte) {
		byte = take(reader);
		if (byte == END_OF_FILE) {
			r = reader->read_error
				    ? reader->read_error
				    : bad(reader, reason, "opens a quote that is never closed");
			reader->line = opened;
			return r;
		}
		if (byte == '"' && peek(reader) != '"')
			return 0;
		if (byte == '"')
			take(reader);
		if (byte == '\r' || (byte == '\n' && before != '\r'))
			reader->lines++;
		r = put(reader, byte, reason);
	}
	return r;
}

/* One field with what ends it: *ending is the separator, the first byte of a line end, or
 * END_OF_FILE. */
static int read_field(struct csv_reader *reader, int *ending, struct error_text *reason)
{
	bool quoted = peek(reader) == '"';
	int r = 0;

	if (quoted) {
		take(reader);
		r = read_quoted(reader, reason);
	}
	while (r == 0) {
		int byte = take(reader);

		if (byte == reader->separator || byte == '\r' || byte == '\n' ||
			byte == END_OF_FILE) {
			*ending = byte;
			return reader->read_error ? reader->read_error : end_field(reader, reason);
		}
		if (quoted)
			return bad(reader, reason, "has text behind a closing quote");
		r = put(reader, byte, reason);
	}
	return r;
}

/* Before the first record: drop a byte order mark, and name what is no text at all. */
static int read_start(struct csv_reader *reader, struct error_text *reason)
{
	static const uint8_t mark[] = {0xef, 0xbb, 0xbf};

	fill(reader);
	if (reader->filled >= sizeof(mark) && memcmp(reader->buffer, mark, sizeof(mark)) == 0)
		reader->at = sizeof(mark);
	if (reader->filled >= 2 && (memcmp(reader->buffer, "\xff\xfe", 2) == 0 ||
					   memcmp(reader->buffer, "\xfe\xff", 2) == 0))
		return bad(reader, reason, "is UTF-16: save the file as UTF-8");
	if (reader->filled >= 2 && memcmp(reader->buffer, "\x1f\x8b", 2) == 0)
		return bad(reader, reason, "is compressed: gunzip the file");
	return 0;
}

int csv_next(struct csv_reader *reader, struct error_text *reason)
{
	int ending = 0, r = 0;

	if (reader->line == 0)
		r = read_start(reader, reason);
	while (r == 0 && (peek(reader) == '\n' || peek(reader) == '\r'))
		end_line(reader, take(reader));
	if (r == 0 && peek(reader) == END_OF_FILE)
		return reader->read_error ? reader->read_error : CSV_END;
	reader->count = 0;
	reader->used = 0;
	if (r == 0)
		reader->line = reader->lines + 1;
	do {
		if (r == 0)
			r = read_field(reader, &ending, reason);
	} while (r == 0 && ending == reader->separator);
	if (r == 0 && ending != END_OF_FILE)
		end_line(reader, ending);
	return r;
}

struct csv_field csv_field(const struct csv_reader *reader, uint32_t i)
{
	return (struct csv_field){
		.text = reader->text + reader->starts[i],
		.length = reader->starts[i + 1] - reader->starts[i] - 1,
	};
}
