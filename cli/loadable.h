/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out whether Loader would accept a folder, a prefix or an index of class folders. Loader lists them as torchvision's ImageFolder does. */
#ifndef STOKER_CLI_LOADABLE_H
#define STOKER_CLI_LOADABLE_H

#include "session.h"

enum { LOADABLE_PROBLEMS = 20 };

struct loadable {
	bool has_folders; /* true if the source has class folders */
	int32_t count;    /* number of reasons why Loader refuses the source; at LOADABLE_PROBLEMS there may be more */
	char problems[LOADABLE_PROBLEMS][1024];
};

/* If Loader refuses a local source, lists smaller and smaller groups of its classes, to find every class at fault. */
void loadable_look(struct loadable *l, struct session *session);

#endif
