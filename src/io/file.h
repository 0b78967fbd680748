/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads local files: on the caller's thread if that cannot block, otherwise on threads of its own. */
#ifndef STK_IO_FILE_H
#define STK_IO_FILE_H

#include "io/io.h"

#include <stdatomic.h>

/* Statistics of earlier reads. Any thread may change them without a lock, since they affect only speed. */
struct stk_file_habits {
	_Atomic size_t size;     /* size of the next file's first buffer in bytes, adapted to recent files; 0: no file was read yet */
	_Atomic unsigned misses; /* number of consecutive reads that could have blocked */
	/* number of calls of stk__file_read_now that found 16 misses in a row; only every 32nd of these calls tries to read */
	_Atomic unsigned skipped;
	_Atomic bool no_cached_open; /* the system does not support openat2 with RESOLVE_CACHED */
};

/* The next two functions set r->data, r->size and r->buffer, or fill r->error. */

/* Reads r's file if its path and bytes are cached, and sets *status; returns false, with r unchanged, if that could block. After many
 * misses in a row (a cold cache, or a file system without RWF_NOWAIT) most calls return false at once. */
bool stk__file_read_now(struct stk_file_habits *h, struct stk_io *io, struct stk_request *r, enum stk_status *status);
/* Reads r's file, and sets *refused to 0. If the caller's limit does not admit its buffer, reads nothing, sets *refused to the size of that buffer, and
 * returns STK_OK. */
STK_MUST_USE enum stk_status stk__file_read(struct stk_file_habits *h, struct stk_io *io, struct stk_request *r, size_t *refused);

/* Adds the source of local files as the first source. It has at most `threads` threads, and starts one when a request finds all of them busy. */
struct stk_file_source;
STK_MUST_USE enum stk_status stk__file_source_add(struct stk_io *io, int threads, struct stk_error *err);

#endif
