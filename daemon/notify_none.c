/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

/* Built without libsystemd. */
void notify_state(const char *format, ...)
{
	(void)format;
}

int notify_listen_fd(void)
{
	return -1;
}

uint64_t notify_watchdog_ms(void)
{
	return 0;
}
