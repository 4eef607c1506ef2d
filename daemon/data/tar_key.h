/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * WebDataset's names (https://github.com/webdataset/webdataset, "base_plus_ext"): the key of a member
 * is its path up to the first dot of its base name, the extension is the rest, in lower case. Names
 * that start with a dot have none, and names of metadata, "__NAME__" and what lies below, are left out.
 */
struct tar_key {
	size_t length;         /* of the key, at the front of the name */
	const char *extension; /* terminated, in the name, its case as there; without the dot */
};

/* False for a name without a key. */
bool tar_key_split(const char *name, struct tar_key *key);
