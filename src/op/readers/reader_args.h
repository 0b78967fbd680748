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

/* Fails unless the arguments of a reader of `size` samples fit: shard and indices in range, at least one sample read, and only one of two orders chosen. */
enum stk_status stk__reader_check(const struct stk_reader_args *a, int64_t size, struct stk_error *err);

/* Fills the order for a reader's `order` function. */
void stk__reader_order(const struct stk_reader_args *a, int64_t size, struct stk_order *out);

#endif
