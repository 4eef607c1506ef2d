/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Remove the directory `path` and everything below; links are removed, not followed. */
void tree_remove(const char *path);

/* Make the directories above `path` that do not exist. 0 or -errno. */
int tree_make_parents(const char *path);
