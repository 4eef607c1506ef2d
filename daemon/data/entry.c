/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

bool entry_hidden(const char *name)
{
	return name[0] == '.' || strcmp(name, "__MACOSX") == 0;
}

bool entry_is_image(const char *name)
{
	static const char *const extensions[] = {
		".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
	const char *dot = strrchr(name, '.');

	if (!dot)
		return false;
	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		if (strcasecmp(dot, extensions[i]) == 0)
			return true;
	}
	return false;
}

bool entry_is_directory(int dir_fd, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
		return entry->d_type == DT_DIR;
	return fstatat(dir_fd, entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

DIR *entry_stream(int dir_fd)
{
	/* Not dup(): that would share the position with whoever reads `dir_fd` next. */
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream;

	if (fd < 0)
		return NULL;
	stream = fdopendir(fd);
	if (!stream)
		close(fd);
	return stream;
}

struct dirent *entry_next(DIR *stream)
{
	struct dirent *entry;

	do {
		errno = 0;
		entry = readdir(stream);
	} while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry;
}
