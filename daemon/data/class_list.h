/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/label_set.h"
#include "daemon/util/error.h"

enum {
	CLASS_LIST_BYTES_MAX = 64 << 20,
};

/*
 * A list of classes: text with one name in each line, of which the first is class 0. Lines end with LF
 * or CRLF; a byte order mark, blanks around a name and empty lines at the end do no harm. Each name
 * stands there once. So the classes keep their numbers in a data set that lacks some of them.
 *
 * Fill the empty `list` from the file at `path`; the number of a name is its line's, from 0.
 * 0, DATASET_UNUSABLE with the file and its line, or negative errno with a text. The list is the
 * caller's to finish, after a failure too.
 */
int class_list_read(struct label_set *list, const char *path, struct error_text *error);
