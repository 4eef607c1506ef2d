/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int new_file_create(struct new_file *file, const char *directory, const char *name)
{
	mode_t mask = umask(0);
	int fd, r;

	umask(mask);
	*file = (struct new_file)NEW_FILE_NULL;
	if (asprintf(&file->path, "%s/%s", directory, name) < 0) {
		file->path = NULL;
		return -ENOMEM;
	}
	if (asprintf(&file->temporary, "%s/.%s.XXXXXX", directory, name) < 0) {
		file->temporary = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(file->temporary, O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		free(file->temporary);
		file->temporary = NULL;
		return r;
	}
	fchmod(fd, 0666 & ~mask);
	file->out = fdopen(fd, "w");
	if (file->out == NULL) {
		r = -errno;
		close(fd);
		return r;
	}
	return 0;
}

int new_file_commit(struct new_file *file)
{
	bool written;

	errno = EIO;
	written = !ferror(file->out);
	written = fclose(file->out) == 0 && written;
	file->out = NULL;
	if (!written || rename(file->temporary, file->path) < 0)
		return -errno;
	free(file->temporary);
	file->temporary = NULL;
	return 0;
}

void new_file_abandon(struct new_file *file)
{
	if (file->out != NULL)
		fclose(file->out);
	if (file->temporary != NULL)
		unlink(file->temporary);
	free(file->temporary);
	free(file->path);
	*file = (struct new_file)NEW_FILE_NULL;
}
