/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/data/index.h"
#include "daemon/util/error.h"

#include <stdint.h>

/*
 * Find out what lies at a path and build its index. Runs in the sandboxed index worker: directory
 * entries, IDX headers and gzip streams are hostile bytes.
 *
 *   a directory with class directories  -> folder (torchvision's ImageFolder order and labels)
 *   a directory with one pair of IDX files, or an IDX images file, .gz or not -> IDX
 */
struct dataset_request {
	const char *path;    /* absolute */
	uint64_t max_memory; /* bytes that unpacked data may take */
	uint64_t max_pixels; /* of the first sample, from its header */
	/* Called about every thousand samples with the number found so far; may be NULL. */
	void (*progress)(uint64_t samples, void *data);
	void *progress_data;
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

/* ---- the kinds, called by dataset_open ---- */

/* Class folders below the directory `dir_fd` (borrowed), whose absolute path is request->path. */
int dataset_folder_build(const struct dataset_request *request, int dir_fd,
	struct index_builder *builder, struct error_text *error);

/* An IDX images file; labels are found beside it ("images-idx3" -> "labels-idx1"). Unpacks gzip into
 * *data_fd (sealed memfd), else leaves it at -1. */
int dataset_idx_build(const struct dataset_request *request, const char *images_path,
	struct index_builder *builder, int *data_fd, struct error_text *error);
