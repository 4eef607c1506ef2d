/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Records of a CSV file as RFC 4180 describes them, and as spreadsheets write them: a byte order mark
 * is dropped; lines end with LF, CRLF or CR, the last one perhaps without; quoted fields may hold
 * separators, line ends and doubled quotes; a quote inside a field that does not start with one stands
 * for itself; empty lines are skipped. The file is read piece by piece and one record is kept.
 */
enum {
	CSV_BUFFER_BYTES = 64 * 1024,
	CSV_RECORD_MAX = 1 << 20, /* bytes of the fields of a record, their terminators included */
	CSV_FIELDS_MAX = 1024,
};

struct csv_field {
	const char *text; /* terminated, without NUL bytes inside */
	size_t length;
};

struct csv_reader {
	int fd; /* borrowed, read from where it stands */
	char separator;
	uint8_t *buffer;
	size_t at, filled;
	int read_error; /* negative errno */
	uint64_t lines; /* line ends so far */

	/* the record */
	uint64_t line;  /* the line that it starts on, from 1; of a bad one where it is bad */
	uint32_t count; /* fields */
	size_t starts[CSV_FIELDS_MAX +
		      1]; /* in text; field i ends before the NUL in front of i + 1 */
	char *text;
	size_t used, capacity;
};

enum {
	CSV_END = 1, /* no more records */
	CSV_BAD = 2, /* not CSV; the reason names neither file nor line */
};

/* 0 or -ENOMEM. Finish after a failure too. */
int csv_init(struct csv_reader *reader, int fd, char separator);
void csv_finish(struct csv_reader *reader);

/* Read the next record: 0, CSV_END, CSV_BAD, or negative errno. Nothing is read after one that fails. */
int csv_next(struct csv_reader *reader, struct error_text *reason);

/* Field `i` < count of the record, borrowed until the next. */
struct csv_field csv_field(const struct csv_reader *reader, uint32_t i);
