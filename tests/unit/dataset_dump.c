/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset_dump PATH [MAX_MEMORY [OPTIONS]]: what dataset_open makes of a path, for tests that compare it with
 * other readers. OPTIONS are those of dataset_options_dup_text().
 *
 *   kind K / samples N / classes N / empty N / size WxHxC / pixels N / hidden N / fingerprint X, one a
 *   line, then
 *   class NAME for each class, then
 *   sample LABEL NAME for each sample: its path below the root, or offset+length of an IDX sample;
 *   in archives sample LABEL ARCHIVE OFFSET+LENGTH NAME
 *
 * Bytes of names other than printable ASCII are \xHH, a backslash too. Status 1 and the reason on stderr when the path is refused.
 */
#include "daemon/data/dataset.h"
#include "daemon/util/ownership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_name(const uint8_t *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		printf(name[i] >= ' ' && name[i] <= '~' && name[i] != '\\' ? "%c" : "\\x%02x",
			name[i]);
	putchar('\n');
}

static void print_table(const struct index *index)
{
	const struct index_header *header = index->header;

	printf("kind %s\n", index_kind_name(header->kind));
	printf("samples %" PRIu64 "\nclasses %" PRIu32 "\n", header->samples, header->classes);
	printf("empty %" PRIu32 "\npixels %" PRIu32 "\n", header->empty_classes, header->pixels);
	printf("size %" PRIu32 "x%" PRIu32 "x%" PRIu32 "\n", header->width, header->height,
		header->channels);
	printf("hidden %" PRIu32 "\n", header->hidden_skipped);
	printf("fingerprint %016" PRIx64 "\n", index->fingerprint);
	for (uint32_t i = 0; i < header->classes; i++) {
		fputs("class ", stdout);
		print_name(index->blob + index->classes[i].offset, index->classes[i].length);
	}
	for (uint64_t i = 0; i < header->samples; i++) {
		const struct index_sample *sample = &index->samples[i];

		printf("sample %" PRId32 " ", sample->label);
		if (header->kind == INDEX_TAR) {
			const struct index_extent *extent = &index->extents[i];

			printf("%" PRIu32 " %" PRIu64 "+%" PRIu32 " ", extent->source,
				extent->offset, extent->length);
		}
		if (header->kind != INDEX_IDX)
			print_name(index->blob + sample->offset, sample->length);
		else
			printf("%" PRIu64 "+%" PRIu32 "\n", sample->offset, sample->length);
	}
}

int main(int argc, char **argv)
{
	struct dataset_request request = {
		.path = argc > 1 ? argv[1] : "",
		.max_memory = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_C(1) << 30,
		.max_pixels = UINT64_C(178956970),
	};
	bool usage = !dataset_options_parse(argc > 3 ? argv[3] : "", &request.options);
	struct dataset_result result;
	struct error_text error = {""};
	struct index index;
	int r;

	if (usage)
		return 3;
	r = dataset_open(&request, &result, &error);
	if (r != 0) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	r = index_map(&index, result.index_fd, true, &error);
	close_fd(result.index_fd);
	close_fd(result.data_fd);
	if (r != 0) {
		fprintf(stderr, "index_map: %s\n", error.text);
		return 2;
	}
	print_table(&index);
	index_unmap(&index);
	return 0;
}
