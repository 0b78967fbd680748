/* SPDX-License-Identifier: Apache-2.0
 * Lists of videos: texts with "file label [start [end]]" a line. */
#ifndef STK_FORMAT_VIDEO_LIST_H
#define STK_FORMAT_VIDEO_LIST_H

#include "stoker/status.h"

#include <stddef.h>
#include <stdint.h>

struct stk_access;

struct stk_video_list {
	const char **names; /* [video]: address of its path in `text` */
	int64_t *labels;
	double *starts, *ends; /* [video]: start and end as the file gives them; NAN: not given */
	int64_t count, capacity;
	char *text;
};

/* Reads a list. Skips empty lines. access: may be NULL. STK_CORRUPT: the message gives the line. STK_NOT_FOUND: the list is empty. The caller frees *out. */
STK_MUST_USE enum stk_status stk__video_list_read(
	const char *path, const struct stk_access *access, struct stk_video_list *out, struct stk_error *err);
/* Parses a list of n bytes. path: name of the list, for messages. */
STK_MUST_USE enum stk_status stk__video_list_parse(
	const char *text, size_t n, const char *path, struct stk_video_list *out, struct stk_error *err);
void stk__video_list_free(struct stk_video_list *l);

#endif
