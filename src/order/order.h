/* SPDX-License-Identifier: Apache-2.0
 *
 * Order: pure functions from (seed, epoch, position) to a sample. No state, O(1) time and memory, any thread.
 *
 * A position is an index into the epoch's global sequence, the same for all ranks. Shuffled, or unshuffled without `contiguous`, rank r of R at
 * step k takes the positions (k*R + r)*B .. (k*R + r + 1)*B - 1, so that every rank has the same number of steps and the union over ranks is the
 * whole sequence once. Unshuffled with DALI's rules (`contiguous`), rank r reads a contiguous shard, and shards rotate each epoch: that is neither
 * elastic nor exactly once. */
#ifndef STK_ORDER_ORDER_H
#define STK_ORDER_ORDER_H

#include "base/philox_hd.h"
#include "stoker/status.h"

#include <stdbool.h>

/* What happens where the epoch ends inside a batch. */
enum stk_tail {
	/* The stream flows into the next epoch (DALI, pad_last_batch=False): the global sequences of consecutive epochs are concatenated and cut
	 * into global steps of B*R, so that nothing is lost or doubled and all ranks have equal steps. A step belongs to the epoch of its
	 * first position; an epoch shorter than a global step may have no step of its own. Each sample keeps its own epoch. */
	STK_TAIL_WRAP,
	STK_TAIL_FILL, /* the last sample is repeated to the end of the batch (pad_last_batch=True); repeats are `padded` */
	STK_TAIL_KEEP, /* the last batch is short; ranks have equal steps, a rank's last batches may be short or empty */
	STK_TAIL_DROP, /* incomplete global steps are left out */
};

struct stk_streams;

#define STK_ORDER_UNKNOWN ((int64_t)1 << 48)

struct stk_order {
	int64_t size;  /* samples in the data set, > 0; STK_ORDER_UNKNOWN while they are still being met */
	uint64_t seed; /* of the order alone: equal on all ranks */
	bool shuffle;  /* else in order */
	/* Samples are numbered as they are met (format/survey.h): a position is its sample, `shuffle` is of the archives alone, and there is one epoch. Only
	 * what is known may be asked for: batches of which a whole one follows, or all that there are. */
	bool as_met;
	int64_t block;       /* with shuffle: as many neighbouring samples stay together, in order; 0: every sample goes by itself */
	bool version_1;      /* the order of a run that version 1 began: small sets too go through the Feistel network */
	bool contiguous;     /* DALI's shards: rank r starts at floor(size * r / ranks); only without shuffle */
	bool stick_to_shard; /* contiguous shards do not rotate */
	int32_t batch, rank, ranks;
	enum stk_tail tail;
	const int64_t *indices;            /* the user's own sequence of sample ids (`size` long), instead of 0 .. size-1; or NULL */
	const struct stk_streams *streams; /* the order of their slots (order/streams.h) instead of all else; with STK_TAIL_WRAP; or NULL */
	/* Where this run began, after a restore: the first epoch starts at `start_position` of its global sequence instead of 0. With
	 * STK_TAIL_WRAP it may lie past the end: then the run starts that far into the next epochs. */
	int64_t start_epoch, start_position;
};

struct stk_place {
	int64_t epoch;
	int64_t position; /* in the epoch's global sequence; >= size, and unlike any other of the epoch, where padded */
	int64_t sample;
	int64_t from; /* the position whose sample it is: its own, but for repeats and replacements */
	bool padded;  /* repeats a sample to fill up */
};

/* Refuses what the other functions assert: sizes below 1, a rank outside 0 .. ranks-1, shuffled contiguous shards, fewer samples than shards,
 * STK_TAIL_DROP where no epoch has a step. */
STK_MUST_USE enum stk_status stk__order_check(const struct stk_order *o, struct stk_error *err);

/* A permutation of 0 .. size-1 drawn by (seed, epoch); entry i is stk__shuffle_hd(&shuffle, i), on either side. Up to 4096 samples all permutations
 * are equally likely: the swap-or-not shuffle (Hoang, Morris and Rogaway, "An enciphering scheme based on a card shuffle", 2012), which needs no table.
 * Above, a Feistel network over the next even number of bits, 8 rounds (24 below 16 bits, where few rounds show), with cycle walking (Black and
 * Rogaway, "Ciphers with arbitrary finite domains", 2002): it makes even permutations alone, and on few bits those unevenly. Frozen by known answers. */
struct stk_shuffle stk__order_shuffle(const struct stk_order *o, int64_t epoch);

/* Steps of an epoch (0 before start_epoch; the first one may be shorter after a restore), equal on all ranks except for contiguous shards with
 * STK_TAIL_WRAP: there the rank's shards follow each other as one stream as in DALI, and a step counts for the epoch of its first sample. */
int64_t stk__order_steps(const struct stk_order *o, int64_t epoch);

/* Batch k of the run (k counts on through epochs): which epoch it belongs to, its step in that epoch and its number of samples. */
struct stk_batch_place {
	int64_t epoch, step; /* step 0 is the first of this run */
	int32_t count;
	bool last; /* of its epoch */
};
struct stk_batch_place stk__order_batch(const struct stk_order *o, int64_t k);

/* Sample i (0 <= i < count) of batch k. O(1). */
struct stk_place stk__order_place(const struct stk_order *o, int64_t k, int32_t i);

/* A batch's samples by runs in which positions follow each other: sample first + j, 0 <= j < count, has position + j * step in `epoch`. Of those that
 * are `padded` all repeat one sample; of the others, sample j is the (shuffled) entry of its position. */
struct stk_order_run {
	int32_t first, count;
	int64_t epoch, position, step, padded; /* padded: the sample, or -1 */
};
/* The first `most` runs of samples 0 .. count - 1 of batch k. Returns how many runs there are, or `most` + 1 if there are more. */
int32_t stk__order_runs(const struct stk_order *o, int64_t k, int32_t count, struct stk_order_run *out, int32_t most);

/* What a checkpoint keeps after `step` steps of `epoch` in this run: the positions of the epoch's global sequence that are consumed, by all ranks
 * together. As start_epoch and start_position of another run, with another rank layout, it continues the same global sequence.
 * STK_TAIL_WRAP: also where an epoch's first step starts (step 0), and more than `size` after its last; so either form restores.
 * Contiguous shards: step * batch * ranks, which only the same layout can continue. */
int64_t stk__order_consumed(const struct stk_order *o, int64_t epoch, int64_t step);

/* The place of the sample that replaces a bad one: another pure draw, (seed, epoch, position, attempt >= 1). Never the bad one itself, unless it is the
 * only one. Epoch and position are those of `place`. Of samples that are met it is an earlier one, or one of the first STK_ORDER_FIRST. */
enum { STK_ORDER_FIRST = 16 };
struct stk_place stk__order_replacement(const struct stk_order *o, const struct stk_place *place, int attempt);

/* Where another data set is when the leading one is at `place`: epochs of either follow each other, sample for sample, so that a shorter one goes round,
 * and one of the same size is always at the same position. That holds for any number of ranks, and for repeats and replacements. */
struct stk_place stk__order_beside(const struct stk_order *o, const struct stk_order *leading, const struct stk_place *place);

#endif
