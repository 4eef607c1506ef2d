/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- for people ---- */

/* Print text that came from elsewhere: control characters, which could move the terminal, become '?'. */
void print_plain(FILE *out, const char *text);

/* Short forms in a buffer that is returned by value: "1.5 GiB"; "3 d 4 h", "2 min 5 s", "0.25 s". */
struct short_text {
	char text[32];
};
struct short_text format_bytes(uint64_t bytes);
struct short_text format_count(uint64_t count); /* "70,000" */
struct short_text format_seconds(double seconds);

/* A line on the terminal that is overwritten by the next one, at most ten times a second; nothing where
 * stderr is no terminal. */
__attribute__((format(printf, 1, 2))) void progress_show(const char *format, ...);
bool progress_on_terminal(void);
void progress_clear(void);

/* A table in memory, printed with columns as wide as their widest cell.
 *
 *   struct table table = {.columns = "PID IMAGES> BUSY>"};   // '>' = aligned to the right
 *   table_cell(&table, "%u", pid); ...                       // row by row, cell by cell
 *   table_print(&table, stdout);                             // and frees it
 */
struct table {
	const char *columns;
	char **cells;
	size_t count, capacity;
	bool failed; /* no memory: nothing is printed but an error */
};
__attribute__((format(printf, 2, 3))) void table_cell(struct table *table, const char *format, ...);
void table_print(struct table *table, FILE *out);

/* ---- for programs: JSON ---- */

/* Writes one JSON value; `key` is NULL for the outermost value and for the elements of a list. */
struct json {
	FILE *out;
	bool follows; /* a comma is due */
};
void json_open(struct json *json, const char *key, char bracket);     /* '{' or '[' */
void json_close(struct json *json, char bracket);                     /* '}' or ']' */
void json_text(struct json *json, const char *key, const char *text); /* NULL gives null */
void json_number(struct json *json, const char *key, uint64_t number);
void json_real(struct json *json, const char *key, double number);
void json_exact(
	struct json *json, const char *key, double number); /* reads back as the same number */
void json_bool(struct json *json, const char *key, bool value);
