/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/init.h"
#include "trainer/model.h"
#include "trainer/model_math.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INPUTS = 12, HIDDEN = 7, CLASSES = 4, ROWS = 9 };

/* Same numbers on every machine; -1 .. 1. */
static float noise(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

struct sample_batch {
	float x[ROWS * INPUTS];
	int32_t labels[ROWS];
	struct model_batch batch;
};

static void fill_batch(struct sample_batch *sample, uint32_t seed, uint32_t rows)
{
	for (unsigned i = 0; i < rows * INPUTS; i++)
		sample->x[i] = noise(&seed);
	for (unsigned i = 0; i < rows; i++)
		sample->labels[i] = (int32_t)((seed + i) % CLASSES);
	sample->batch =
		(struct model_batch){.pixels = sample->x, .labels = sample->labels, .rows = rows};
}

static struct model_config config_with(uint32_t max_rows, float rate)
{
	return (struct model_config){
		.input = {.channels = 3, .plane = INPUTS / 3},
		.hidden = HIDDEN,
		.classes = CLASSES,
		.max_rows = max_rows,
		.rate = rate,
	};
}

/* `*state`: the device that the test runs on. */
static struct model *create(void **state, const struct model_config *config)
{
	struct problem problem;
	struct model *model;

	assert_int_equal(model_create(&model, config, *state, &problem), 0);
	return model;
}

static float *random_weights(const struct model_config *config, uint32_t seed)
{
	size_t count = model_weights_count(config);
	float *weights = malloc(count * sizeof(*weights));

	assert_non_null(weights);
	for (size_t i = 0; i < count; i++)
		weights[i] = 0.5f * noise(&seed);
	return weights;
}

/* The model once more, plainly and in double. */
static double reference_loss(const float *weights, const struct model_batch *batch)
{
	const float *w1 = weights, *b1 = w1 + HIDDEN * INPUTS, *w2 = b1 + HIDDEN,
		    *b2 = w2 + CLASSES * HIDDEN, *x = batch->pixels;
	double loss = 0;

	for (uint32_t row = 0; row < batch->rows; row++, x += INPUTS) {
		double hidden[HIDDEN], z, sum = 0, of_label = 0;

		for (unsigned h = 0; h < HIDDEN; h++) {
			hidden[h] = (double)b1[h];
			for (unsigned i = 0; i < INPUTS; i++)
				hidden[h] += (double)w1[h * INPUTS + i] * (double)x[i];
			hidden[h] = hidden[h] > 0 ? hidden[h] : 0;
		}
		for (unsigned c = 0; c < CLASSES; c++) {
			z = (double)b2[c];
			for (unsigned h = 0; h < HIDDEN; h++)
				z += (double)w2[c * HIDDEN + h] * hidden[h];
			sum += exp(z);
			if (c == (unsigned)batch->labels[row])
				of_label = z;
		}
		loss += log(sum) - of_label;
	}
	return loss / batch->rows;
}

static void assert_near(double a, double b, double tolerance)
{
	if (fabs(a - b) > tolerance)
		fail_msg("%.9g is not %.9g within %g", a, b, tolerance);
}

/* torch.nn.functional.cross_entropy of these logits, and the gradient of its mean */
static void test_known_logits(void **state)
{
	static const float logits[3][3] = {{1, 2, 0.5f}, {-1, 0, 3}, {88, -90, 100}};
	static const int32_t labels[3] = {0, 2, 0};
	static const double losses[3] = {1.4643688201904297, 0.06588391214609146, 12.000005722};
	static const double gradients[3][3] = {{-0.2562587261199951, 0.20951056, 0.04674812},
		{0.00571594, 0.01553754, -0.0212534870}, {-0.33333128690719604, 0, 0.33333128}};

	(void)state;
	for (unsigned row = 0; row < 3; row++) {
		float z[3], bias[3];
		bool correct;

		for (unsigned c = 0; c < 3; c++) {
			bias[c] = 0.25f * (float)c;
			z[c] = logits[row][c] - bias[c];
		}
		assert_near((double)model_cross_entropy(
				    z, bias, 3, labels[row], true, 1.0f / 3.0f, &correct),
			losses[row], 1e-6 * (1 + losses[row]));
		assert_int_equal(correct, row == 1);
		for (unsigned c = 0; c < 3; c++)
			assert_near((double)z[c], gradients[row][c], 1e-7);
	}
}

static void test_element_functions(void **state)
{
	static const float tables[3 * 256] = {[7] = 1, [256 + 7] = 2, [512 + 7] = 3};
	static const float tied[4] = {1, 3, 3, 0};

	(void)state;
	assert_true(model_relu(-2.0f) == 0.0f && model_relu(2.0f) == 2.0f);
	assert_true(isnan(model_relu(NAN)));
	assert_true(model_relu_gradient(5.0f, 0.0f) == 0.0f);
	assert_true(model_relu_gradient(5.0f, 0.1f) == 5.0f);
	assert_true(model_sgd(1.0f, 0.5f, 0.5f) == 0.75f);
	assert_int_equal(model_argmax(tied, 4), 1);
	assert_true(model_table(tables, 3, 4)[7] == 2.0f); /* second sample, second channel */
	assert_true(model_table(tables, 1, 4)[7] == 1.0f);
}

/* With a rate of 1 a step moves each weight by its gradient. */
static void test_gradients(void **state)
{
	struct model_config config = config_with(ROWS, 1.0f);
	size_t count = model_weights_count(&config);
	float *weights = random_weights(&config, 11), *after = random_weights(&config, 0);
	struct model *model = create(state, &config);
	struct sample_batch sample;
	float loss;

	fill_batch(&sample, 5, ROWS);
	assert_int_equal(model_weights_set(model, weights), 0);
	assert_int_equal(model_train(model, &sample.batch), 0);
	assert_int_equal(model_step_loss(model, &loss), 0);
	assert_int_equal(model_weights_get(model, after), 0);
	assert_near((double)loss, reference_loss(weights, &sample.batch), 1e-6);
	for (size_t i = 0; i < count; i++) {
		float step = 0x1p-10f, kept = weights[i];
		double above, below;

		weights[i] = kept + step;
		above = reference_loss(weights, &sample.batch);
		weights[i] = kept - step;
		below = reference_loss(weights, &sample.batch);
		weights[i] = kept;
		assert_near(
			(double)kept - (double)after[i], (above - below) / 2 / (double)step, 2e-6);
	}
	model_destroy(model);
	free(weights);
	free(after);
}

/* A short last batch is averaged over its own rows, whatever longer ones left behind. */
static void test_short_batch(void **state)
{
	struct model_config large = config_with(ROWS, 0.1f), small = config_with(2, 0.1f);
	float *weights = random_weights(&large, 3), *a = random_weights(&large, 0),
	      *b = random_weights(&large, 1);
	struct model *model = create(state, &large), *fresh = create(state, &small);
	struct sample_batch sample;
	float loss;

	fill_batch(&sample, 21, ROWS);
	assert_int_equal(model_train(model, &sample.batch), 0);
	assert_int_equal(model_weights_set(model, weights), 0);
	assert_int_equal(model_weights_set(fresh, weights), 0);
	fill_batch(&sample, 22, 2);
	assert_int_equal(model_train(model, &sample.batch), 0);
	assert_int_equal(model_train(fresh, &sample.batch), 0);
	assert_int_equal(model_step_loss(model, &loss), 0);
	assert_near((double)loss, reference_loss(weights, &sample.batch), 1e-6);
	assert_int_equal(model_weights_get(model, a), 0);
	assert_int_equal(model_weights_get(fresh, b), 0);
	assert_memory_equal(a, b, model_weights_count(&large) * sizeof(float));
	model_destroy(model);
	model_destroy(fresh);
	free(weights);
	free(a);
	free(b);
}

static void test_bad_batches(void **state)
{
	static const uint64_t samples[ROWS] = {100, 101, 102, 103, 104};
	struct model_config config = config_with(ROWS, 0.1f);
	struct model *model = create(state, &config);
	float *weights = random_weights(&config, 3), *after = random_weights(&config, 0);
	struct sample_batch sample;

	assert_int_equal(model_weights_set(model, weights), 0);
	fill_batch(&sample, 1, ROWS);
	sample.batch.samples = samples;
	sample.labels[3] = CLASSES;
	assert_int_equal(model_train(model, &sample.batch), -EINVAL);
	assert_non_null(strstr(model_problem(model), "sample 103 has the label 4"));
	sample.labels[3] = -1;
	assert_int_equal(model_evaluate(model, &sample.batch), -EINVAL);
	sample.labels[3] = 0;
	sample.batch.rows = 0;
	assert_int_equal(model_train(model, &sample.batch), -EINVAL);
	sample.batch.rows = ROWS + 1;
	assert_int_equal(model_train(model, &sample.batch), -EINVAL);
	assert_int_equal(model_weights_get(model, after), 0);
	assert_memory_equal(weights, after, model_weights_count(&config) * sizeof(float));
	model_destroy(model);
	free(weights);
	free(after);
}

/* Totals count every row once and start over when they are read; evaluation changes no weight. */
static void test_totals(void **state)
{
	struct model_config config = config_with(ROWS, 0.0f);
	struct model *model = create(state, &config);
	float *weights = random_weights(&config, 9), *after = random_weights(&config, 0);
	struct model_totals totals;
	struct sample_batch sample;
	uint64_t consumed = 0, rows_sent = 0;
	double expected = 0;

	assert_int_equal(model_weights_set(model, weights), 0);
	for (uint32_t n = 0; n < 40; n++) {
		uint32_t rows = n % ROWS + 1;

		fill_batch(&sample, n, rows);
		rows_sent += rows;
		expected += rows * reference_loss(weights, &sample.batch);
		assert_int_equal(model_evaluate(model, &sample.batch), 0);
		assert_int_equal(model_queued(model), n + 1);
		while (consumed <= n)
			assert_int_equal(model_consumed(model, true, &consumed), 0);
	}
	assert_int_equal(model_totals(model, &totals), 0);
	assert_int_equal(totals.rows, rows_sent);
	assert_near(totals.loss, expected, 1e-4);
	assert_true(totals.busy_seconds > 0);
	assert_true(totals.correct < totals.rows);
	assert_int_equal(model_totals(model, &totals), 0);
	assert_int_equal(totals.rows + totals.correct, 0);
	assert_int_equal(model_weights_get(model, after), 0);
	assert_memory_equal(weights, after, model_weights_count(&config) * sizeof(float));
	model_destroy(model);
	free(weights);
	free(after);
}

/* Every bit pattern of both 16-bit formats has the value that its definition gives it. */
static void test_halves(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits < 0x10000; bits++) {
		int exponent = bits >> 10 & 31, fraction = bits & 1023;
		double sign = bits & 0x8000 ? -1 : 1;
		float half = model_from_f16((uint16_t)bits),
		      bfloat = model_from_bf16((uint16_t)bits);
		uint32_t upper;

		if (exponent == 31 && fraction != 0)
			assert_true(isnan(half));
		else if (exponent == 31)
			assert_true(half == sign * INFINITY);
		else if (exponent == 0)
			assert_true(half == sign * ldexp(fraction, -24));
		else
			assert_true(half == sign * ldexp(1024 + fraction, exponent - 25));
		assert_int_equal(signbit(half) != 0, bits >> 15);
		memcpy(&upper, &bfloat, sizeof(upper));
		assert_int_equal(upper, bits << 16);
	}
}

/* Narrower values give exactly what the same values as floats give: bytes through the table, halves. */
static void check_values(void **state, enum model_values values)
{
	struct model_config config = config_with(ROWS, 0.1f), narrow = config;
	float *weights = random_weights(&config, 4), *a = random_weights(&config, 0),
	      *b = random_weights(&config, 1);
	uint16_t halves[ROWS * INPUTS];
	uint8_t bytes[ROWS * INPUTS];
	struct sample_batch sample;
	struct model *with_floats, *with_narrow;

	narrow.input.values = values;
	for (unsigned channel = 0; channel < 3; channel++)
		for (unsigned v = 0; v < 256; v++)
			narrow.input.table[channel][v] =
				((float)v / 255.0f - 0.1f * (float)channel) / 0.3f;
	fill_batch(&sample, 8, ROWS);
	for (unsigned i = 0; i < ROWS * INPUTS; i++) {
		bytes[i] = (uint8_t)(i * 89);
		halves[i] = (uint16_t)(0x3000 + i * 89 % 0xc00);
		sample.x[i] = values == MODEL_U8
				      ? narrow.input.table[i / (INPUTS / 3) % 3][bytes[i]]
			      : values == MODEL_F16 ? model_from_f16(halves[i])
						    : model_from_bf16(halves[i]);
	}
	with_floats = create(state, &config);
	with_narrow = create(state, &narrow);
	assert_int_equal(model_weights_set(with_floats, weights), 0);
	assert_int_equal(model_weights_set(with_narrow, weights), 0);
	assert_int_equal(model_train(with_floats, &sample.batch), 0);
	sample.batch.pixels = values == MODEL_U8 ? (void *)bytes : (void *)halves;
	assert_int_equal(model_train(with_narrow, &sample.batch), 0);
	assert_int_equal(model_weights_get(with_floats, a), 0);
	assert_int_equal(model_weights_get(with_narrow, b), 0);
	assert_memory_equal(a, b, model_weights_count(&config) * sizeof(float));
	model_destroy(with_floats);
	model_destroy(with_narrow);
	free(weights);
	free(a);
	free(b);
}

static void test_narrow_values(void **state)
{
	check_values(state, MODEL_U8);
	check_values(state, MODEL_F16);
	check_values(state, MODEL_BF16);
}

static uint64_t fnv1a(const void *bytes, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	return hash;
}

/* torch 1.13: torch.manual_seed(seed); nn.Linear(784, 128); nn.Linear(128, 10) */
static void test_init(void **state)
{
	static const struct {
		uint64_t seed, hash;
		float first[4];
	} golden[] = {
		{0, 0x32fd1662eebd083,
			{-0x1.18600p-12f, -0x1.069366p-5f, -0x1.51c2c8p-4f, -0x1.3e57eep-4f}},
		{7, 0x442a847ae6ae5c01,
			{0x1.46f46ep-9f, 0x1.3c1414p-8f, -0x1.b54640p-6f, 0x1.b10b68p-5f}},
		{4294967301, 0x27da53b9ec0f9313,
			{0x1.827d34p-6f, 0x1.65e8f8p-7f, 0x1.522d06p-7f, -0x1.56651ep-4f}},
	};
	static const size_t at[4] = {0, 784 * 128, 784 * 128 + 128, 784 * 128 + 128 + 1280};
	struct model_config config = {
		.input = {.channels = 1, .plane = 784}, .hidden = 128, .classes = 10};
	size_t count = model_weights_count(&config);
	float *weights = malloc(count * sizeof(*weights));

	(void)state;
	assert_int_equal(count, 784 * 128 + 128 + 1280 + 10);
	assert_non_null(weights);
	for (unsigned i = 0; i < 3; i++) {
		init_weights(&config, golden[i].seed, weights);
		for (unsigned j = 0; j < 4; j++)
			assert_true(weights[at[j]] == golden[i].first[j]);
		assert_true(fnv1a(weights, count * sizeof(*weights)) == golden[i].hash);
	}
	free(weights);
}

static void test_bad_configs(void **state)
{
	static const struct {
		uint32_t channels, plane, hidden, classes, rows;
	} bad[] = {
		{0, 4, 3, 2, 1},
		{4, 4, 3, 2, 1},
		{1, 0, 3, 2, 1},
		{3, UINT32_MAX, 3, 2, 1},
		{1, 4, 0, 2, 1},
		{1, 4, 3, 0, 1},
		{1, 4, 3, UINT32_MAX, 1},
		{1, 4, 3, 2, 0},
		{1, 4, 3, 2, UINT32_MAX},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct model_config config = {
			.input = {.channels = bad[i].channels, .plane = bad[i].plane},
			.hidden = bad[i].hidden,
			.classes = bad[i].classes,
			.max_rows = bad[i].rows,
		};
		struct problem problem = {.text = ""};
		struct model *model = NULL;

		assert_int_equal(model_create(&model, &config, *state, &problem), -EINVAL);
		assert_true(problem.text[0] != '\0');
		assert_null(model);
	}
	model_destroy(NULL);
}

/* Without a usable GPU, cuda is refused with a reason, and auto takes the CPU for that reason. */
static void test_device_choice(void **state)
{
	struct device cuda = {.kind = DEVICE_CUDA}, any = {.kind = DEVICE_AUTO};
	struct model_config config = config_with(1, 0.1f);
	struct problem refused, fallback;
	struct model *model = NULL;

	(void)state;
	if (model_create(&model, &config, &cuda, &refused) == 0) {
		model_destroy(model);
		skip();
	}
	assert_int_equal(model_create(&model, &config, &cuda, &refused), -ENODEV);
	assert_true(refused.text[0] != '\0');
	assert_int_equal(model_create(&model, &config, &any, &fallback), 0);
	assert_string_equal(fallback.text, refused.text);
	assert_non_null(strstr(model_device(model), "CPU"));
	model_destroy(model);
}

/* The CUDA device, where there is one, must pass what the CPU passes. */
static int use_cuda(void **state)
{
	static struct device cuda = {.kind = DEVICE_CUDA};
	struct model_config config = config_with(1, 0.1f);
	struct problem problem;
	struct model *model;

	if (model_create(&model, &config, &cuda, &problem) < 0) {
		print_message("not run on CUDA: %s\n", problem.text);
		return 1;
	}
	model_destroy(model);
	*state = &cuda;
	return 0;
}

static int use_cpu(void **state)
{
	static struct device cpu = {.kind = DEVICE_CPU};

	*state = &cpu;
	return 0;
}

#define ON_EVERY_DEVICE                                                                            \
	cmocka_unit_test(test_gradients), cmocka_unit_test(test_short_batch),                      \
		cmocka_unit_test(test_bad_batches), cmocka_unit_test(test_totals),                 \
		cmocka_unit_test(test_narrow_values)

int main(void)
{
	const struct CMUnitTest cpu[] = {
		cmocka_unit_test(test_known_logits),
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_element_functions),
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_bad_configs),
		cmocka_unit_test(test_device_choice),
		ON_EVERY_DEVICE,
	};
	const struct CMUnitTest cuda[] = {ON_EVERY_DEVICE};
	void *state;
	int failed = cmocka_run_group_tests_name("model on the CPU", cpu, use_cpu, NULL);

	if (use_cuda(&state) == 0)
		failed += cmocka_run_group_tests_name("model on CUDA", cuda, use_cuda, NULL);
	return failed;
}
