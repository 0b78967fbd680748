/* SPDX-License-Identifier: Apache-2.0
 * Local files: a read that cannot block on the caller's thread, or blocking reads on threads of their own. */
#ifndef STK_IO_FILE_H
#define STK_IO_FILE_H

#include "io/io.h"

#include <stdatomic.h>

/* What earlier reads taught. Any thread; relaxed, since it changes costs and never results. */
struct stk_file_habits {
	_Atomic size_t size;         /* bytes of recent files: the first buffer's size */
	_Atomic unsigned misses;     /* reads in a row that could have blocked */
	_Atomic unsigned skipped;    /* tries left out since */
	_Atomic bool no_cached_open; /* openat2(RESOLVE_CACHED) is refused here */
};

/* Both fill r->data, size, buffer, or r->error. */

/* Reads r's file if its path and bytes are cached. False: it could block, and nothing happened; else *status. After many misses in a row (a cold
 * cache, or a file system without RWF_NOWAIT) most calls return false at once. */
bool stk__file_read_now(struct stk_file_habits *h, struct stk_io *io, struct stk_request *r, enum stk_status *status);
STK_MUST_USE enum stk_status stk__file_read(struct stk_file_habits *h, struct stk_io *io, struct stk_request *r);

/* Adds the source of local files, as the first. threads: at most so many, started on need, while more requests wait than threads are idle. */
struct stk_file_source;
STK_MUST_USE enum stk_status stk__file_source_add(struct stk_io *io, int threads, struct stk_error *err);

#endif
