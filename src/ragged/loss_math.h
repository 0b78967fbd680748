/* SPDX-License-Identifier: Apache-2.0
 * The focal loss and the L1 loss of one value, which the CPU's loops and the CUDA kernels share. */
#ifndef STK_RAGGED_LOSS_MATH_H
#define STK_RAGGED_LOSS_MATH_H

#include "ragged/items.h"
#include "stoker/batching.h"

#include <math.h>

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
