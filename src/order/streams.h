/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributes sequences to the slots of a batch, for models that remember the previous sample: sample i of consecutive batches reads one sequence after the
 * other, each from its beginning to its end. Sequences are distributed in cycles, as SequenceSampler of ACCV-Lab does: slot g of G takes the entries g, g + G,
 * g + 2 G, ... of a permutation of all sequences. Slots reach the ends of their cycles at different times, so there are no true epochs: an epoch ends each
 * time that as many samples were returned as the data set has. */
#ifndef STK_ORDER_STREAMS_H
#define STK_ORDER_STREAMS_H

#include "stoker/status.h"

#include <stdbool.h>

struct stk_streams;

struct stk_streams_options {
	const int32_t *sequences; /* the first sample of each sequence, followed by the number of all samples */
	int64_t count;            /* number of sequences */
	int32_t slots;
	bool shuffle;
	uint64_t seed;
	const int64_t *order; /* the caller's permutations of the sequences, one per cycle, one after the other; NULL: drawn */
	int64_t order_count;
};

/* Fails if a slot would get no sequence, an option is invalid, or memory is short. Permutations are drawn for some hundred cycles (fewer if there are
 * thousands of sequences); after the last one the first is used again. */
STK_MUST_USE enum stk_status stk__streams_create(const struct stk_streams_options *o, struct stk_streams **out, struct stk_error *err);
void stk__streams_destroy(struct stk_streams *s);
int32_t stk__streams_slots(const struct stk_streams *s);

/* Returns the n-th sample of the run: sample n / slots of slot n % slots. Any thread. */
int64_t stk__streams_sample(const struct stk_streams *s, uint64_t n);

#endif
