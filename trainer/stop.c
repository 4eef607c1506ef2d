/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static volatile sig_atomic_t came;
static int event = -1;

static void on_signal(int number)
{
	int saved = errno;
	uint64_t one = 1;

	came = number;
	if (write(event, &one, sizeof(one)) < 0) {
		/* The counter is full: it is readable anyway. */
	}
	errno = saved;
}

int stop_install(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND};

	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event < 0)
		return -errno;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGINT, &action, NULL) < 0 || sigaction(SIGTERM, &action, NULL) < 0)
		return -errno;
	return 0;
}

int stop_signal(void)
{
	return came;
}

int stop_fd(void)
{
	return event;
}
