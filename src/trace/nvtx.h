/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans as NVTX ranges, each on its own thread and while it lasts, for Nsight Systems and other tools that listen. Spans of reads are left out, and
 * so are those of copies and kernels on the GPU, which such tools see by themselves. A tool says that it is there with the environment
 * variable NVTX_INJECTION64_PATH, the file of a library (https://github.com/NVIDIA/NVTX); `nsys profile` sets it. */
#ifndef STK_TRACE_NVTX_H
#define STK_TRACE_NVTX_H

#include "trace/trace.h"

struct stk_ranges; /* NULL: no tool listens, or the build knows no NVTX; every call below does nothing then */

/* The domain "stoker". Loads the tool's library where that has not been done in this process. */
struct stk_ranges *stk__ranges_open(void);
void stk__ranges_close(struct stk_ranges *r);

/* A range of the calling thread, named after the kind, with the batch's number as its payload. Ranges of a thread end in reverse order. */
void stk__range_begin(struct stk_ranges *r, enum stk_span_kind kind, int64_t batch);
void stk__range_end(struct stk_ranges *r);

#endif
