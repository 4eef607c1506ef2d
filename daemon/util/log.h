/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line per event, to stderr. Under the journal (JOURNAL_STREAM names our stderr) each line has
 * the <N> priority prefix of sd-daemon(3); elsewhere the level's name. Lines are for an operator to
 * act on and name their object; numbers go to `stoker status`.
 */
enum log_level {
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

void log_open(const char *program, enum log_level level);
void log_set_level(enum log_level level);

/* "error" "warning" "notice" "info" "debug" -> level, or -EINVAL */
int log_level_parse(const char *name);

__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* For lines that somebody outside can cause at will: at most `most` a minute, then one that says how
 * many were left out. One limit for lines of one kind; all zero at first, but for `most`, which may be
 * set once (0 = LOG_LIMIT_LINES). */
enum { LOG_LIMIT_LINES = 100 };

struct log_limit {
	long minute;
	unsigned lines;
	unsigned most;
};

__attribute__((format(printf, 3, 4))) void log_limited(
	struct log_limit *limit, enum log_level level, const char *format, ...);
