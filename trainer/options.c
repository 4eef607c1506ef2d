/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/options.h"

#include "trainer/suggest.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char options_help[] =
	"Usage: stoker-train --dataset NAME [OPTION]...\n"
	"Train an image classifier on the batches of a stokerd.\n"
	"\n"
	"  --dataset NAME        data set to train on, as stokerd names it, or a part: 'train[:90%]'\n"
	"  --val NAME            data set to validate on after each epoch\n"
	"  --socket PATH         stokerd's socket\n"
	"  --batch-size N        images per step (64)\n"
	"  --epochs N            epochs in all, those in the checkpoint included (20)\n"
	"  --lr RATE             learning rate (0.01)\n"
	"  --seed N              of the first weights, the order and random transforms (0)\n"
	"  --no-shuffle          take the images in the data set's order\n"
	"  --transform SPEC      a pipeline as in torchvision; stoker-train(1) lists the transforms\n"
	"                        (\"Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))\")\n"
	"  --val-transform SPEC  the same for --val (the same as --transform, random ones included)\n"
	"  --dtype T             what stokerd sends: f32, f16, bf16 or u8; with u8 the trainer's device\n"
	"                        applies ToTensor and Normalize (f32)\n"
	"  --rank R --world W    train on shard R of W (0 of 1)\n"
	"  --shard-drop          drop the tail of the data set instead of padding the shards\n"
	"  --drop-last           drop the last short batch\n"
	"  --device DEVICE       auto, cpu, cuda or cuda:N (auto)\n"
	"  --on-bad-sample P     what becomes of an image that cannot be decoded: error, mask (it is left\n"
	"                        out of the loss) or replace, by another image (error)\n"
	"  --exif-orientation    turn images as their EXIF data say\n"
	"  --grey16 high|clip    of 16-bit grey the high byte, or clipped at 255 as in Pillow (high)\n"
	"  --payload KIND        shared or inline (shared where possible)\n"
	"  --checkpoint FILE     save here after each epoch; go on from here if it exists\n"
	"  --log-every N         print the loss of every N-th step\n"
	"  --json                one JSON object per line\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage, 130 or 143 stopped by SIGINT or SIGTERM.\n";

enum kind {
	KIND_FLAG,
	KIND_TEXT,
	KIND_U32,
	KIND_U64,
	KIND_RATE,
	KIND_DTYPE,
	KIND_PAYLOAD,
	KIND_ON_BAD_SAMPLE,
	KIND_GREY16,
	KIND_DEVICE,
};

struct option {
	const char *name;
	enum kind kind;
	size_t offset; /* in struct options */
	uint64_t least, most;
};

#define AT(member) offsetof(struct options, member)

static const struct option table[] = {
	{"--batch-size", KIND_U32, AT(batch_size), 1, MODEL_ROWS_MAX},
	{"--checkpoint", KIND_TEXT, AT(checkpoint)},
	{"--dataset", KIND_TEXT, AT(dataset)},
	{"--device", KIND_DEVICE, AT(device)},
	{"--drop-last", KIND_FLAG, AT(drop_last)},
	{"--dtype", KIND_DTYPE, AT(dtype)},
	{"--epochs", KIND_U32, AT(epochs), 1, UINT32_MAX},
	{"--exif-orientation", KIND_FLAG, AT(exif_orientation)},
	{"--grey16", KIND_GREY16, AT(grey16_clip)},
	{"--help", KIND_FLAG, AT(help)},
	{"--json", KIND_FLAG, AT(json)},
	{"--log-every", KIND_U32, AT(log_every), 1, UINT32_MAX},
	{"--lr", KIND_RATE, AT(rate)},
	{"--no-shuffle", KIND_FLAG, AT(no_shuffle)},
	{"--on-bad-sample", KIND_ON_BAD_SAMPLE, AT(on_bad_sample)},
	{"--payload", KIND_PAYLOAD, AT(payload)},
	{"--rank", KIND_U32, AT(rank), 0, UINT32_MAX - 1},
	{"--seed", KIND_U64, AT(seed), 0, UINT64_MAX},
	{"--shard-drop", KIND_FLAG, AT(shard_drop)},
	{"--socket", KIND_TEXT, AT(socket)},
	{"--transform", KIND_TEXT, AT(transform)},
	{"--val", KIND_TEXT, AT(val)},
	{"--val-transform", KIND_TEXT, AT(val_transform)},
	{"--version", KIND_FLAG, AT(version)},
	{"--world", KIND_U32, AT(world), 1, UINT32_MAX},
};

enum { TABLE_COUNT = sizeof(table) / sizeof(table[0]) };

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *number >= least && *number <= most;
}

static bool parse_rate(const char *text, float *rate)
{
	char *end;

	*rate = strtof(text, &end);
	return end != text && *end == '\0' && isfinite(*rate) && *rate >= 0.0f;
}

static bool parse_device(const char *text, struct device *device)
{
	uint64_t index = 0;

	if (strcmp(text, "auto") == 0)
		device->kind = DEVICE_AUTO;
	else if (strcmp(text, "cpu") == 0)
		device->kind = DEVICE_CPU;
	else if (strcmp(text, "cuda") == 0)
		device->kind = DEVICE_CUDA;
	else if (strncmp(text, "cuda:", 5) == 0 && parse_number(text + 5, 0, 1023, &index))
		device->kind = DEVICE_CUDA;
	else
		return false;
	device->index = (int)index;
	return true;
}

static bool parse_dtype(const char *text, enum stoker_dtype *dtype)
{
	static const struct {
		const char *name;
		enum stoker_dtype dtype;
	} names[] = {
		{"f32", STOKER_F32}, {"f16", STOKER_F16}, {"bf16", STOKER_BF16}, {"u8", STOKER_U8}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i].name) == 0) {
			*dtype = names[i].dtype;
			return true;
		}
	}
	return false;
}

static bool parse_payload(const char *text, int *payload)
{
	*payload = strcmp(text, "inline") == 0 ? STOKER_INLINE : STOKER_SHARED;
	return *payload == STOKER_INLINE || strcmp(text, "shared") == 0;
}

static bool parse_grey16(const char *text, bool *clip)
{
	*clip = strcmp(text, "clip") == 0;
	return *clip || strcmp(text, "high") == 0;
}

static bool parse_on_bad_sample(const char *text, enum stoker_on_bad_sample *policy)
{
	*policy = strcmp(text, "mask") == 0      ? STOKER_BAD_MASK
		  : strcmp(text, "replace") == 0 ? STOKER_BAD_REPLACE
						 : STOKER_BAD_ERROR;
	return *policy != STOKER_BAD_ERROR || strcmp(text, "error") == 0;
}

static int set_number(
	const struct option *option, const char *value, void *member, struct problem *problem)
{
	uint64_t number;

	if (!parse_number(value, option->least, option->most, &number))
		return problem_set(problem, -EINVAL, "%s %s: expected a number from %llu to %llu",
			option->name, value, (unsigned long long)option->least,
			(unsigned long long)option->most);
	if (option->kind == KIND_U32)
		*(uint32_t *)member = (uint32_t)number;
	else
		*(uint64_t *)member = number;
	return 0;
}

static int set_value(struct options *options, const struct option *option, const char *value,
	struct problem *problem)
{
	void *member = (char *)options + option->offset;
	const char *expected = NULL;

	switch (option->kind) {
	case KIND_FLAG: *(bool *)member = true; return 0;
	case KIND_TEXT: *(const char **)member = value; return 0;
	case KIND_U32:
	case KIND_U64: return set_number(option, value, member, problem);
	case KIND_RATE:
		expected = parse_rate(value, member) ? NULL : "a number of 0 or more";
		break;
	case KIND_DTYPE:
		expected = parse_dtype(value, member) ? NULL : "f32, f16, bf16 or u8";
		break;
	case KIND_PAYLOAD:
		expected = parse_payload(value, member) ? NULL : "shared or inline";
		break;
	case KIND_ON_BAD_SAMPLE:
		expected = parse_on_bad_sample(value, member) ? NULL : "error, mask or replace";
		break;
	case KIND_GREY16: expected = parse_grey16(value, member) ? NULL : "high or clip"; break;
	case KIND_DEVICE:
		expected = parse_device(value, member) ? NULL : "auto, cpu, cuda or cuda:N";
		break;
	}
	if (!expected)
		return 0;
	return problem_set(problem, -EINVAL, "%s %s: expected %s", option->name, value, expected);
}

static int unknown(const char *argument, size_t length, struct problem *problem)
{
	const char *names[TABLE_COUNT], *meant = NULL;
	char *typed = strndup(argument, length);

	for (size_t i = 0; i < TABLE_COUNT; i++)
		names[i] = table[i].name;
	if (typed && argument[0] == '-')
		meant = suggest(typed, names, TABLE_COUNT);
	free(typed);
	if (meant)
		return problem_set(problem, -EINVAL, "%.*s: no such option; did you mean %s?",
			(int)length, argument, meant);
	return problem_set(problem, -EINVAL, "%.*s: no such option; see stoker-train --help",
		(int)length, argument);
}

static const struct option *find(const char *argument, size_t length)
{
	for (size_t i = 0; i < TABLE_COUNT; i++)
		if (strlen(table[i].name) == length &&
			strncmp(table[i].name, argument, length) == 0)
			return &table[i];
	return NULL;
}

static int check(const struct options *options, struct problem *problem)
{
	if (options->help || options->version)
		return 0;
	if (!options->dataset)
		return problem_set(problem, -EINVAL,
			"--dataset NAME is missing; `stoker datasets` lists the names");
	if (options->rank >= options->world)
		return problem_set(problem, -EINVAL,
			"--rank %u does not fit --world %u: ranks are 0 to %u", options->rank,
			options->world, options->world - 1);
	if (options->val_transform && !options->val)
		return problem_set(
			problem, -EINVAL, "--val-transform goes with --val NAME, which is missing");
	return 0;
}

int options_parse(struct options *options, int argc, char **argv, struct problem *problem)
{
	*options = (struct options){
		.transform = "Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))",
		.batch_size = 64,
		.epochs = 20,
		.rate = 0.01f,
		.world = 1,
		.dtype = STOKER_F32,
	};
	for (int i = 1; i < argc; i++) {
		size_t length = strcspn(argv[i], "=");
		const struct option *option = find(argv[i], length);
		const char *value = argv[i][length] ? argv[i] + length + 1 : NULL;
		int r;

		if (!option)
			return unknown(argv[i], length, problem);
		if (option->kind == KIND_FLAG && value)
			return problem_set(problem, -EINVAL, "%s takes no value", option->name);
		if (option->kind != KIND_FLAG && !value && ++i < argc)
			value = argv[i];
		if (option->kind != KIND_FLAG && !value)
			return problem_set(problem, -EINVAL, "%s needs a value", option->name);
		r = set_value(options, option, value, problem);
		if (r < 0)
			return r;
	}
	return check(options, problem);
}
