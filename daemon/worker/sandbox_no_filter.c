/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/sandbox.h"

#include <errno.h>

/* Built without libseccomp. */
int sandbox_load_filter(bool indexing)
{
	(void)indexing;
	return -ENOTSUP;
}
