/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

void notify_state(const char *format, ...)
{
	char state[512];
	va_list args;

	va_start(args, format);
	vsnprintf(state, sizeof(state), format, args);
	va_end(args);
	sd_notify(0, state);
}

int notify_listen_fd(void)
{
	int n = sd_listen_fds(1);

	if (n < 0)
		return n;
	if (n > 1)
		return -EINVAL;
	return n == 0 ? -1 : SD_LISTEN_FDS_START;
}

uint64_t notify_watchdog_ms(void)
{
	uint64_t us = 0;

	return sd_watchdog_enabled(1, &us) > 0 ? us / 2000 : 0;
}
