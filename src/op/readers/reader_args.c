/* SPDX-License-Identifier: Apache-2.0 */
#include "op/readers/reader_args.h"

#define IGNORED(member, kind, dflt, why) STK_ARG(struct stk_reader_args, member, kind, dflt, STK_FREE, STK_ACCEPTED, why)

const struct stk_arg_def stk__reader_group[] = {
	STK_ARG(struct stk_reader_args, random_shuffle, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Draws a new permutation of the whole data set, across all shards, in every epoch. It takes no memory."),
	STK_ARG(struct stk_reader_args, shuffle_after_epoch, STK_ARG_BOOL, "false", STK_FREE, 0, "Same as random_shuffle."),
	STK_ARG(struct stk_reader_args, shuffle_seed, STK_ARG_INT, "0", (0, 0x1p63), 0,
		"Seed of the order, independent of the seed of augmentation. It must be the same on all ranks."),
	STK_ARG(struct stk_reader_args, seed, STK_ARG_INT, "-1", (-1, 0x1p63), 0,
		"DALI's name of shuffle_seed; if both are given, shuffle_seed is used. The pipeline's seed does not change the order."),
	STK_ARG(struct stk_reader_args, num_shards, STK_ARG_INT, "1", (1, 0x1p24), 0,
		"Number of parts into which the data set is divided: the number of ranks."),
	STK_ARG(struct stk_reader_args, shard_id, STK_ARG_INT, "0", (0, 0x1p24), 0,
		"Number of the part to read: the rank, 0 .. num_shards "
		"- 1."),
	STK_ARG(struct stk_reader_args, stick_to_shard, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Without shuffling and without tail: reads the same shard in every epoch instead of the next one."),
	STK_ARG(struct stk_reader_args, pad_last_batch, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Repeats the last sample to the end of the last batch, and fills up shards that are smaller; otherwise the next epoch "
		"continues in the same batch."),
	{.name = "tail",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_reader_args, tail),
		.choices = "wrap|fill|keep|drop",
		.doc = "If the epoch ends inside a batch: the next epoch continues, the last sample is repeated, the batch "
		       "is short, or the rest is dropped. If it is given, ranks take turns batch by batch and all have the same number of "
		       "steps. Default: wrap, or fill with pad_last_batch; without shuffling, DALI's contiguous shards."},
	STK_ARG(struct stk_reader_args, indices, STK_ARG_INTS, NULL, (0, 0x1p62), 0,
		"Ids of the samples that make an epoch, in this order. Default: all samples."),
	IGNORED(initial_fill, STK_ARG_INT, "1024", "Accepted and ignored: shuffling covers the whole data set and needs no buffer."),
	IGNORED(shuffle_after_epoch_seed, STK_ARG_INT, NULL, "Accepted and ignored: the order's seed is shuffle_seed."),
	IGNORED(prefetch_queue_depth, STK_ARG_INT, "1", "Accepted and ignored: reads run ahead as far as the pipeline's read_bytes allow."),
	IGNORED(tensor_init_bytes, STK_ARG_INT, "1048576", "Accepted and ignored: memory depends on the sizes of files."),
	IGNORED(read_ahead, STK_ARG_BOOL, "false", "Accepted and ignored: reads always run ahead."),
	IGNORED(lazy_init, STK_ARG_BOOL, "false",
		"Accepted and ignored: the data set is opened when the pipeline is made, so that errors "
		"show early."),
	IGNORED(skip_cached_images, STK_ARG_BOOL, "false", "Accepted and ignored: there is no cache of decoded images."),
	IGNORED(dont_use_mmap, STK_ARG_BOOL, "false", "Accepted and ignored: files are never mapped."),
	STK_ARG_END,
};

enum stk_status stk__reader_check(const struct stk_reader_args *a, int64_t size, struct stk_error *err)
{
	if (size <= 0)
		return stk__fail(err, STK_NOT_FOUND, "the data set has no samples");
	if (a->shard_id >= a->num_shards)
		return stk__fail(err, STK_INVALID, "shard_id is %lld; with num_shards=%lld it goes from 0 to %lld", (long long)a->shard_id,
			(long long)a->num_shards, (long long)a->num_shards - 1);
	if (a->stick_to_shard && a->shuffle_after_epoch)
		return stk__fail(err, STK_INVALID,
			"stick_to_shard and shuffle_after_epoch exclude each other: each epoch draws a new order of all shards");
	if (a->indices.count == 0)
		return stk__fail(err, STK_INVALID, "indices is empty: an epoch needs at least one sample");
	for (int32_t i = 0; i < a->indices.count; i++)
		if (a->indices.v[i] < 0 || a->indices.v[i] >= size)
			return stk__fail(err, STK_INVALID, "indices[%d] is %lld; the data set has the samples 0 to %lld", i,
				(long long)a->indices.v[i], (long long)size - 1);
	return STK_OK;
}

static enum stk_tail tail_of(const struct stk_reader_args *a)
{
	if (!a->tail)
		return a->pad_last_batch ? STK_TAIL_FILL : STK_TAIL_WRAP;
	switch (a->tail[0]) {
	case 'w':
		return STK_TAIL_WRAP;
	case 'f':
		return STK_TAIL_FILL;
	case 'k':
		return STK_TAIL_KEEP;
	default:
		return STK_TAIL_DROP;
	}
}

void stk__reader_order(const struct stk_reader_args *a, int64_t size, struct stk_order *out)
{
	bool shuffle = a->random_shuffle || a->shuffle_after_epoch;
	*out = (struct stk_order){
		.size = a->indices.count >= 0 ? a->indices.count : size,
		.seed = (uint64_t)(a->shuffle_seed || a->seed < 0 ? a->shuffle_seed : a->seed),
		.shuffle = shuffle,
		.contiguous = !shuffle && !a->tail,
		.stick_to_shard = a->stick_to_shard,
		.rank = (int32_t)a->shard_id,
		.ranks = (int32_t)a->num_shards,
		.tail = tail_of(a),
		.indices = a->indices.count >= 0 ? a->indices.v : NULL,
	};
}
