/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/util/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * The sample table of one data set, in a sealed memfd. An index worker builds it, stokerd checks
 * its bounds once and every worker maps it: memory does not grow with the number of workers.
 *
 *   struct index_header
 *   struct index_sample[samples]
 *   struct index_class[classes]
 *   struct index_extent[samples], of INDEX_TAR only
 *   struct index_source[sources], of INDEX_TAR only
 *   blob: bytes of paths and names, not terminated
 */
enum index_kind {
	/* samples are files below `root`; path = blob[offset .. offset + length) */
	INDEX_FOLDER = 1,
	/* samples are bytes of one file or memfd: raw pixels, in the order of enum index_pixels */
	INDEX_IDX = 2,
	/* samples are files named by a manifest; path as there, absolute or from `root`, its folder */
	INDEX_MANIFEST = 3,
	/* samples are members of archives in `root`; path = name of the member, and its bytes are those
	 * of its extent */
	INDEX_TAR = 4,
};

enum {
	INDEX_PATH_MAX = 4095,       /* bytes of a path: of the root, and of a sample below it */
	INDEX_CLASS_NAME_MAX = 1024, /* bytes */
	INDEX_SOURCE_NAME_MAX = 255, /* bytes of an archive's file name */
	INDEX_SOURCES_MAX = 1000000,
	INDEX_PIXEL_BYTES_MAX = 6, /* of an IDX file: RGB of 16 bits */
};

/* How the pixels of an INDEX_IDX sample lie in its bytes: height x width x channels values of a byte,
 * but for these differences. */
enum index_pixels {
	INDEX_PIXELS_16BIT = 1 << 0,  /* values of two bytes, big-endian, unsigned */
	INDEX_PIXELS_PLANAR = 1 << 1, /* channels x height x width; with 3 channels only */
};

#define INDEX_MAGIC UINT64_C(0x335844494b4f5453) /* "STOKIDX3" in memory order */

struct index_header {
	uint64_t magic;
	uint32_t kind;
	uint32_t classes;
	uint64_t samples;
	uint64_t root_offset; /* absolute path in the blob: the folder, or the IDX file */
	uint32_t root_length;
	uint32_t data_in_memfd;  /* IDX: 1 = pixels are in a second sealed memfd (was compressed) */
	uint64_t data_bytes;     /* IDX: size of that file or memfd, its header included */
	uint64_t data_mtime_ns;  /* IDX: when that file was last modified; 0 for a memfd */
	uint32_t width, height;  /* of the first sample: the size that a stream promises; or 0, 0:
				  * none of the first ones can be read, `problem` says why */
	uint32_t channels;       /* 1 (L) or 3 (RGB): what samples are before transforms */
	uint32_t hidden_skipped; /* hidden entries that were left out */
	uint32_t sources;        /* archives; 0 but for INDEX_TAR */
	uint32_t pixels;         /* IDX: enum index_pixels; 0 in all others */
	uint32_t empty_classes;  /* classes without samples */
	uint32_t orientation;    /* of the first sample, by its EXIF data: 1 .. 8; or 0, unknown */
	uint32_t problem_length; /* behind the root in the blob; 0 but for a size of 0, 0 */
	uint32_t reserved;
	uint64_t blob_bytes;
};

struct index_sample {
	uint64_t offset; /* IDX: into the data; all others: into the blob */
	uint32_t length; /* bytes of path or of pixels */
	int32_t label;   /* 0 .. classes-1 */
};

struct index_class {
	uint64_t offset; /* name in the blob */
	uint32_t length;
	uint32_t reserved;
};

/* Where a sample's bytes lie. */
struct index_extent {
	uint64_t offset; /* in the archive; the extent lies inside it */
	uint32_t length;
	uint32_t source;
};

/* An archive as it was when it was indexed. */
struct index_source {
	uint64_t offset; /* file name in the blob */
	uint32_t length;
	uint32_t reserved;
	uint64_t bytes;    /* size */
	uint64_t mtime_ns; /* when it was last modified */
};

/* Bytes of each sample of an INDEX_IDX, whose header has been checked. */
static inline uint64_t index_pixel_bytes(const struct index_header *header)
{
	uint64_t pixels = (uint64_t)header->width * header->height;

	return pixels * header->channels * (header->pixels & INDEX_PIXELS_16BIT ? 2 : 1);
}

/* The modification time as index_source has it. */
static inline uint64_t index_mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
}

/* ---- building, in the index worker ---- */

struct index_builder {
	struct index_header header;
	struct index_sample *samples;
	size_t samples_capacity;
	struct index_class *classes;
	size_t classes_capacity;
	struct index_extent *extents;
	size_t extents_capacity;
	struct index_source *sources;
	size_t sources_capacity;
	uint8_t *blob;
	size_t blob_capacity;
	char *root;    /* appended to the blob when sealed */
	char *problem; /* NULL, or appended behind the root: why the size is 0, 0 */
};

#define INDEX_BUILDER_NULL                                                                         \
	{                                                                                          \
		.samples = NULL                                                                    \
	}

void index_builder_finish(struct index_builder *builder);

/* Append; 0, -ENOMEM, or -EOVERFLOW (more than INT32_MAX classes, 2^32-1 samples or
 * INDEX_SOURCES_MAX sources). Samples, classes and sources count themselves; width, height, channels, hidden_skipped, kind, pixels,
 * empty_classes and the data_ fields of the header are the caller's to set. */
int index_add_class(struct index_builder *builder, const void *name, size_t length);
int index_add_path(struct index_builder *builder, const void *path, size_t length, int32_t label);
int index_add_range(struct index_builder *builder, uint64_t offset, uint32_t length, int32_t label);
int index_add_source(struct index_builder *builder, const void *name, size_t length, uint64_t bytes,
	uint64_t mtime_ns);
/* A member of the source that was added last. */
int index_add_member(struct index_builder *builder, const void *path, size_t length, int32_t label,
	uint64_t offset, uint32_t bytes);
int index_set_root(struct index_builder *builder, const void *path, size_t length);
int index_set_problem(struct index_builder *builder, const char *text);

/* Write everything into a new sealed memfd (F_SEAL_SHRINK|GROW|WRITE|SEAL): fd or negative errno. */
int index_builder_seal(const struct index_builder *builder);

/* ---- reading, everywhere ---- */

struct index {
	const struct index_header *header; /* NULL = not mapped; start of the read-only mapping */
	const struct index_sample *samples;
	const struct index_class *classes;
	const struct index_extent *extents; /* INDEX_TAR only */
	const struct index_source *sources;
	const uint8_t *blob;
	size_t bytes; /* of the mapping */
	/* XXH3-64 of samples, labels, paths and class names: equal tables, equal order and labels.
	 * The root and the problem have no part in it, so a data set may be moved between two runs; nor has where in
	 * its archive a sample lies. */
	uint64_t fingerprint;
};

/* Map `fd` (borrowed) read-only and check everything: seals, sizes, every offset, label and name.
 * Paths of a folder's samples and names of archives stay below the root: relative, no empty, "." or ".."
 * component, no NUL byte. That
 * the root itself is the one that was asked for is for the caller to compare.
 * 0, or -EBADMSG with the reason, or -errno. `fingerprint` = false skips hashing. */
int index_map(struct index *index, int fd, bool fingerprint, struct error_text *error);
void index_unmap(struct index *index);

/* Path of sample `i` (not of IDX), borrowed, not terminated: from the root, or, in a manifest, perhaps
 * absolute; for an archive the name of the member. */
static inline const uint8_t *index_path(const struct index *index, uint64_t i, uint32_t *length)
{
	*length = index->samples[i].length;
	return index->blob + index->samples[i].offset;
}

enum { INDEX_NAME_MAX = 2 * INDEX_PATH_MAX + INDEX_SOURCE_NAME_MAX + 32 };

/* The full name of sample `i`, bytes as they are: "ROOT/PATH" of a file, "FILE#17" of an IDX sample,
 * "ROOT/SHARD.tar:MEMBER" of one in an archive. Returns its length; not terminated. */
size_t index_name(const struct index *index, uint64_t i, uint8_t name[INDEX_NAME_MAX]);

/* The same for people, escaped. */
void index_describe(const struct index *index, uint64_t i, char *text, size_t size);

/* Why the size of the samples is not known, for people, into `text`; "" when it is known. */
void index_problem(const struct index *index, char *text, size_t size);

const char *index_kind_name(uint32_t kind); /* "folder", "idx", "manifest", "tar" */
