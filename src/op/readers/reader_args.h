/* SPDX-License-Identifier: Apache-2.0
 * Arguments that every reader has: order and shard of samples, and the handling of an epoch's incomplete last batch. */
#ifndef STK_OP_READER_ARGS_H
#define STK_OP_READER_ARGS_H

#include "op/op.h"

struct stk_reader_args {
	bool random_shuffle, shuffle_after_epoch, stick_to_shard, pad_last_batch;
	int64_t num_shards, shard_id, shuffle_seed;
	const char *tail;
	struct stk_ints indices;
	/* `seed` is DALI's name of shuffle_seed, which is used if both are given. The others are accepted for compatibility with DALI, without effect. */
	int64_t seed, initial_fill, prefetch_queue_depth, tensor_init_bytes, shuffle_after_epoch_seed;
	bool read_ahead, lazy_init, skip_cached_images, dont_use_mmap;
};
extern const struct stk_arg_def stk__reader_group[];

/* Checks the arguments of a reader whose data set has `size` samples. STK_NOT_FOUND: the data set is empty. STK_INVALID: shard_id or an index is out of
 * range, the list of indices is empty, or stick_to_shard and shuffle_after_epoch are both given. */
enum stk_status stk__reader_check(const struct stk_reader_args *a, int64_t size, struct stk_error *err);

/* Sets *out to the order that the arguments choose. For a reader's `order` function. */
void stk__reader_order(const struct stk_reader_args *a, int64_t size, struct stk_order *out);

#endif
