/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv_dump FILE [SEPARATOR]: the records of a CSV file, one a line, for tests that compare them with
 * other readers: each field in hexadecimal, between commas. Status 1 and the reason on stderr when the
 * file is refused.
 */
#include "daemon/data/csv.h"
#include "daemon/util/ownership.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

static void print_record(const struct csv_reader *csv)
{
	for (uint32_t i = 0; i < csv->count; i++) {
		struct csv_field field = csv_field(csv, i);

		if (i > 0)
			putchar(',');
		for (size_t k = 0; k < field.length; k++)
			printf("%02x", (unsigned char)field.text[k]);
	}
	putchar('\n');
}

int main(int argc, char **argv)
{
	_cleanup_fd_ int fd = open(argc > 1 ? argv[1] : "", O_RDONLY | O_CLOEXEC);
	struct error_text reason = {""};
	struct csv_reader csv;
	int r = csv_init(&csv, fd, argc > 2 ? argv[2][0] : ',');

	while (r == 0) {
		r = csv_next(&csv, &reason);
		if (r == 0)
			print_record(&csv);
	}
	if (r != CSV_END)
		fprintf(stderr, "line %" PRIu64 " %s\n", csv.line, reason.text);
	csv_finish(&csv);
	return r != CSV_END;
}
