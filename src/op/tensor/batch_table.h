/* SPDX-License-Identifier: Apache-2.0
 * For operators whose output is an existing value: the value of another sample, or a copy in host memory of the sample's value on the GPU. gather makes a table
 * of all samples' inputs, and infer uses the memory of one of them as the output. So no value is copied until it leaves the pipeline, and then once. The inputs
 * are in the slot, whose memory does not move while the batch is in flight, or, if they were copied from the GPU, in the batch's pinned memory. */
#ifndef STK_OP_TENSOR_BATCH_TABLE_H
#define STK_OP_TENSOR_BATCH_TABLE_H

#include "op/op.h"

/* Implements gather: stores in[0] of each sample in a table, by the sample's index in the batch. */
enum stk_status stk__batch_table_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err);

/* Returns in[0] of sample `index` (0 to call->batch - 1), or NULL if the sample was skipped earlier. */
const struct stk_tensor *stk__batch_table_at(const struct stk_call *call, int32_t index);

#endif
