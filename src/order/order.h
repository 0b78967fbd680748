/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes which sample is at a position of an epoch, by pure functions of seed, epoch and position. They keep no state, take O(1) time and memory, and may be
 * called from any thread.
 *
 * A position is an index into the epoch's global sequence, which is the same for all ranks. Without `contiguous`, rank r of R at step k takes the positions
 * (k*R + r)*B .. (k*R + r + 1)*B - 1, so that every rank has the same number of steps and the ranks together take the whole sequence once. With `contiguous`
 * (DALI's rules, without shuffle), rank r reads a contiguous shard, and shards rotate each epoch: then the order depends on the number of ranks, and samples
 * may come more than once. */
#ifndef STK_ORDER_ORDER_H
#define STK_ORDER_ORDER_H

#include "base/philox_hd.h"
#include "stoker/status.h"

#include <stdbool.h>

/* The ways to end an epoch that ends inside a batch. */
enum stk_tail {
	/* The epoch continues into the next one (DALI, pad_last_batch=False): the global sequences of consecutive epochs are concatenated and cut into
	 * global steps of B*R, so that no sample is lost or repeated and all ranks have equal steps. A step belongs to the epoch of its first position; an
	 * epoch shorter than a global step may have no step of its own. Each sample belongs to its own epoch. */
	STK_TAIL_WRAP,
	STK_TAIL_FILL, /* the last sample is repeated to the end of the batch (pad_last_batch=True); the repeats are `padded` */
	/* The last batch is short. Ranks have equal steps; a rank that has no sample left at the last step repeats the last sample once, as `padded`: a
	 * batch without samples has no shape, and the mean of its loss is NaN. */
	STK_TAIL_KEEP,
	STK_TAIL_DROP, /* incomplete global steps are dropped */
};

struct stk_streams;

#define STK_ORDER_UNKNOWN ((int64_t)1 << 48)

struct stk_order {
	int64_t size;  /* number of samples in the data set, at least 1; STK_ORDER_UNKNOWN while the reader is still counting them */
	uint64_t seed; /* seed of the order only; equal on all ranks */
	bool shuffle;  /* true: each epoch is shuffled; false: samples are in order */
	/* True if the reader searches its archives for samples while they are read (format/survey.h). Samples are then numbered in the order in which it finds
	 * them, a position is the sample's number, `shuffle` shuffles only the archives, and there is one epoch. Callers may only ask for batches after which
	 * another whole batch is known, or for any batch once all samples are known. */
	bool as_met;
	int64_t block;       /* with shuffle: number of neighbouring samples that stay together, in order; 0 or 1: each sample is
		        * shuffled separately */
	bool version_1;      /* true to continue the order of a run that version 1 began: small data sets too use the Feistel network */
	bool contiguous;     /* DALI's shards: rank r starts at floor(size * r / ranks); only without shuffle */
	bool stick_to_shard; /* true if contiguous shards do not rotate */
	int32_t batch, rank, ranks;
	enum stk_tail tail;
	const int64_t *indices; /* the user's list of `size` sample ids, instead of 0 .. size-1; NULL: all samples */
	const struct stk_streams
		*streams; /* order of the slots' sequences (order/streams.h), instead of `shuffle`, `block` and `indices`; needs
			  * STK_TAIL_WRAP; NULL: no sequences */
	/* The start of this run, after a restore: the first epoch starts at `start_position` of its global sequence instead of 0. With STK_TAIL_WRAP it may
	 * be after the epoch's end: then the run starts that far into the next epochs. */
	int64_t start_epoch, start_position;
};

struct stk_place {
	int64_t epoch;
	int64_t position; /* position in the epoch's global sequence; at least `size`, and unique, if the sample is padded */
	int64_t sample;
	int64_t from; /* position from which the sample was computed: equals `position` except for repeats and replacements */
	bool padded;  /* true if the sample repeats another one to fill the batch */
};

/* Fails if a field has a value that the other functions do not support: sizes below 1, more than 2^48 samples, a rank outside 0 .. ranks-1, a negative
 * start, streams of which there are not batch * ranks, shuffled contiguous shards, fewer samples than shards, and STK_TAIL_DROP if no epoch has a step. */
STK_MUST_USE enum stk_status stk__order_check(const struct stk_order *o, struct stk_error *err);

/* Returns a permutation of 0 .. size-1 drawn from (seed, epoch); entry i is stk__shuffle_hd(&shuffle, i), on the CPU and the GPU. Up to 4096 samples all
 * permutations are practically equally likely: the swap-or-not shuffle (Hoang, Morris and Rogaway, "An enciphering scheme based on a card shuffle", 2012),
 * which needs no table. Above that, a Feistel network over the next even number of bits, with 8 rounds (24 below 16 bits, where few rounds show) and cycle
 * walking (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). It draws only even permutations, and on few bits not with equal probability.
 * Tests fix the results by known answers. */
struct stk_shuffle stk__order_shuffle(const struct stk_order *o, int64_t epoch);

/* Returns the number of steps of an epoch: 0 before start_epoch; less than usual for an epoch that was restored in its middle. All ranks have equally many,
 * except for contiguous shards with STK_TAIL_WRAP: the rank's shards then follow each other as one stream, as in DALI, and a step counts for the epoch of
 * its first sample. */
int64_t stk__order_steps(const struct stk_order *o, int64_t epoch);

/* The step at which a batch is made. stk__order_batch returns it for batch number k of the run; k is not reset at the end of an epoch. */
struct stk_order_step {
	int64_t epoch, step; /* step 0 is the first of this run */
	int32_t count;       /* number of samples of the batch */
	bool last;           /* true for the last step of its epoch */
};
struct stk_order_step stk__order_batch(const struct stk_order *o, int64_t k);

/* Returns the place of sample i (0 <= i < count) of batch k. O(1). */
struct stk_place stk__order_place(const struct stk_order *o, int64_t k, int32_t i);

/* A run of a batch's samples whose positions advance by a fixed step: sample first + j, 0 <= j < count, has position + j * step in `epoch`. If the run is
 * `padded`, all its samples repeat one sample; otherwise sample j is the (shuffled) entry of its position. */
struct stk_order_run {
	int32_t first, count;
	int64_t epoch, position, step, padded; /* padded: number of the sample that is repeated; -1: none */
};
/* Writes the first `most` runs of samples 0 .. count - 1 of batch k. Returns the number of runs, or `most` + 1 if there are more. */
int32_t stk__order_runs(const struct stk_order *o, int64_t k, int32_t count, struct stk_order_run *out, int32_t most);

/* Returns the position to save in a checkpoint after `step` steps of `epoch` in this run: the number of positions of the epoch's global sequence that all
 * ranks together have consumed. Another run, even with another number of ranks, continues the same global sequence if it takes the values as start_epoch and
 * start_position. With STK_TAIL_WRAP, step 0 gives the position at which the epoch's first step starts, and the last step may give more than `size`; both
 * can be restored. Contiguous shards: step * batch * ranks, plus start_position in the first epoch, which only a run with the same ranks can continue. */
int64_t stk__order_consumed(const struct stk_order *o, int64_t epoch, int64_t step);

/* Returns the place of the sample that replaces a bad one: another pure draw from (seed, epoch, position, attempt >= 1), with epoch and position of `place`.
 * It differs from the bad sample unless the data set has only one. While the reader is still counting samples, it is an earlier sample or one of the first
 * STK_ORDER_FIRST. */
enum { STK_ORDER_FIRST = 16 };
struct stk_place stk__order_replacement(const struct stk_order *o, const struct stk_place *place, int attempt);

/* Returns the place of the sample of another data set, `o`, that goes with the leading data set's sample at `place`. Counted through all epochs, the n-th
 * sample of one goes with the n-th of the other: a shorter data set starts its next epoch earlier, and one of equal size is always at the same position. This
 * holds for any number of ranks, and for repeats and replacements. */
struct stk_place stk__order_follow(const struct stk_order *o, const struct stk_order *leading, const struct stk_place *place);

#endif
