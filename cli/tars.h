/* SPDX-License-Identifier: Apache-2.0
 *
 * Tars in WebDataset's format as a source of pictures, as Loader accepts them: one tar, a folder of tars, or an index of tars. */
#ifndef STOKER_CLI_TARS_H
#define STOKER_CLI_TARS_H

#include "stoker/stoker.h"

#include <stdbool.h>

struct tars {
	char **paths; /* paths of the tars, sorted */
	int32_t count;
	char images[256]; /* endings of the components that are images, e.g. "jpg;png" */
	bool labels;      /* true if samples have a component cls */
};

/* Returns whether a path ends like a tar, also a compressed one: the library refuses compressed tars with a message that says what to do. */
bool names_tar(const char *path);

/* Returns true for a local or remote tar, patterns like "shard-{000..127}.tar" and "*.tar", an index of tars, and a folder that holds tars and no folders. */
bool is_tars(const char *source);

/* Finds the tars of a source and the components of their samples, and stores an index as Loader does. Prints no notices, since the pipeline over the tars prints them. Call
 * tars_free in either case. */
enum stk_status tars_look(struct tars *t, const char *source, struct stk_storage *storage, struct stk_error *err);
void tars_free(struct tars *t);

#endif
