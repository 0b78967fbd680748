/* SPDX-License-Identifier: Apache-2.0
 * Functions that the CPU's loop and the CUDA kernels share: they compute the length of a segment, and the point at a distance along a polyline. */
#ifndef STK_RAGGED_POLYLINE_BODY_H
#define STK_RAGGED_POLYLINE_BODY_H

#include "ragged/items.h"
#include "stoker/batching.h"

#include <math.h>

/* Returns the length of the segment from point i of polyline b to the next point. */
static STK_BOTH double stk__segment_length(const struct stk_polyline *p, int64_t b, int64_t i)
{
	int64_t at = (b * p->points + i) * p->dims;
	double sum = 0;
	for (int64_t d = 0; d < p->dims; d++) {
		double step = stk__load_double(p->point, p->dtype, at + p->dims + d) - stk__load_double(p->point, p->dtype, at + d);
		sum += step * step;
	}
	return sqrt(sum);
}

/* Returns the last point of 0 .. n-2 that is not farther than `distance`; 0 if all of them are farther. along: the distances of the n points, which never
 * decrease. Each step adds a masked offset instead of branching, because a processor cannot predict the branches of a search. */
static STK_BOTH int64_t stk__segment_of(const double *along, int64_t n, double distance)
{
	int64_t low = 0;
	for (int64_t left = n - 1; left > 1;) {
		int64_t half = left / 2;
		low += -(int64_t)(along[low + half] <= distance) & half;
		left -= half;
	}
	return low;
}

/* Computes sample j of polyline b, which has n points, and stores it in p->out: NaN if n is 0, and 0 from p->sample_sizes[b] on. along[i]: distance of point i
 * from the start along the polyline. */
static STK_BOTH void stk__polyline_sample(const struct stk_polyline *p, int64_t b, int64_t n, const double *along, int64_t j)
{
	int64_t out = (b * p->samples + j) * p->dims, first = b * p->points * p->dims, from = 0, to = 0;
	double share = 0;
	if (n == 0 || j >= stk__size_of(p->sample_sizes, b, p->samples)) {
		double filler = j >= stk__size_of(p->sample_sizes, b, p->samples) ? 0.0 : (double)NAN;
		for (int64_t d = 0; d < p->dims; d++)
			stk__store_float(p->out, p->dtype, out + d, filler);
		return;
	}
	double total = along[n - 1], distance = stk__load_double(p->distance, p->dtype, b * p->samples + j);
	if (p->relative) /* clamped before the product, which is NaN for an infinite share of length 0, and for share 0 of an infinite length */
		distance = distance <= 0 ? 0 : distance >= 1 ? total : distance * total;
	if (distance >= total && distance > 0) {
		from = to = n - 1;
	} else if (distance <= 0) {
		from = to = 0;
	} else if (n > 1) {
		from = stk__segment_of(along, n, distance);
		to = from + 1;
		share = (distance - along[from]) / (along[to] - along[from]);
	} else {
		share = distance; /* a NaN, for which the comparisons above are false */
	}
	for (int64_t d = 0; d < p->dims; d++) {
		double a = stk__load_double(p->point, p->dtype, first + from * p->dims + d);
		double step = stk__load_double(p->point, p->dtype, first + to * p->dims + d) - a;
		stk__store_float(p->out, p->dtype, out + d, from == to && share == 0 ? a : a + share * step);
	}
}

#endif
