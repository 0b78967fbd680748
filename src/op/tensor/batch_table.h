/* SPDX-License-Identifier: Apache-2.0
 * Operators whose result for a sample is what another stage or another sample has: gather leaves a table of all samples' inputs, and infer gives the
 * memory of one of them as the output's. So no value is copied until one leaves the pipeline, and then once; on the GPU that is a copy there. Inputs of
 * operators that gather are kept in the slot, whose memory stays where it is as long as the batch is in flight; those that gather
 * fetches from the GPU lie in the batch's pinned memory until then. */
#ifndef STK_OP_TENSOR_BATCH_TABLE_H
#define STK_OP_TENSOR_BATCH_TABLE_H

#include "op/op.h"

/* For gather: in[0] of each sample, by its index in the batch. */
enum stk_status stk__batch_table_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err);

/* in[0] of sample `index`; NULL: the sample was left out of the batch before. 0 <= index < call->batch. */
const struct stk_tensor *stk__batch_table_at(const struct stk_call *call, int32_t index);

#endif
