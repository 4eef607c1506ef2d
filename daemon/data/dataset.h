/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/index.h"
#include "daemon/data/label_set.h"
#include "daemon/data/witness.h"
#include "daemon/util/error.h"
#include "daemon/util/escape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Find out what lies at a path and build its index. Runs in the sandboxed index worker: directory
 * entries, IDX headers, gzip streams, archives and manifests are hostile bytes.
 *
 *   a file named *.csv or *.tsv         -> manifest
 *   a file named *.tar, or one with tar's magic -> tar
 *   a path that is not there, with a range {000..099} or a * in its last component -> tar
 *   any other file                      -> IDX images, .gz or not
 *   a directory with class directories  -> folder (torchvision's ImageFolder order and labels)
 *   a directory with one pair of IDX files -> IDX
 *   a directory with files named *.tar  -> tar, in byte order of the names
 *
 * A directory with several kinds, or with several pairs, is refused with the choices: nothing is guessed.
 *
 * Manifest: RFC 4180 with commas, or tabs in *.tsv (daemon/data/csv.h). A first line that has one of
 * path file filename image filepath file_name file_path image_path and one of label class target
 * category labels class_name class_id label_id, in any case, names the columns; otherwise the first
 * two columns are path and label, and the first line is a sample. Paths are absolute or start from
 * the manifest's folder. For labels see daemon/data/label_set.h.
 *
 * Folder: links are followed, each directory is entered once, hidden entries are skipped and counted.
 * A file is a sample by its extension alone, and found bad when it is read.
 *
 * Tar: the members of one WebDataset key (daemon/data/tar_key.h) are a sample: its image is the first
 * there is of jpg jpeg png ppm bmp pgm tif tiff webp, its label the text of its cls. Keys with
 * neither are left out. The members of a key follow each other, each extension occurs once, no shard of
 * a range is missing, and nothing is compressed; else the data set is refused by shard and member.
 */
struct dataset_options {
	bool take_hidden; /* folder: hidden entries are classes and samples, as for torchvision */
	bool allow_empty; /* folder: a class without images keeps its number */
	/* Absolute path of a list of classes (daemon/data/class_list.h), which then have these names
	 * and numbers, or NULL. */
	const char *classes;
};

struct dataset_request {
	const char *path; /* absolute, at most INDEX_PATH_MAX bytes */
	struct dataset_options options;
	const struct label_set *class_list; /* set by dataset_open from the options */
	uint64_t max_memory;                /* bytes that unpacked data may take */
	uint64_t max_pixels;                /* of the first sample, from its header */
	/* Called about every thousand samples with the number found so far; may be NULL. */
	void (*progress)(uint64_t samples, void *data);
	void *progress_data;
	struct witness_list *witnesses; /* NULL, or where to note what the index depends on */
};

struct dataset_result {
	int index_fd; /* sealed memfd, the caller's; -1 on failure */
	int data_fd;  /* sealed memfd with unpacked pixels, or -1 */
};

enum {
	/* The path holds no usable data set; `error` names the object and the way out. */
	DATASET_UNUSABLE = 1,
};

/* 0, DATASET_UNUSABLE, or negative errno (-ENOMEM and the like; `error` is filled too). */
int dataset_open(const struct dataset_request *request, struct dataset_result *result,
	struct error_text *error);

/* The options as text for the command line of the index worker, for the caller to free; NULL without
 * memory. */
char *dataset_options_dup_text(const struct dataset_options *options);

/* And back: the path is borrowed from the text. False for what is no such text. */
bool dataset_options_parse(const char *text, struct dataset_options *options);

/* Does the data set at this path consist of files beside it: is it a manifest, or a pattern of shards? */
bool dataset_reads_folder(const char *path);

/* ---- the kinds, called by dataset_open; all return as it does ---- */

/* Class folders below the directory `dir_fd` (borrowed), whose absolute path is request->path. */
int dataset_folder_build(const struct dataset_request *request, int dir_fd,
	struct index_builder *builder, struct error_text *error);

/* An IDX images file; labels are found beside it ("images-idx3", "images-idx4" -> "labels-idx1"). Unpacks gzip into
 * *data_fd (sealed memfd, the caller's also after a failure), else leaves it at -1. Either way offsets
 * are those of the unpacked file, its header included. */
int dataset_idx_build(const struct dataset_request *request, const char *images_path,
	struct index_builder *builder, int *data_fd, struct error_text *error);

/* A manifest, open for reading at `fd` (borrowed); request->path is its path. */
int dataset_manifest_build(const struct dataset_request *request, int fd,
	struct index_builder *builder, struct error_text *error);

/* Archives in the directory `dir_fd` (borrowed), whose absolute path is request->path: the one, or those
 * of the pattern, `name`; all of them when it is NULL. */
int dataset_tar_build(const struct dataset_request *request, int dir_fd, const char *name,
	struct index_builder *builder, struct error_text *error);

/* Is this the name of a manifest ("train.csv", "val.TSV")? */
bool dataset_is_manifest(const char *name);

/* Is this the file name of IDX images ("train-images-idx3-ubyte.gz", "t10k-images.idx3-ubyte")? */
bool dataset_idx_is_images(const char *name);

/* ---- what they share ---- */

/* Set width and height of the builder's header from the first of its samples that can be read; where
 * none of a hundred can, they stay 0 and the problem is set. */
int dataset_probe_size(const struct dataset_request *request, int root_fd,
	struct index_builder *builder, struct error_text *error);

/* "ROOT/PATH" for people; with length 0 the root alone. */
struct escaped dataset_full_name(
	const struct dataset_request *request, const char *path, size_t length);
