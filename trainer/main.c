/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/blas.h"
#include "trainer/training.h"

#include <stdio.h>

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_SIGNAL = 128, /* plus its number, as a shell would say */
};

int main(int argc, char **argv)
{
	struct training training;
	struct options options;
	struct problem problem;
	int r;

	blas_choose_kernels(argv);
	if (options_parse(&options, argc, argv, &problem) < 0) {
		fprintf(stderr, "stoker-train: %s\n", problem.text);
		return EXIT_USAGE;
	}
	if (options.help) {
		fputs(options_help, stdout);
		return EXIT_DONE;
	}
	if (options.version) {
		printf("stoker-train %s\n", stoker_version());
		return EXIT_DONE;
	}
	r = training_open(&training, &options);
	if (r == 0)
		r = training_run(&training);
	if (r < 0)
		fprintf(stderr, "stoker-train: %s\n", training.problem.text);
	training_close(&training);
	if (r < 0)
		return EXIT_FAILED;
	return r > 0 ? EXIT_SIGNAL + r : EXIT_DONE;
}
