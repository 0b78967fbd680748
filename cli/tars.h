/* SPDX-License-Identifier: Apache-2.0
 *
 * Tars in WebDataset's format as a source of pictures, as Loader takes them: one, a folder of some, or an index of theirs. */
#ifndef STOKER_CLI_TARS_H
#define STOKER_CLI_TARS_H

#include "stoker/stoker.h"

#include <stdbool.h>

struct tars {
	char **paths; /* sorted */
	int32_t count;
	char images[256]; /* endings of the components that are images, as "jpg;png" */
	bool labels;      /* samples have a component cls */
};

bool names_tar(const char *path); /* by its ending, packed ones included: the library refuses these, and says how to go on */

/* True for a tar, local or not and also as "shard-{000..127}.tar" and "*.tar", an index of tars, and a folder that holds tars and no folders. */
bool is_tars(const char *source);

/* Finds out what the samples of such a source hold; keeps an index, as Loader does. command: named on stderr. tars_free in either case. */
enum stk_status tars_look(struct tars *t, const char *command, const char *source, struct stk_storage *storage, struct stk_error *err);
void tars_free(struct tars *t);

#endif
