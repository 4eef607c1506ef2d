/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/checkpoint.h"
#include "trainer/options.h"
#include "trainer/suggest.h"
#include "trainer/transform_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WEIGHTS = 2 * 3 + 3 + 3 * 2 + 2 };

static char folder[64], path[96], temporary[96];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/test_trainer.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/run", folder);
	snprintf(temporary, sizeof(temporary), "%s/run.tmp", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	unlink(temporary);
	return rmdir(folder);
}

static struct checkpoint example(float *weights)
{
	for (unsigned i = 0; i < WEIGHTS; i++)
		weights[i] = 0.5f * (float)i - 3;
	return (struct checkpoint){
		.cursor = {.epoch = 3,
			.position = 1234567890123,
			.seed = UINT64_MAX,
			.shuffle = true,
			.rank = 1,
			.world = 2,
			.drop_last = true,
			.fingerprint = 0x0123456789abcdef},
		.inputs = 2,
		.hidden = 3,
		.classes = 2,
		.weights = weights,
		.count = WEIGHTS,
	};
}

static void test_checkpoint_round_trip(void **state)
{
	float weights[WEIGHTS];
	struct checkpoint saved = example(weights), loaded;
	struct problem problem;

	(void)state;
	assert_int_equal(checkpoint_load(path, &loaded, &problem), CHECKPOINT_NONE);
	assert_int_equal(checkpoint_probe(path, &problem), 0);
	assert_int_equal(checkpoint_load(path, &loaded, &problem), CHECKPOINT_NONE);
	for (unsigned round = 0; round < 2; round++) { /* the second one replaces the first */
		saved.cursor.epoch = round;
		assert_int_equal(checkpoint_save(path, &saved, &problem), 0);
		assert_int_equal(access(temporary, F_OK), -1);
		assert_int_equal(checkpoint_load(path, &loaded, &problem), 0);
		assert_int_equal(loaded.cursor.epoch, round);
		assert_int_equal(loaded.cursor.position, saved.cursor.position);
		assert_int_equal(loaded.cursor.seed, saved.cursor.seed);
		assert_true(loaded.cursor.shuffle && loaded.cursor.drop_last);
		assert_false(loaded.cursor.shard_drop);
		assert_int_equal(loaded.cursor.rank, 1);
		assert_int_equal(loaded.cursor.world, 2);
		assert_int_equal(loaded.cursor.fingerprint, saved.cursor.fingerprint);
		assert_int_equal(loaded.inputs, 2);
		assert_int_equal(loaded.hidden, 3);
		assert_int_equal(loaded.classes, 2);
		assert_int_equal(loaded.count, WEIGHTS);
		assert_memory_equal(loaded.weights, weights, sizeof(weights));
		checkpoint_finish(&loaded);
	}
}

static void write_file(const char *name, const void *bytes, size_t count)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	close(fd);
}

static void assert_refused(const char *why)
{
	struct checkpoint loaded;
	struct problem problem;

	if (checkpoint_load(path, &loaded, &problem) != -EBADMSG)
		fail_msg("a damaged checkpoint was taken: %s", why);
	assert_null(loaded.weights);
	assert_non_null(strstr(problem.text, path));
}

/* Every length but the right one, and every changed bit, is noticed. */
static void test_checkpoint_damage(void **state)
{
	unsigned char bytes[96 + WEIGHTS * 4 + 8 + 1] = {0};
	size_t size = sizeof(bytes) - 1;
	float weights[WEIGHTS];
	struct checkpoint saved = example(weights);
	struct problem problem;
	FILE *file;

	(void)state;
	assert_int_equal(checkpoint_save(path, &saved, &problem), 0);
	file = fopen(path, "rb");
	assert_non_null(file);
	assert_int_equal(fread(bytes, 1, sizeof(bytes), file), size);
	fclose(file);
	for (size_t length = 0; length < size; length++) {
		write_file(path, bytes, length);
		assert_refused("cut");
	}
	write_file(path, bytes, size + 1);
	assert_refused("longer");
	for (size_t i = 0; i < size * 8; i++) {
		bytes[i / 8] ^= (unsigned char)(1 << i % 8);
		write_file(path, bytes, size);
		assert_refused("changed");
		bytes[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	memset(bytes + 72, 0xff, 8); /* the number of weights */
	write_file(path, bytes, size);
	assert_refused("huge");
}

static void test_checkpoint_places(void **state)
{
	float weights[WEIGHTS];
	struct checkpoint saved = example(weights), loaded;
	struct problem problem;

	(void)state;
	assert_int_equal(checkpoint_probe("/nonexistent/run", &problem), -ENOENT);
	assert_non_null(strstr(problem.text, "/nonexistent/run"));
	assert_int_equal(checkpoint_save("/nonexistent/run", &saved, &problem), -ENOENT);
	assert_int_equal(checkpoint_load("/", &loaded, &problem), -EBADMSG);
	assert_int_equal(mkfifo(path, 0600), 0); /* must not block */
	assert_refused("a FIFO");
	unlink(path);
}

static void test_transform_tail(void **state)
{
	static const struct {
		const char *text, *head;
		uint32_t values;
		float mean, std; /* last ones */
	} good[] = {
		{"Grayscale(), ToTensor(), Normalize((0.5,), (0.25,))", "Grayscale()", 1, 0.5f,
			0.25f},
		{" ToTensor ( ) ", "", 0},
		{"ToTensor(),", "", 0},
		{"Resize(8), Grayscale(1) ,ToTensor( ) , Normalize( mean = [.1, .2,3e-1] , std=(1,2,4,) ) ,",
			"Resize(8), Grayscale(1)", 3, 0.3f, 4.0f},
		{"ToTensor(), Normalize(0.5, 0.25)", "", 1, 0.5f, 0.25f},
		{"NoToTensor(ToTensor), ToTensor()", "NoToTensor(ToTensor)", 0},
		{"transforms.Compose([transforms.Grayscale(), transforms.ToTensor(), "
		 "transforms.Normalize((0.5,), (0.25,))])",
			"transforms.Grayscale()", 1, 0.5f, 0.25f},
		{"T.ToTensor(), torchvision.transforms.Normalize(0.5, 0.25)", "", 1, 0.5f, 0.25f},
		{" Compose ( [ ToTensor() , ] , ) ", "", 0},
		{"RandomCrop(32, 4), RandomHorizontalFlip(p=0.5), ToTensor()",
			"RandomCrop(32, 4), RandomHorizontalFlip(p=0.5)", 0},
		{"train_transform = T.Compose([  # PILToTensor(), ToTensor()\n"
		 "  T.Grayscale(),  # grey, ToTensor() follows\n"
		 "  T.ToTensor(),  # RandomErasing() is missing\n"
		 "  T.Normalize(0.5, 0.25),  # (x - 0.5) / 0.25\n"
		 "])  # done",
			"T.Grayscale(),  # grey, ToTensor() follows", 1, 0.5f, 0.25f},
		{"Grayscale(),# PILToTensor, RandomErasing\nToTensor()",
			"Grayscale(),# PILToTensor, RandomErasing", 0},
	};
	static const char *const bad[] = {"", "Grayscale()", "ToTensors()", "ToTensor",
		"ToTensor(1)", "ToTensor() Normalize((0.5,), (0.5,))", "ToTensor(), Grayscale()",
		"ToTensor(), Normalize((0.5,))", "ToTensor(), Normalize((0.5,), (0.5, 0.5))",
		"ToTensor(), Normalize((), ())", "ToTensor(), Normalize((0.5,), (0,))",
		"ToTensor(), Normalize((nan,), (1,))",
		"ToTensor(), Normalize((1,2,3,4), (1,2,3,4))",
		"ToTensor(), Normalize((0.5,), (0.5,)) x", "ToTensor(), Normalize((0.5], (0.5,))",
		"ToTensor(), Normalize((1 2,), (1,))", "Compose([ToTensor()]", "ToTensor()])",
		"Compose((ToTensor(),))", "Compose([Grayscale()]), ToTensor()",
		"Compose([ToTensor()])]"};
	/* what is wrong with them is said by name */
	static const struct {
		const char *text, *words;
	} foreign[] = {
		{"ToTensor(), Normalize((0.5,), (0.5,)), RandomErasing()",
			"RandomErasing cannot follow ToTensor()"},
		{"Compose([T.ToTensor(), T.RandomErasing(p=0.1), T.Normalize(0, 1)])",
			"RandomErasing cannot follow"},
		{"ToTensor(), ConvertImageDtype(torch.float16)", "ConvertImageDtype cannot follow"},
		{"ToTensor(), PILToTensor()", "PILToTensor cannot follow"},
		{"PILToTensor(), ConvertImageDtype(torch.float), Normalize(0, 1)",
			"write ToTensor() in place of PILToTensor()"},
	};
	struct transform_tail tail;
	struct problem problem;

	(void)state;
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		assert_int_equal(transform_tail_split(&tail, foreign[i].text, &problem), -EINVAL);
		if (!strstr(problem.text, foreign[i].words))
			fail_msg("%s: %s", foreign[i].text, problem.text);
		transform_tail_finish(&tail);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (transform_tail_split(&tail, good[i].text, &problem) != 0)
			fail_msg("%s: %s", good[i].text, problem.text);
		assert_string_equal(tail.head, good[i].head);
		assert_int_equal(tail.values, good[i].values);
		if (tail.values > 0)
			assert_true(tail.mean[tail.values - 1] == good[i].mean &&
				    tail.std[tail.values - 1] == good[i].std);
		transform_tail_finish(&tail);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (transform_tail_split(&tail, bad[i], &problem) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
		assert_true(problem.text[0] != '\0');
		transform_tail_finish(&tail);
	}
}

static void test_transform_table(void **state)
{
	struct model_input input = {.channels = 3, .plane = 1};
	struct transform_tail tail;
	struct problem problem;

	(void)state;
	assert_int_equal(transform_tail_split(&tail,
				 "ToTensor(), Normalize((0.485, 0.456), (0.2, 0.1))", &problem),
		0);
	assert_int_equal(transform_tail_table(&tail, &input, &problem), -EINVAL);
	input.channels = 2;
	assert_int_equal(transform_tail_table(&tail, &input, &problem), 0);
	/* torch: (torch.tensor(200.) / 255 - 0.456) / 0.1, each step in float32 */
	assert_true(input.table[1][200] == ((float)200 / 255.0f - 0.456f) / 0.1f);
	assert_true(input.table[0][0] == (0.0f - 0.485f) / 0.2f);
	transform_tail_finish(&tail);
}

static int parse(struct options *options, const char *line, struct problem *problem)
{
	char *arguments[20] = {(char *)"stoker-train"}, *copy = strdup(line), *rest = copy;
	int count = 1, r;

	assert_non_null(copy);
	while ((arguments[count] = strsep(&rest, " ")))
		if (arguments[count][0] && count < 18)
			count++;
	arguments[count] = NULL;
	r = options_parse(options, count, arguments, problem);
	/* texts point into the copy */
	if (r < 0 || !options->dataset)
		free(copy);
	else
		options->dataset = copy;
	return r;
}

static void test_options(void **state)
{
	struct options options;
	struct problem problem;

	(void)state;
	assert_int_equal(parse(&options, "--dataset train", &problem), 0);
	assert_int_equal(options.batch_size, 64);
	assert_int_equal(options.epochs, 20);
	assert_true(options.rate == 0.01f);
	assert_int_equal(options.dtype, STOKER_F32);
	assert_int_equal(options.device.kind, DEVICE_AUTO);
	assert_int_equal(options.world, 1);
	assert_false(options.no_shuffle || options.json || options.drop_last);
	free((char *)options.dataset);
	assert_int_equal(
		parse(&options,
			"--dataset=train --epochs=3 --lr 0.5 --dtype u8 --rank 1 --world 4 "
			"--device cuda:2 --payload inline --no-shuffle --seed "
			"18446744073709551615",
			&problem),
		0);
	assert_int_equal(options.epochs, 3);
	assert_true(options.rate == 0.5f);
	assert_int_equal(options.dtype, STOKER_U8);
	assert_int_equal(options.rank, 1);
	assert_int_equal(options.device.kind, DEVICE_CUDA);
	assert_int_equal(options.device.index, 2);
	assert_int_equal(options.payload, STOKER_INLINE);
	assert_true(options.no_shuffle);
	assert_true(options.seed == UINT64_MAX);
	free((char *)options.dataset);
	assert_int_equal(parse(&options, "--help", &problem), 0);
	assert_true(options.help);
}

static void test_option_mistakes(void **state)
{
	static const struct {
		const char *line, *says;
	} bad[] = {
		{"", "--dataset"},
		{"--batch_size 3", "did you mean --batch-size?"},
		{"--num_epochs=3", "no such option"},
		{"--epoch 3", "did you mean --epochs?"},
		{"--dtaset x", "did you mean --dataset?"},
		{"train", "train: no such option"},
		{"--dataset", "needs a value"},
		{"--json=1", "takes no value"},
		{"--batch-size 0", "1 to 65536"},
		{"--batch-size 65537", "1 to 65536"},
		{"--batch-size -1", "1 to 65536"},
		{"--batch-size 64x", "64x"},
		{"--seed 18446744073709551616", "--seed"},
		{"--lr nan", "--lr nan"},
		{"--lr -1", "--lr -1"},
		{"--dtype f64", "f32, f16, bf16 or u8"},
		{"--payload tcp", "shared or inline"},
		{"--device cuda:", "cuda:N"},
		{"--device gpu", "cuda:N"},
		{"--dataset x --rank 4 --world 4", "0 to 3"},
	};
	struct options options;
	struct problem problem;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse(&options, bad[i].line, &problem), -EINVAL);
		if (!strstr(problem.text, bad[i].says))
			fail_msg("'%s' is answered by '%s'", bad[i].line, problem.text);
	}
}

static void test_suggest(void **state)
{
	static const char *const names[] = {"--lr", "--val", "--workers", "--world"};

	(void)state;
	assert_string_equal(suggest("--wrokers", names, 4), "--workers");
	assert_string_equal(suggest("--worlds", names, 4), "--world");
	assert_null(suggest("--something-else", names, 4));
	assert_null(suggest("", names, 4));
	assert_null(suggest("--------------------------------------------------", names, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_checkpoint_round_trip, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_checkpoint_damage, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_checkpoint_places, make_folder, remove_folder),
		cmocka_unit_test(test_transform_tail),
		cmocka_unit_test(test_transform_table),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_option_mistakes),
		cmocka_unit_test(test_suggest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
