/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks into the running pipelines of other processes of this user, as `stoker top` does. A process with pipelines answers on a socket in a private folder:
 * $XDG_RUNTIME_DIR/stoker, or /tmp/stoker-UID. Only processes of the same user can ask. STOKER_TOP=0 in a process's environment turns its socket off. */
#ifndef STOKER_WATCH_H
#define STOKER_WATCH_H

#include "stoker/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Asks the process with this id, or every process if pid is 0, and returns the answers as a JSON text, which the caller frees with stk_text_free:
 *
 *   [{"pid": 4711, "context": 0, "rank": "0", "pipelines": [{"id": 1, "began_ns": 8123, "batch_size": 256, "device": -1, "threads": 8, "epoch": 0,
 *     "bad_samples": 2, "bad": ["cat/9.jpg: ..."], "counters": {"batches_delivered": 17, ...}}]}]
 *
 * "rank" is the process's RANK, or null. A process with several contexts has an entry for each, numbered by "context". "began_ns" is the time on
 * CLOCK_MONOTONIC at which the pipeline was made: with the pid it identifies the pipeline. "device" is the GPU's number; -1: the cores. "bad" has the
 * messages of the last bad samples, at most 3. "counters" has the names and units of stk_pipeline_counters.
 *
 * Processes that do not answer within two seconds are left out. STK_NOT_FOUND: the process with this id has no running pipelines, or has STOKER_TOP=0.
 * STK_INVALID: pid is below 0. Any thread. */
STK_API STK_MUST_USE enum stk_status stk_watch(int64_t pid, char **json, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
