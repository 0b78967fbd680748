/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads large ranges in pieces. One connection to a store delivers some 25 MB/s even on a faster network, so a large range of a remote object is read by
 * several requests at a time, directly into the memory of the whole request. Each piece is retried on its own. If a piece has another version than the first,
 * that counts as a failure of the source, so that the whole request is retried. */
#ifndef STK_IO_IO_SPLIT_H
#define STK_IO_IO_SPLIT_H

#include "io/io.h"

#include <pthread.h>

/* For sources, at the beginning of `submit`: submits r in pieces if it is large. Returns false if the source must read r as it is. lock: guards the pieces
 * of all large requests of this source. */
bool stk__split_begin(struct stk_io *io, pthread_mutex_t *lock, struct stk_request *r);
/* For sources, at the beginning of `cancel`: cancels the pieces of r, if it has any. */
void stk__split_cancel(struct stk_io *io, pthread_mutex_t *lock, struct stk_request *r);

#endif
