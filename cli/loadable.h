/* SPDX-License-Identifier: Apache-2.0
 *
 * What Loader would make of a folder, a prefix or an index of class folders, which it lists as torchvision's ImageFolder does. */
#ifndef STOKER_CLI_LOADABLE_H
#define STOKER_CLI_LOADABLE_H

#include "session.h"

enum { LOADABLE_PROBLEMS = 20 };

struct loadable {
	bool asked;        /* the source is one that Loader lists */
	int64_t files;     /* that Loader reads; -1: it refuses the source */
	char skipped[512]; /* what it does not take, in words */
	int32_t count;     /* problems for which it refuses the source; at LOADABLE_PROBLEMS there may be more */
	char problems[LOADABLE_PROBLEMS][1024];
};

/* Lists the session's source once more, by Loader's rules, and if that fails, parts of its classes, to find all of them at fault. */
void loadable_look(struct loadable *l, struct session *session, const char *source);

#endif
