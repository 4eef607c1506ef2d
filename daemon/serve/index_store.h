/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>

/*
 * The folder of saved indexes (`index_dir`), for one data set while it is being indexed: NAME.index is
 * the saved one, .NAME.new the one that the index worker may be writing, which takes its place when it
 * has proved good. A daemon that ends in between leaves a file that the next one removes.
 */
struct index_store {
	int directory_fd; /* -1 = nothing is saved */
	int saved_fd;     /* NAME.index, for reading; -1 = there is none */
	int save_fd;      /* .NAME.new, empty; -1 = it cannot be made */
	char name[96], temporary[96];
};

#define INDEX_STORE_NULL                                                                           \
	{                                                                                          \
		.directory_fd = -1, .saved_fd = -1, .save_fd = -1                                  \
	}

/* Open what there is of the data set `name` in `directory`, which is made if only it is missing; with
 * NULL the store is empty. 0, or -errno with a reason when nothing can be saved; what is saved already
 * may be there all the same. */
int index_store_open(struct index_store *store, const char *directory, const char *name,
	struct error_text *error);

/* The new file is good: it becomes NAME.index. 0 or -errno. */
int index_store_keep(struct index_store *store);

/* Close everything; a new file that was not kept is removed. */
void index_store_finish(struct index_store *store);
