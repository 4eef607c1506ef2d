/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/tree.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	remove(path);
	return 0;
}

void tree_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int tree_make_parents(const char *path)
{
	char *copy = strdup(path);
	int r = 0;

	if (copy == NULL)
		return -ENOMEM;
	for (char *slash = strchr(copy + strspn(copy, "/"), '/'); slash != NULL && r == 0;
		slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0777) < 0 && errno != EEXIST)
			r = -errno;
		*slash = '/';
	}
	free(copy);
	return r;
}
