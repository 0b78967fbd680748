/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports spans as NVTX ranges to Nsight Systems and other tools that listen, on the thread that does the work and while it runs. Spans of reads are left
 * out, and so are copies and kernels on the GPU, which such tools see anyway. A tool announces itself with the environment variable NVTX_INJECTION64_PATH,
 * which names a library's file (https://github.com/NVIDIA/NVTX); `nsys profile` sets it. */
#ifndef STK_TRACE_NVTX_H
#define STK_TRACE_NVTX_H

#include "trace/trace.h"

struct stk_ranges; /* NULL if no tool listens or the build has no NVTX; every call below then does nothing */

/* Opens the domain "stoker". Loads the tool's library if this process has not loaded it yet. */
struct stk_ranges *stk__ranges_open(void);
void stk__ranges_close(struct stk_ranges *r);

/* Begins a range of the calling thread that is named after the kind and has the batch's number as its payload. Ranges of a thread end in reverse order. */
void stk__range_begin(struct stk_ranges *r, enum stk_span_kind kind, int64_t batch);
void stk__range_end(struct stk_ranges *r);

#endif
