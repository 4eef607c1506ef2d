/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker/sandbox.h"

#include <stdio.h>

void sandbox_describe(uint32_t active, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	if (active & SANDBOX_NO_NEW_PRIVS)
		used += (size_t)snprintf(text + used, size - used, "no_new_privs ");
	if (active & SANDBOX_SECCOMP)
		used += (size_t)snprintf(text + used, size - used, "seccomp ");
	if (active & SANDBOX_LANDLOCK)
		used += (size_t)snprintf(text + used, size - used, "landlock(%u) ", active >> 16);
	if (used > 0)
		text[used - 1] = '\0';
	else
		snprintf(text, size, "none");
}
