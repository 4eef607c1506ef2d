/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* What the service manager is told, and what it hands over. Without one, and in builds without
 * libsystemd (notify_none.c), nothing happens. */

/* "READY=1", "STOPPING=1", ...: see sd_notify(3). */
__attribute__((format(printf, 1, 2))) void notify_state(const char *format, ...);

/* The one socket that was passed by socket activation, -1 = none, -EINVAL = more than one. */
int notify_listen_fd(void);

/* How often WATCHDOG=1 is expected, in ms; half of what the unit says. 0 = not at all. */
uint64_t notify_watchdog_ms(void);
