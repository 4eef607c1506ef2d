/* SPDX-License-Identifier: Apache-2.0 */
#include "client/private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stoker *stoker_create(void)
{
	struct stoker *stoker = malloc(sizeof(*stoker));

	if (!stoker)
		return NULL;
	*stoker = (struct stoker){.io = FDIO_NULL, .pending.fd = -1};
	return stoker;
}

void client_disconnect(struct stoker *stoker)
{
	while (stoker->streams)
		stream_destroy(stoker->streams);
	if (stoker->pending.answer)
		stoker__v1__server_message__free_unpacked(stoker->pending.answer, NULL);
	if (stoker->pending.fd >= 0)
		close(stoker->pending.fd);
	stoker->pending = (struct pending){.fd = -1};
	fdio_finish(&stoker->io);
	stoker->dead = 0;
	stoker->greeted = false;
	stoker->going_away = false;
	stoker->send_failed = false;
}

void stoker_destroy(struct stoker *stoker)
{
	if (!stoker)
		return;
	client_disconnect(stoker);
	free(stoker);
}

const char *stoker_message(const struct stoker *stoker)
{
	return stoker->message;
}

int stoker_fd(const struct stoker *stoker)
{
	return stoker->io.fd;
}

const char *stoker_version(void)
{
	return STOKER_VERSION;
}

static int join_path(char *path, size_t size, const char *folder, const char *name)
{
	int n = snprintf(path, size, "%s%s", folder, name);

	return n < 0 || n >= size ? -ENAMETOOLONG : 0;
}

int stoker_default_socket(char *path, size_t size)
{
	const char *named = getenv("STOKER_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");

	if (named && *named)
		return join_path(path, size, named, "");
	if (runtime && *runtime) {
		int r = join_path(path, size, runtime, "/stoker/stoker.sock");

		if (r < 0 || access(path, F_OK) == 0)
			return r;
	}
	return join_path(path, size, "/run", "/stoker/stoker.sock");
}

int client_error(struct stoker *stoker, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(stoker->message, sizeof(stoker->message), format, arguments);
	va_end(arguments);
	return code;
}

int client_die(struct stoker *stoker, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(stoker->message, sizeof(stoker->message), format, arguments);
	va_end(arguments);
	memcpy(stoker->death, stoker->message, sizeof(stoker->death));
	stoker->dead = code;
	return code;
}
