/* SPDX-License-Identifier: Apache-2.0
 *
 * What a path leads to on the host, and a folder that holds images itself, without folders of classes. */
#ifndef STOKER_CLI_FOLDER_H
#define STOKER_CLI_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

bool is_folder(const char *path);
bool file_begins(const char *path, const char *magic); /* false where there is no such file, too */

struct flat_folder {
	char **paths; /* sorted */
	size_t count, skipped;
};

/* Lists a folder's images; `skipped` counts its other files. False: it has folders, no images, or cannot be read. flat_folder_free in either case. */
bool flat_folder_list(const char *folder, struct flat_folder *out);
void flat_folder_free(struct flat_folder *f);

#endif
