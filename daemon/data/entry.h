/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <stdbool.h>

/* What an entry of a data set's directory is, by name and type. */

/* Left out by default: names that start with a dot, and the __MACOSX that zip files from Macs carry. */
bool entry_hidden(const char *name);

/* torchvision's IMG_EXTENSIONS, without regard to case. */
bool entry_is_image(const char *name);

/* A directory, or a link to one. A link that cannot be followed is none. */
bool entry_is_directory(int dir_fd, const struct dirent *entry);

/* A stream over the directory `dir_fd` (borrowed), from its first entry; NULL with errno. */
DIR *entry_stream(int dir_fd);

/* The next entry that is not "." or ".."; NULL at the end, or with errno set (0 at the end). */
struct dirent *entry_next(DIR *stream);
