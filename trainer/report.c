/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/report.h"

#include "trainer/clock.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 30 };
#define REDRAW_SECONDS   0.1
#define INDEXING_FIRST_S 0.8
#define INDEXING_NEXT_S  9.8

void report_init(struct report *report, bool json, uint64_t epochs)
{
	*report = (struct report){
		.json = json,
		.bar = !json && isatty(STDOUT_FILENO),
		.epochs = epochs,
	};
	/* Whoever reads the lines through a pipe wants each when it is written. */
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static void clear_bar(struct report *report)
{
	if (!report->bar_visible)
		return;
	fputs("\r\033[K", stdout);
	fflush(stdout);
	report->bar_visible = false;
}

void report_note(struct report *report, const char *format, ...)
{
	va_list arguments;

	clear_bar(report);
	report_indexed(report);
	fputs("stoker-train: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

void report_indexed(struct report *report)
{
	if (report->indexing_visible)
		fputs("\r\033[K", stderr);
	report->indexing_visible = false;
}

void report_indexing(struct report *report, uint64_t samples)
{
	bool terminal = isatty(STDERR_FILENO), first = report->indexing_due == 0;
	double now = clock_seconds();

	if (terminal || (!first && now >= report->indexing_due)) {
		report_indexed(report);
		fprintf(stderr, "stoker-train: indexing, %llu images so far%s",
			(unsigned long long)samples, terminal ? "" : "\n");
		report->indexing_visible = terminal;
	}
	if (first || now >= report->indexing_due)
		report->indexing_due = now + (first ? INDEXING_FIRST_S : INDEXING_NEXT_S);
}

void report_progress(
	struct report *report, uint64_t epoch, uint64_t done, uint64_t steps, double rate)
{
	char bar[BAR_WIDTH + 1];
	double now;

	if (!report->bar || steps == 0)
		return;
	now = clock_seconds();
	if (now - report->drawn_at < REDRAW_SECONDS)
		return;
	for (unsigned i = 0; i < BAR_WIDTH; i++)
		bar[i] = i < done * BAR_WIDTH / steps ? '=' : ' ';
	bar[BAR_WIDTH] = '\0';
	printf("\repoch %llu/%llu [%s] %llu/%llu  %.0f images/s\033[K", (unsigned long long)epoch,
		(unsigned long long)report->epochs, bar, (unsigned long long)done,
		(unsigned long long)steps, rate);
	fflush(stdout);
	report->drawn_at = now;
	report->bar_visible = true;
}

/* JSON has no NaN and no infinity. */
static void print_json_number(double value)
{
	if (isfinite(value))
		printf("%.9g", value);
	else
		fputs("null", stdout);
}

void report_step(struct report *report, uint64_t step, double loss)
{
	clear_bar(report);
	if (!report->json) {
		printf("step %llu: loss %.6g\n", (unsigned long long)step, loss);
		return;
	}
	printf("{\"step\": %llu, \"loss\": ", (unsigned long long)step);
	print_json_number(loss);
	puts("}");
}

static double images_per_second(const struct report_epoch *epoch)
{
	return epoch->seconds > 0 ? (double)epoch->images / epoch->seconds : 0;
}

static void print_json(const struct report_epoch *epoch)
{
	printf("{\"epoch\": %llu, \"seconds\": %.6f, \"images\": %llu, \"images_per_second\": %.1f",
		(unsigned long long)epoch->epoch, epoch->seconds, (unsigned long long)epoch->images,
		images_per_second(epoch));
	fputs(", \"loss\": ", stdout);
	print_json_number(epoch->loss);
	fputs(", \"val_accuracy\": ", stdout);
	print_json_number(epoch->validated ? epoch->val_accuracy : NAN);
	printf(", \"data_wait_seconds\": %.6f, \"device_busy\": %.4f}\n", epoch->data_wait_seconds,
		epoch->device_busy);
}

static void print_line(const struct report *report, const struct report_epoch *epoch)
{
	printf("epoch %llu/%llu: loss %.4f", (unsigned long long)epoch->epoch,
		(unsigned long long)report->epochs, epoch->loss);
	if (epoch->validated)
		printf(", validation accuracy %.2f %%", 100 * epoch->val_accuracy);
	printf(", %llu images in %.2f s (%.0f/s), waited %.2f s for data, device busy %.0f %%\n",
		(unsigned long long)epoch->images, epoch->seconds, images_per_second(epoch),
		epoch->data_wait_seconds, 100 * epoch->device_busy);
}

int report_epoch(struct report *report, const struct report_epoch *epoch, struct problem *problem)
{
	clear_bar(report);
	if (report->json)
		print_json(epoch);
	else
		print_line(report, epoch);
	if (fflush(stdout) != 0 || ferror(stdout))
		return problem_set(
			problem, -EIO, "standard output cannot be written: %s", strerror(errno));
	return 0;
}
