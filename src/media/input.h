/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a media file: in memory, in a local file, or read by a function. */
#ifndef STK_MEDIA_INPUT_H
#define STK_MEDIA_INPUT_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_media_input {
	int64_t size;
	const uint8_t *data; /* all `size` bytes of the file, or NULL */
	/* Reads exactly n bytes, all of which are inside the file. Called by one thread at a time. NULL if `data` is set. */
	enum stk_status (*read)(void *user, int64_t offset, void *to, size_t n, struct stk_error *err);
	/* Announces that most of the next reads are in this range, so that an input whose requests are costly can fetch the range with one request. n = 0:
	 * there will be no more such reads. May be NULL. */
	void (*expect)(void *user, int64_t offset, int64_t n);
	void *user;
	/* Called between reads; if it returns true, reading ends with STK_CANCELLED. May be NULL. */
	bool (*interrupted)(void *user);
	void *interrupted_user;
	size_t memory; /* maximum size in bytes of the list of a video's packets; 0: no limit */
};

/* Reads n bytes. STK_CORRUPT if the file ends before that. */
STK_MUST_USE enum stk_status stk__media_read(const struct stk_media_input *in, int64_t offset, void *to, size_t n, struct stk_error *err);
/* Returns STK_CANCELLED if in->interrupted returns true. */
STK_MUST_USE enum stk_status stk__media_check(const struct stk_media_input *in, struct stk_error *err);

/* Identifies a version of a file: a local file by its size, times and inode, an object by its size and ETag. */
struct stk_media_version {
	bool known; /* if false, versions cannot be distinguished */
	int64_t size, modified_ns, changed_ns;
	uint64_t inode;
	char version[128]; /* the object's ETag; unused bytes are 0 */
};

/* Opens a local file as an input, which stk__media_file_close closes. version: set to the version of the file; may be NULL. */
STK_MUST_USE enum stk_status stk__media_file_open(
	struct stk_media_input *in, const char *path, struct stk_media_version *version, struct stk_error *err);
void stk__media_file_close(struct stk_media_input *in);

#endif
