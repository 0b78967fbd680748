/* SPDX-License-Identifier: Apache-2.0
 * For operators whose output is an existing value: that of another sample, or the same sample's on the other side of a copy from the GPU. gather makes a table
 * of all samples' inputs, and infer uses the memory of one of them as the output. So no value is copied until it leaves the pipeline, and then once; on the GPU
 * that is a copy within the GPU. Inputs of operators that gather are kept in the slot, whose memory does not move as long as the batch is in flight; inputs
 * that gather fetches from the GPU stay in the batch's pinned memory until then. */
#ifndef STK_OP_TENSOR_BATCH_TABLE_H
#define STK_OP_TENSOR_BATCH_TABLE_H

#include "op/op.h"

/* For gather: collects in[0] of each sample, by its index in the batch. */
enum stk_status stk__batch_table_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err);

/* Returns in[0] of sample `index`, or NULL if the sample was left out of the batch earlier. 0 <= index < call->batch. */
const struct stk_tensor *stk__batch_table_at(const struct stk_call *call, int32_t index);

#endif
