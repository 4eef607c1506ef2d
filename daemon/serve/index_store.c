/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve/index_store.h"

#include "daemon/util/escape.h"
#include "daemon/util/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that others can write, or that is no file, is none of ours. */
static int open_saved(const struct index_store *store)
{
	_cleanup_fd_ int fd = openat(store->directory_fd, store->name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		(st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return -1;
	return steal_fd(&fd);
}

static int open_directory(const char *directory)
{
	int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && mkdir(directory, 0700) == 0)
		fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int index_store_open(struct index_store *store, const char *directory, const char *name,
	struct error_text *error)
{
	*store = (struct index_store)INDEX_STORE_NULL;
	if (directory == NULL)
		return 0;
	snprintf(store->name, sizeof(store->name), "%s.index", name);
	snprintf(store->temporary, sizeof(store->temporary), ".%s.new", name);
	store->directory_fd = open_directory(directory);
	if (store->directory_fd < 0) {
		int r = store->directory_fd;

		store->directory_fd = -1;
		return error_set(error, r, "%s: %s", escape(directory).text, strerror(-r));
	}
	store->saved_fd = open_saved(store);
	unlinkat(store->directory_fd, store->temporary, 0);
	store->save_fd = openat(store->directory_fd, store->temporary,
		O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (store->save_fd < 0)
		return error_set(error, -errno, "%s/%s: %s", escape(directory).text,
			store->temporary, strerror(errno));
	return 0;
}

/* Is what has the temporary name still our file, and not that of a data set that came later? */
static bool owns_temporary(const struct index_store *store)
{
	struct stat ours, there;

	return store->save_fd >= 0 && fstat(store->save_fd, &ours) == 0 &&
	       fstatat(store->directory_fd, store->temporary, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

int index_store_keep(struct index_store *store)
{
	if (!owns_temporary(store))
		return -ESTALE;
	if (renameat(store->directory_fd, store->temporary, store->directory_fd, store->name) < 0)
		return -errno;
	store->save_fd = close_fd(store->save_fd);
	return 0;
}

void index_store_finish(struct index_store *store)
{
	if (owns_temporary(store))
		unlinkat(store->directory_fd, store->temporary, 0);
	close_fd(store->saved_fd);
	close_fd(store->save_fd);
	close_fd(store->directory_fd);
	*store = (struct index_store)INDEX_STORE_NULL;
}
