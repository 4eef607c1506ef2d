/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/text.h"
#include "client/cli/cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void print_plain(FILE *out, const char *text)
{
	for (; *text != '\0'; text++)
		fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
}

struct short_text format_bytes(uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
	struct short_text result;
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(result.text, sizeof(result.text), "%" PRIu64 " B", bytes);
		return result;
	}
	for (; value >= 1024 && unit < 4; unit++)
		value /= 1024;
	snprintf(result.text, sizeof(result.text), "%.*f %s", value < 100 ? 1 : 0, value,
		units[unit]);
	return result;
}

struct short_text format_count(uint64_t count)
{
	struct short_text result;
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count), used = 0;

	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			result.text[used++] = ',';
		result.text[used++] = digits[i];
	}
	result.text[used] = '\0';
	return result;
}

struct short_text format_seconds(double seconds)
{
	struct short_text result;
	unsigned long whole = (unsigned long)seconds;

	if (seconds < 1)
		snprintf(result.text, sizeof(result.text), "%.2f s", seconds);
	else if (seconds < 60)
		snprintf(result.text, sizeof(result.text), "%.1f s", seconds);
	else if (seconds < 3600)
		snprintf(result.text, sizeof(result.text), "%lu min %lu s", whole / 60, whole % 60);
	else if (seconds < 86400)
		snprintf(result.text, sizeof(result.text), "%lu h %lu min", whole / 3600,
			whole / 60 % 60);
	else
		snprintf(result.text, sizeof(result.text), "%lu d %lu h", whole / 86400,
			whole / 3600 % 24);
	return result;
}

static bool progress_shown;

bool progress_on_terminal(void)
{
	static int terminal = -1; /* not asked yet */

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	return terminal;
}

void progress_show(const char *format, ...)
{
	static double last;
	double now;
	va_list args;

	if (!progress_on_terminal())
		return;
	now = cli_now();
	if (progress_shown && now - last < 0.1)
		return;
	last = now;
	progress_shown = true;
	fputs("\r\033[K", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fflush(stderr);
}

void progress_clear(void)
{
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = false;
}

void table_cell(struct table *table, const char *format, ...)
{
	va_list args;
	char *cell;

	if (table->count == table->capacity) {
		size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
		char **cells = reallocarray(table->cells, capacity, sizeof(*cells));

		if (cells == NULL) {
			table->failed = true;
			return;
		}
		table->cells = cells;
		table->capacity = capacity;
	}
	va_start(args, format);
	if (vasprintf(&cell, format, args) < 0) {
		cell = NULL;
		table->failed = true;
	}
	va_end(args);
	table->cells[table->count++] = cell;
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text != '\0'; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

enum { COLUMNS_MAX = 16 };

static void print_cell(const char *text, int width, bool right, bool last, FILE *out)
{
	int pad = width - width_of(text);

	if (right)
		fprintf(out, "%*s", pad, "");
	print_plain(out, text);
	if (!right && !last)
		fprintf(out, "%*s", pad, "");
	fputs(last ? "\n" : "  ", out);
}

void table_print(struct table *table, FILE *out)
{
	char names[256], *heads[COLUMNS_MAX];
	bool right[COLUMNS_MAX];
	int widths[COLUMNS_MAX];
	size_t columns = 0;

	snprintf(names, sizeof(names), "%s", table->columns);
	for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
		size_t length = strlen(name);

		right[columns] = name[length - 1] == '>';
		if (right[columns])
			name[length - 1] = '\0';
		widths[columns] = width_of(name);
		heads[columns++] = name;
	}
	for (size_t i = 0; i < table->count && !table->failed; i++) {
		int width = width_of(table->cells[i]);

		if (width > widths[i % columns])
			widths[i % columns] = width;
	}
	for (size_t i = 0; i < columns; i++)
		print_cell(heads[i], widths[i], right[i], i + 1 == columns, out);
	for (size_t i = 0; i < table->count && !table->failed; i++)
		print_cell(table->cells[i], widths[i % columns], right[i % columns],
			i % columns + 1 == columns, out);
	if (table->failed)
		fputs("(out of memory)\n", out);
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct table){.columns = table->columns};
}
