/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that anybody has to do for the benchmark's images: open, read, decode with plain libpng,
 * look up each byte in a table, in PROCESSES processes that share nothing. What a loader reaches of
 * this rate is what it makes of the machine.
 *
 *   bare_loop PROCESSES < list of PNG files, one a line      -> {"images": N, "seconds": S}
 */
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20, ROW_BYTES_MAX = 1 << 14 };

struct source {
	const unsigned char *bytes;
	size_t left;
};

static void read_bytes(png_structp png, png_bytep out, size_t length)
{
	struct source *source = png_get_io_ptr(png);

	if (length > source->left)
		png_error(png, "truncated");
	memcpy(out, source->bytes, length);
	source->bytes += length;
	source->left -= length;
}

static float table[256], sink[ROW_BYTES_MAX];

static int decode(const unsigned char *bytes, size_t length)
{
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	struct source source = {bytes, length};
	png_byte row[ROW_BYTES_MAX];

	if (setjmp(png_jmpbuf(png)) != 0) {
		png_destroy_read_struct(&png, &info, NULL);
		return -1;
	}
	png_set_read_fn(png, &source, read_bytes);
	png_read_info(png, info);
	png_set_expand(png);
	png_set_strip_16(png);
	png_set_strip_alpha(png);
	png_read_update_info(png, info);
	if (png_get_rowbytes(png, info) > sizeof(row))
		png_error(png, "too wide for this benchmark");
	for (png_uint_32 y = 0; y < png_get_image_height(png, info); y++) {
		png_read_row(png, row, NULL);
		for (size_t x = 0; x < png_get_rowbytes(png, info); x++)
			sink[x] = table[row[x]];
	}
	png_read_end(png, NULL);
	png_destroy_read_struct(&png, &info, NULL);
	return 0;
}

static int load(const char *path)
{
	static unsigned char buffer[FILE_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t length = -1;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= FILE_MAX)
		length = read(fd, buffer, (size_t)st.st_size);
	if (fd >= 0)
		close(fd);
	return length < 0 ? -1 : decode(buffer, (size_t)length);
}

static char **read_list(size_t *count)
{
	char **paths = NULL, *line = NULL;
	size_t capacity = 0, size = 0;
	ssize_t length;

	*count = 0;
	while ((length = getline(&line, &size, stdin)) > 0) {
		if (*count == capacity) {
			capacity = 1024 + 2 * capacity;
			paths = realloc(paths, capacity * sizeof(*paths));
			if (paths == NULL)
				abort();
		}
		line[strcspn(line, "\n")] = '\0';
		paths[(*count)++] = strdup(line);
	}
	free(line);
	return paths;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
	long processes = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	size_t count;
	char **paths = read_list(&count);
	double start;
	int failed = 0, status;

	if (processes < 1 || processes > 1024 || count == 0) {
		fprintf(stderr, "usage: bare_loop PROCESSES < list of PNG files\n");
		return 2;
	}
	for (int i = 0; i < 256; i++)
		table[i] = ((float)i / 255.0f - 0.5f) / 0.5f;
	start = now();
	for (long p = 0; p < processes; p++) {
		if (fork() != 0)
			continue;
		for (size_t i = (size_t)p; i < count; i += (size_t)processes) {
			if (load(paths[i]) < 0) {
				fprintf(stderr, "%s: cannot be decoded\n", paths[i]);
				_exit(1);
			}
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		return 1;
	printf("{\"images\": %zu, \"seconds\": %.6f}\n", count, now() - start);
	return 0;
}
