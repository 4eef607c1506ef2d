/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/data/witness.h"

#include "daemon/data/array.h"
#include "daemon/data/index.h"
#include "daemon/util/escape.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum witness_kind {
	WITNESS_ABSENT,
	WITNESS_DIRECTORY,
	WITNESS_FILE,
};

enum { PATH_BYTES_MAX = 2 * INDEX_PATH_MAX + 2 };

/* In the bytes of a list, at any alignment. */
struct witness {
	uint64_t inode;
	uint64_t mtime_ns, ctime_ns;
	uint64_t size; /* of files */
	uint32_t kind; /* enum witness_kind */
	uint32_t path_length;
};

void witness_list_finish(struct witness_list *list)
{
	free(list->bytes);
	*list = (struct witness_list)WITNESS_LIST_NULL;
}

static struct witness witness_of(const struct stat *found)
{
	struct witness witness = {.kind = WITNESS_ABSENT};

	if (found == NULL)
		return witness;
	witness.kind = S_ISDIR(found->st_mode) ? WITNESS_DIRECTORY : WITNESS_FILE;
	witness.inode = found->st_ino;
	witness.mtime_ns = index_mtime_ns(found);
	witness.ctime_ns =
		(uint64_t)found->st_ctim.tv_sec * 1000000000 + (uint64_t)found->st_ctim.tv_nsec;
	if (witness.kind == WITNESS_FILE)
		witness.size = (uint64_t)found->st_size;
	return witness;
}

/* Modified so lately, or in the future, that the next change may look the same. */
static bool is_young(const struct stat *found)
{
	int64_t modified =
		(int64_t)found->st_mtim.tv_sec * 1000000000 + (int64_t)found->st_mtim.tv_nsec;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - modified <
	       (int64_t)WITNESS_YOUNG_NS;
}

void witness_add(
	struct witness_list *list, const char *folder, const char *name, const struct stat *found)
{
	struct witness witness = witness_of(found);
	char path[PATH_BYTES_MAX + 1];
	const char *slash = *name != '\0' && strcmp(folder, "/") != 0 ? "/" : "";
	int length = name[0] == '/' ? snprintf(path, sizeof(path), "%s", name)
				    : snprintf(path, sizeof(path), "%s%s%s", folder, slash, name);

	if (list == NULL)
		return;
	if (length < 0 || (size_t)length >= sizeof(path) || list->count >= WITNESSES_MAX ||
		array_reserve(&list->bytes, &list->capacity, list->used,
			sizeof(witness) + (size_t)length, 1) < 0) {
		list->incomplete = true;
		return;
	}
	if (found != NULL && !list->young && is_young(found)) {
		list->young = true;
		error_set(&list->last, 0, "%s", escape(path).text);
	}
	witness.path_length = (uint32_t)length;
	memcpy(list->bytes + list->used, &witness, sizeof(witness));
	memcpy(list->bytes + list->used + sizeof(witness), path, witness.path_length);
	list->used += sizeof(witness) + witness.path_length;
	list->count++;
}

static bool is_as_before(const struct witness *before, const char *path)
{
	struct witness now;
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT && before->kind == WITNESS_ABSENT;
	now = witness_of(&st);
	return now.kind == before->kind && now.inode == before->inode &&
	       now.mtime_ns == before->mtime_ns && now.ctime_ns == before->ctime_ns &&
	       now.size == before->size;
}

int witness_check(const void *bytes, size_t length, uint32_t count, struct error_text *why)
{
	const uint8_t *at = bytes;

	for (uint32_t i = 0; i < count; i++) {
		char path[PATH_BYTES_MAX + 1];
		struct witness witness;

		if (length < sizeof(witness))
			return WITNESS_BAD;
		memcpy(&witness, at, sizeof(witness));
		at += sizeof(witness);
		length -= sizeof(witness);
		if (witness.path_length == 0 || witness.path_length > PATH_BYTES_MAX ||
			witness.path_length > length || at[0] != '/' ||
			memchr(at, '\0', witness.path_length) != NULL)
			return WITNESS_BAD;
		memcpy(path, at, witness.path_length);
		path[witness.path_length] = '\0';
		at += witness.path_length;
		length -= witness.path_length;
		if (!is_as_before(&witness, path))
			return error_set(why, WITNESS_CHANGED, "%s has changed", escape(path).text);
	}
	return length == 0 ? 0 : WITNESS_BAD;
}
