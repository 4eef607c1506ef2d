/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/util/error.h"

#include <stdio.h>

int error_set(struct error_text *error, int code, const char *format, ...)
{
	if (error != NULL) {
		va_list args;

		va_start(args, format);
		vsnprintf(error->text, sizeof(error->text), format, args);
		va_end(args);
	}
	return code;
}
