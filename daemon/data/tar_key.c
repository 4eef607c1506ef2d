/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/tar_key.h"

#include <string.h>

static bool is_metadata(const char *name)
{
	size_t first = strcspn(name, "/");

	return first >= 4 && strncmp(name, "__", 2) == 0 && strncmp(name + first - 2, "__", 2) == 0;
}

bool tar_key_split(const char *name, struct tar_key *key)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	const char *dot = strchr(base, '.');

	if (!dot || dot == base || is_metadata(name))
		return false;
	key->length = (size_t)(dot - name);
	key->extension = dot + 1;
	return true;
}
