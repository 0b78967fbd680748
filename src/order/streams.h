/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences that slots of a batch follow: sample i of consecutive batches is one sequence after the other, each from its begin to its end. What remembers the
 * sample before needs that. Sequences are dealt to slots in cycles, as SequenceSampler of ACCV-Lab deals them: of a permutation of all, slot g of G takes
 * the entries g, g + G, g + 2 G, ... Slots come to the ends of their cycles at different times, so there are no epochs; one is counted whenever as many samples
 * as there are have been given. */
#ifndef STK_ORDER_STREAMS_H
#define STK_ORDER_STREAMS_H

#include "stoker/status.h"

#include <stdbool.h>

struct stk_streams;

struct stk_streams_options {
	const int32_t *sequences; /* the first sample of each, and behind them the number of all samples */
	int64_t count;            /* of sequences */
	int32_t slots;
	bool shuffle;
	uint64_t seed;
	const int64_t *order; /* instead of drawing: permutations of the sequences, one for each cycle; NULL: none */
	int64_t order_count;  /* entries of all of them */
};

/* Fails where a slot would get no sequence. Permutations are drawn for some hundred cycles (fewer where there are thousands of sequences); then they come
 * again. */
STK_MUST_USE enum stk_status stk__streams_create(const struct stk_streams_options *o, struct stk_streams **out, struct stk_error *err);
void stk__streams_destroy(struct stk_streams *s);
int32_t stk__streams_slots(const struct stk_streams *s);

/* The n-th sample of all: sample n / slots of slot n % slots. Any thread. */
int64_t stk__streams_sample(const struct stk_streams *s, uint64_t n);

#endif
