/* SPDX-License-Identifier: Apache-2.0
 * The focal loss and the L1 loss of one value, which the CPU's loops and the CUDA kernels share. */
#ifndef STK_RAGGED_LOSS_MATH_H
#define STK_RAGGED_LOSS_MATH_H

#include "ragged/items.h"
#include "stoker/batching.h"

#include <math.h>
#include <stdbool.h>

/* Returns the focal loss of one logit. hot: whether its class is that of the query. slope, if not NULL: the derivative with respect to the logit. */
static STK_BOTH float stk__focal(const struct stk_focal *f, float logit, int32_t hot, float *slope)
{
	float x = hot ? logit : -logit, weight = hot ? f->alpha : 1.0f - f->alpha; /* sigmoid(x) is the probability of the right answer */
	float e = expf(-fabsf(x)), r = 1.0f / (1.0f + e);
	float p = x >= 0 ? r : e * r,
	      q = x >= 0 ? e * r : r; /* sigmoid(x), sigmoid(-x): a subtraction from 1 would lose digits of the smaller one */
	float log_p = (x < 0 ? x : 0.0f) - log1pf(e);
	float power = f->gamma == 2.0f ? q * q : powf(q, f->gamma);
	if (slope)
		*slope = (hot ? weight : -weight) * power * (f->gamma * p * log_p - q);
	return -weight * power * log_p;
}

/* Finds the query and the target of pair j of sample s. Returns whether both are in range. */
static STK_BOTH bool stk__pair(const struct stk_matches *m, int64_t queries, int64_t s, int64_t j, int64_t *query, int64_t *target)
{
	int64_t i = s * m->most + j;
	*query = stk__resolve(m->rows[i], queries);
	*target = stk__resolve(m->cols[i], stk__size_of(m->target_sizes, s % m->lists, m->targets));
	return *query >= 0 && *target >= 0;
}

/* Returns the number of pairs of sample s. */
static STK_BOTH int64_t stk__pairs_of(const struct stk_matches *m, int64_t s)
{
	return stk__size_of(m->sizes, s, m->most);
}

/* Returns the number by which a loss of n pairs is divided. */
static STK_BOTH float stk__divisor(int64_t n)
{
	return n > 1 ? (float)n : 1.0f;
}

static STK_BOTH float stk__sign(float v)
{
	return (float)((v > 0) - (v < 0));
}

#endif
