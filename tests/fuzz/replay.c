/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over the files of the folders given, so that a corpus is a plain test too:
 * replay FOLDER... Status 1 when a file cannot be read or there is none.
 */
#include "daemon/util/ownership.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(int folder_fd, const char *name)
{
	_cleanup_fd_ int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *data = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	if (!S_ISREG(st.st_mode))
		return 0;
	/* Exactly the file's size, so that a sanitizer sees a read past its end. */
	data = malloc(st.st_size != 0 ? (size_t)st.st_size : 1);
	if (data == NULL || read(fd, data, (size_t)st.st_size) != st.st_size)
		return -1;
	LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	return 1;
}

static int replay_folder(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int files = 0;

	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		int r = replay_file(dirfd(folder), entry->d_name);

		if (r < 0) {
			fprintf(stderr, "%s/%s: cannot be read\n", path, entry->d_name);
			files = 0;
			break;
		}
		files += r;
	}
	if (folder != NULL)
		closedir(folder);
	printf("%s: %d files\n", path, files);
	return files;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (replay_folder(argv[i]) == 0)
			return 1;
	return argc > 1 ? 0 : 1;
}
