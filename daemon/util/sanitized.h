/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* 1 in builds with AddressSanitizer, whose run time needs memory limits and system calls of its own. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif
