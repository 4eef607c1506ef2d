/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SIGINT and SIGTERM as a wish that the loop grants between two steps. A second signal of the kind
 * ends the process at once. A handler and not signalfd: the BLAS library has started its threads
 * before main, and a signal that is blocked only here would end the process through one of them.
 */

/* From here on the signals are wishes. 0 or a negative errno. */
int stop_install(void);

/* The signal that came, or 0. */
int stop_signal(void);

/* Readable once a signal came; for poll(2). */
int stop_fd(void);
