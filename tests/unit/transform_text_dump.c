/* SPDX-License-Identifier: Apache-2.0 */
/* Reads pipelines, each ended by a NUL, and prints for each a line of JSON: {"steps": [{...}, ...]} with
 * everything that the parser made of it, or {"error": ..., "line": ..., "column": ...}. For
 * test_transform_text.py, which knows what torchvision makes of the same text. */
#include "client/transform_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {
	[TRANSFORM_TEXT_GRAYSCALE] = "Grayscale",
	[TRANSFORM_TEXT_TO_TENSOR] = "ToTensor",
	[TRANSFORM_TEXT_NORMALIZE] = "Normalize",
	[TRANSFORM_TEXT_RESIZE] = "Resize",
	[TRANSFORM_TEXT_CENTER_CROP] = "CenterCrop",
	[TRANSFORM_TEXT_PAD] = "Pad",
	[TRANSFORM_TEXT_RANDOM_CROP] = "RandomCrop",
	[TRANSFORM_TEXT_RANDOM_RESIZED_CROP] = "RandomResizedCrop",
	[TRANSFORM_TEXT_RANDOM_HORIZONTAL_FLIP] = "RandomHorizontalFlip",
	[TRANSFORM_TEXT_RANDOM_VERTICAL_FLIP] = "RandomVerticalFlip",
	[TRANSFORM_TEXT_RANDOM_ROTATION] = "RandomRotation",
	[TRANSFORM_TEXT_RANDOM_AFFINE] = "RandomAffine",
	[TRANSFORM_TEXT_COLOR_JITTER] = "ColorJitter",
	[TRANSFORM_TEXT_RANDOM_GRAYSCALE] = "RandomGrayscale",
	[TRANSFORM_TEXT_GAUSSIAN_BLUR] = "GaussianBlur",
	[TRANSFORM_TEXT_RANDOM_ERASING] = "RandomErasing",
	[TRANSFORM_TEXT_CONVERT_IMAGE_DTYPE] = "ConvertImageDtype",
	[TRANSFORM_TEXT_PIL_TO_TENSOR] = "PILToTensor",
};

static const char *const interpolations[] = {
	"", "nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"};
static const char *const paddings[] = {"", "constant", "edge", "reflect", "symmetric"};
static const char *const dtypes[] = {
	"", "torch.uint8", "torch.float16", "torch.bfloat16", "torch.float32"};

static void print_values(const char *name, const struct transform_text_values *values)
{
	printf(", \"%s\": [", name);
	for (size_t i = 0; i < values->count; i++)
		printf("%s%.9g", i ? ", " : "", values->values[i]);
	printf("]");
}

static void print_numbers(const char *name, const struct transform_text_numbers *numbers)
{
	printf(", \"%s\": [", name);
	for (size_t i = 0; i < numbers->count; i++)
		printf("%s%u", i ? ", " : "", numbers->values[i]);
	printf("]");
}

static void print_doubles(const char *name, const struct transform_text_doubles *doubles)
{
	printf(", \"%s\": [", name);
	for (size_t i = 0; i < doubles->count; i++)
		printf("%s%.17g", i ? ", " : "", doubles->values[i]);
	printf("]");
}

static void print_bool(const char *name, bool value)
{
	printf(", \"%s\": %s", name, value ? "true" : "false");
}

static void print_step(const struct transform_text_step *step)
{
	printf("{\"name\": \"%s\", \"channels\": %u, \"max_size\": %u, \"p\": %.17g",
		kinds[step->kind], step->channels, step->max_size, step->p);
	printf(", \"interpolation\": \"%s\", \"padding_mode\": \"%s\", \"dtype\": \"%s\"",
		interpolations[step->interpolation], paddings[step->padding_mode],
		dtypes[step->dtype]);
	print_values("mean", &step->mean);
	print_values("std", &step->std);
	print_numbers("size", &step->size);
	print_numbers("padding", &step->padding);
	print_numbers("fill", &step->fill);
	print_numbers("kernel_size", &step->kernel_size);
	print_doubles("scale", &step->scale);
	print_doubles("ratio", &step->ratio);
	print_doubles("degrees", &step->degrees);
	print_doubles("center", &step->center);
	print_doubles("translate", &step->translate);
	print_doubles("shear", &step->shear);
	print_doubles("brightness", &step->brightness);
	print_doubles("contrast", &step->contrast);
	print_doubles("saturation", &step->saturation);
	print_doubles("hue", &step->hue);
	print_doubles("sigma", &step->sigma);
	print_doubles("value", &step->value);
	print_bool("pad_if_needed", step->pad_if_needed);
	print_bool("expand", step->expand);
	print_bool("random_value", step->random_value);
	printf("}");
}

static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

int main(void)
{
	struct transform_text pipeline;
	char *text = NULL;
	size_t size = 0;

	while (getdelim(&text, &size, '\0', stdin) >= 0) {
		if (transform_text_parse(&pipeline, text) == 0) {
			printf("{\"steps\": [");
			for (size_t i = 0; i < pipeline.count; i++) {
				printf("%s", i ? ", " : "");
				print_step(&pipeline.steps[i]);
			}
			printf("]}\n");
		} else {
			printf("{\"line\": %zu, \"column\": %zu, \"error\": ", pipeline.line,
				pipeline.column);
			print_string(pipeline.error);
			printf("}\n");
		}
	}
	free(text);
	return 0;
}
