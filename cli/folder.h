/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at paths of this host, and lists folders that hold images directly instead of in class folders. */
#ifndef STOKER_CLI_FOLDER_H
#define STOKER_CLI_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

bool is_folder(const char *path);
bool holds_sounds(const char *folder);                 /* returns whether most of the first 200 files below the folder are sounds */
bool file_begins(const char *path, const char *magic); /* returns whether the file begins with this text; false if it cannot be opened */

struct flat_folder {
	char **paths; /* paths of the images, sorted */
	size_t count, skipped;
};

/* Lists the images of a folder and counts its other files in `skipped`. Returns false if the folder contains folders or no images, or cannot be read. Call
 * flat_folder_free in either case. */
bool flat_folder_list(const char *folder, struct flat_folder *out);
void flat_folder_free(struct flat_folder *f);

#endif
