/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_scan.h"

#include <string.h>

enum { OURS = 7, NAME_MAX_LENGTH = 32 };

/* torchvision.transforms of 0.14 and 0.15; ours first. */
static const char *const names[] = {
	"Compose",
	"Grayscale",
	"ToTensor",
	"Normalize",
	"Resize",
	"CenterCrop",
	"Pad",

	"AugMix",
	"AutoAugment",
	"ColorJitter",
	"ConvertImageDtype",
	"ElasticTransform",
	"FiveCrop",
	"GaussianBlur",
	"Lambda",
	"LinearTransformation",
	"PILToTensor",
	"RandAugment",
	"RandomAdjustSharpness",
	"RandomAffine",
	"RandomApply",
	"RandomAutocontrast",
	"RandomChoice",
	"RandomCrop",
	"RandomEqualize",
	"RandomErasing",
	"RandomGrayscale",
	"RandomHorizontalFlip",
	"RandomInvert",
	"RandomOrder",
	"RandomPerspective",
	"RandomPosterize",
	"RandomResizedCrop",
	"RandomRotation",
	"RandomSolarize",
	"RandomVerticalFlip",
	"TenCrop",
	"ToPILImage",
	"TrivialAugmentWide",
};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

bool transform_name_is_foreign(const char *name, size_t length)
{
	for (size_t i = OURS; i < NAMES; i++) {
		if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
			return true;
	}
	return false;
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
		size_t d = distance(name, length, names[i], strlen(names[i]));

		if (d < least) {
			least = d;
			nearest = names[i];
		}
	}
	return nearest;
}
