/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums (bands.h) of several columns at once: each lane of a vector is one column. */
#ifndef STK_KERNEL_BANDS_LANES_H
#define STK_KERNEL_BANDS_LANES_H

#include "kernel/bands/bands.h"
#include "kernel/common/lanes.h"

/* Computes one vector of columns. x: the input, one vector for each bin; y: gets one vector for each row. */
static inline void stk__bands_sum_lanes(const struct stk_job *job, const stk_lanes *x, stk_lanes *y)
{
	const struct stk_band *bands = job->constants;
	const float *weights = stk__bands_weights(job);
	for (int64_t row = 0; row < STK_PARAMS(stk_bands, job).rows; row++) {
		const float *w = weights + bands[row].at;
		const stk_lanes *from = x + bands[row].first;
		stk_lanes sum = {0};
		for (int32_t k = 0; k < bands[row].count; k++)
			sum += from[k] * w[k];
		y[row] = sum;
	}
}

#endif
