/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder that holds images itself, without folders of classes. */
#ifndef STOKER_CLI_FOLDER_H
#define STOKER_CLI_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

struct flat_folder {
	char **paths; /* sorted */
	size_t count, skipped;
};

/* Lists a folder's images; `skipped` counts its other files. False: it has folders, no images, or cannot be read. flat_folder_free in either case. */
bool flat_folder_list(const char *folder, struct flat_folder *out);
void flat_folder_free(struct flat_folder *f);

#endif
