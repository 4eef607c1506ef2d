/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Train on batches from a file and print each step's loss: `model_steps FILE`. Then the seconds of
 * all steps on stderr. The file, all little-endian:
 *   u32 inputs, hidden, classes, steps; f32 learning rate; weights (model_weights_count floats);
 *   per step: u32 rows, rows labels (i32), rows x inputs pixels (f32)
 */
struct steps {
	FILE *file;
	struct model_config config;
	uint32_t count;
	float *pixels;
	int32_t *labels;
};

static void die(const char *what)
{
	fprintf(stderr, "model_steps: %s\n", what);
	exit(1);
}

static void get(FILE *file, void *to, size_t bytes)
{
	if (fread(to, 1, bytes, file) != bytes)
		die("the file is too short");
}

static void *allocate(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		die("out of memory");
	return memory;
}

static void read_header(struct steps *steps)
{
	uint32_t head[4];

	get(steps->file, head, sizeof(head));
	get(steps->file, &steps->config.rate, sizeof(float));
	steps->config.input.channels = 1;
	steps->config.input.plane = head[0];
	steps->config.hidden = head[1];
	steps->config.classes = head[2];
	steps->config.max_rows = 1024;
	steps->count = head[3];
	steps->pixels = allocate(sizeof(float) * 1024 * head[0]);
	steps->labels = allocate(sizeof(int32_t) * 1024);
}

static struct model *create(struct steps *steps)
{
	struct device cpu = {.kind = DEVICE_CPU};
	struct problem problem;
	struct model *model = NULL;
	size_t count = model_weights_count(&steps->config);
	float *weights = allocate(count * sizeof(float));

	get(steps->file, weights, count * sizeof(float));
	if (model_create(&model, &steps->config, &cpu, &problem) < 0)
		die(problem.text);
	if (model_weights_set(model, weights) < 0)
		die(model_problem(model));
	free(weights);
	return model;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double train_step(struct steps *steps, struct model *model)
{
	struct model_batch batch = {.pixels = steps->pixels, .labels = steps->labels};
	double start;
	float loss = 0.0f;

	get(steps->file, &batch.rows, sizeof(batch.rows));
	if (batch.rows > 1024)
		die("a batch of more than 1024 rows");
	get(steps->file, steps->labels, sizeof(int32_t) * batch.rows);
	get(steps->file, steps->pixels, sizeof(float) * batch.rows * steps->config.input.plane);
	start = seconds();
	if (model_train(model, &batch) < 0 || model_step_loss(model, &loss) < 0)
		die(model_problem(model));
	start = seconds() - start;
	printf("%.9g\n", (double)loss);
	return start;
}

int main(int argc, char **argv)
{
	struct steps steps = {0};
	struct model *model;
	double spent = 0;

	if (argc != 2)
		die("usage: model_steps FILE");
	steps.file = fopen(argv[1], "rb");
	if (!steps.file)
		die("cannot open the file");
	read_header(&steps);
	model = create(&steps);
	for (uint32_t i = 0; i < steps.count; i++)
		spent += train_step(&steps, model);
	fprintf(stderr, "%.6f\n", spent);
	model_destroy(model);
	free(steps.pixels);
	free(steps.labels);
	fclose(steps.file);
	return 0;
}
