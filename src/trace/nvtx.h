/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports spans as NVTX ranges to Nsight Systems and other tools that listen, on the thread that does the work and while it runs. Reports no reads, and no
 * copies and kernels of the GPU, which such tools see anyway. The environment variable NVTX_INJECTION64_PATH, which `nsys profile` sets, contains the path of
 * the tool's library (https://github.com/NVIDIA/NVTX). */
#ifndef STK_TRACE_NVTX_H
#define STK_TRACE_NVTX_H

#include "trace/trace.h"

struct stk_ranges; /* a NULL means that no tool listens or the build has no NVTX; all functions below then do nothing */

/* Opens the domain "stoker", and loads the tool's library if necessary. Returns NULL if no tool listens. */
struct stk_ranges *stk__ranges_open(void);
void stk__ranges_close(struct stk_ranges *r);

/* Begins a range of the calling thread, named after the kind and with the batch's number as its payload. Ranges of a thread end in reverse order. */
void stk__range_begin(struct stk_ranges *r, enum stk_span_kind kind, int64_t batch);
void stk__range_end(struct stk_ranges *r);

#endif
