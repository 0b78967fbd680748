/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes DALI's contiguous shards, which order.c uses if `contiguous` is set: shard s of R has the samples floor(N*s/R) to floor(N*(s+1)/R) - 1. In epoch e
 * rank r reads shard (r + e) modulo R, or always shard r with `stick_to_shard`. */
#ifndef STK_ORDER_SHARD_H
#define STK_ORDER_SHARD_H

#include "order/order.h"

/* These functions do the work of stk__order_steps, stk__order_batch and stk__order_consumed for contiguous shards. */
int64_t stk__shard_steps(const struct stk_order *o, int64_t epoch);
struct stk_order_step stk__shard_batch(const struct stk_order *o, int64_t k);
/* Like stk__order_place, but `sample` is a position (the sample's own, or that of the sample that it repeats): the user's indices are not applied yet. */
struct stk_place stk__shard_place(const struct stk_order *o, int64_t k, int32_t i);
int64_t stk__shard_consumed(const struct stk_order *o, int64_t epoch, int64_t step);
/* Returns the number of steps that this rank takes before the run's start, in a run from epoch 0 on. Ranks may differ, since shards may differ in size. */
int64_t stk__shard_begun(const struct stk_order *o);

/* For STK_TAIL_KEEP, with contiguous shards or not: returns the number of samples in a batch of a rank that has `left` samples left in the epoch. It is at
 * least 1, even if `left` is 0 or negative. */
int32_t stk__kept_count(int64_t left, int32_t batch);

#endif
