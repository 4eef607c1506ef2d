/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_scan.h"

#include <string.h>

enum { NAME_MAX_LENGTH = 32 };

/* Ends of sentences. */
#define IN_THE_LOOP "do it to the batches in the training loop"
#define SEVERAL     "a sample has one picture"
#define CHOICE      "only single transforms are left to chance, by the p of those that have one"

/* torchvision.transforms of 0.14 and 0.15; NULL: we have it too. */
static const struct {
	const char *name, *foreign;
} names[] = {
	{"Compose", NULL},
	{"Grayscale", NULL},
	{"ToTensor", NULL},
	{"Normalize", NULL},
	{"Resize", NULL},
	{"CenterCrop", NULL},
	{"Pad", NULL},
	{"RandomCrop", NULL},
	{"RandomResizedCrop", NULL},
	{"RandomHorizontalFlip", NULL},
	{"RandomVerticalFlip", NULL},
	{"RandomRotation", NULL},
	{"RandomAffine", NULL},
	{"ColorJitter", NULL},
	{"RandomGrayscale", NULL},
	{"GaussianBlur", NULL},
	{"RandomErasing", NULL},
	{"ConvertImageDtype", NULL},
	{"PILToTensor", NULL},

	{"AugMix", IN_THE_LOOP},
	{"AutoAugment", IN_THE_LOOP},
	{"ElasticTransform", IN_THE_LOOP},
	{"FiveCrop", SEVERAL},
	{"Lambda", "it is code of Python, which only Python can run: " IN_THE_LOOP},
	{"LinearTransformation", IN_THE_LOOP},
	{"RandAugment", IN_THE_LOOP},
	{"RandomAdjustSharpness", IN_THE_LOOP},
	{"RandomApply", CHOICE},
	{"RandomAutocontrast", IN_THE_LOOP},
	{"RandomChoice", CHOICE},
	{"RandomEqualize", IN_THE_LOOP},
	{"RandomInvert", IN_THE_LOOP},
	{"RandomOrder", CHOICE},
	{"RandomPerspective", IN_THE_LOOP},
	{"RandomPosterize", IN_THE_LOOP},
	{"RandomSolarize", IN_THE_LOOP},
	{"TenCrop", SEVERAL},
	{"ToPILImage", "samples are pictures already, leave it out"},
	{"TrivialAugmentWide", IN_THE_LOOP},
};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

const char *transform_name_foreign(const char *name, size_t length)
{
	for (size_t i = 0; i < NAMES; i++) {
		if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0)
			return names[i].foreign;
	}
	return NULL;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Levenshtein's distance, upper and lower case alike. Both are at most NAME_MAX_LENGTH long. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t row[NAME_MAX_LENGTH + 1];

	for (size_t j = 0; j <= b_length; j++)
		row[j] = j;
	for (size_t i = 0; i < a_length; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < b_length; j++) {
			size_t best = diagonal + (lower(a[i]) != lower(b[j]));

			diagonal = row[j + 1];
			if (diagonal + 1 < best)
				best = diagonal + 1;
			if (row[j] + 1 < best)
				best = row[j] + 1;
			row[j + 1] = best;
		}
	}
	return row[b_length];
}

const char *transform_name_suggest(const char *name, size_t length)
{
	const char *nearest = NULL;
	size_t least = length / 3 + 1;

	if (length > NAME_MAX_LENGTH)
		return NULL;
	for (size_t i = 0; i < NAMES; i++) {
		size_t d = distance(name, length, names[i].name, strlen(names[i].name));

		if (d < least) {
			least = d;
			nearest = names[i].name;
		}
	}
	return nearest;
}
