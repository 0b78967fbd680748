/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a media file: in memory, in a local file, or wherever a function reads them. */
#ifndef STK_MEDIA_INPUT_H
#define STK_MEDIA_INPUT_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_media_input {
	int64_t size;
	const uint8_t *data; /* all bytes, or NULL */
	/* Reads exactly n bytes, all of which lie inside the file. Called by one thread at a time. NULL if `data` is set. */
	enum stk_status (*read)(void *user, int64_t offset, void *to, size_t n, struct stk_error *err);
	/* Announces that most of the next reads lie in this range, so that an input whose requests are costly can fetch the range with one request. n 0: there
	 * are no more such reads. Nullable. */
	void (*expect)(void *user, int64_t offset, int64_t n);
	void *user;
	/* Called between reads; true ends the work with STK_CANCELLED. Nullable. */
	bool (*interrupted)(void *user);
	void *interrupted_user;
};

/* Reads n bytes. STK_CORRUPT if the file ends before. */
STK_MUST_USE enum stk_status stk__media_read(const struct stk_media_input *in, int64_t offset, void *to, size_t n, struct stk_error *err);
STK_MUST_USE enum stk_status stk__media_check(const struct stk_media_input *in, struct stk_error *err); /* STK_CANCELLED if interrupted */

/* Identifies a version of a file: by times and inode of a local file, or by the ETag of an object. */
struct stk_media_version {
	bool known; /* false: versions cannot be distinguished */
	int64_t size, modified_ns, changed_ns;
	uint64_t inode;
	char version[128]; /* version of an object; unused bytes are zero */
};

/* Opens a local file as an input, whose `user` then owns a descriptor. version: nullable. */
STK_MUST_USE enum stk_status stk__media_file_open(
	struct stk_media_input *in, const char *path, struct stk_media_version *version, struct stk_error *err);
void stk__media_file_close(struct stk_media_input *in);

#endif
