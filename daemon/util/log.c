/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/util/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARNING] = "warning",
	[LOG_LEVEL_NOTICE] = "notice",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

static struct {
	const char *program;
	enum log_level level;
	bool journal;
} log_state = {.program = "stoker", .level = LOG_LEVEL_INFO};

/* JOURNAL_STREAM is "device:inode" of the journal's pipe; it counts only when that is our stderr. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_open(const char *program, enum log_level level)
{
	log_state.program = program;
	log_state.level = level;
	log_state.journal = stderr_is_journal();
}

void log_set_level(enum log_level level)
{
	log_state.level = level;
}

int log_level_parse(const char *name)
{
	for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
		if (strcmp(name, names[level]) == 0)
			return level;
	}
	return -EINVAL;
}

__attribute__((format(printf, 2, 0))) static void log_arguments(
	enum log_level level, const char *format, va_list args)
{
	char line[2048];
	int used, saved = errno;

	if (level > log_state.level)
		return;
	if (log_state.journal)
		used = snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		used = snprintf(line, sizeof(line), "%s: %s: ", log_state.program, names[level]);
	used += vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	if (used > (int)sizeof(line) - 2)
		used = (int)sizeof(line) - 2;
	line[used++] = '\n';
	/* One write per line, so that lines of several processes do not mix. Losing a line to a reader
	 * that has stopped is better than stopping too. */
	if (poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 0) != 1 ||
		write(STDERR_FILENO, line, (size_t)used) < 0) {
	}
	errno = saved;
}

void log_line(enum log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_arguments(level, format, args);
	va_end(args);
}

void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
{
	unsigned most = limit->most > 0 ? limit->most : LOG_LIMIT_LINES;
	struct timespec now;
	va_list args;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec / 60 != limit->minute) {
		if (limit->lines > most)
			log_line(level, "%u lines like the last ones were left out",
				limit->lines - most);
		limit->minute = now.tv_sec / 60;
		limit->lines = 0;
	}
	if (level > log_state.level || limit->lines++ >= most)
		return;
	va_start(args, format);
	log_arguments(level, format, args);
	va_end(args);
}
