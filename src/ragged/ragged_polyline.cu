/* SPDX-License-Identifier: Apache-2.0
 * Polylines on CUDA. One thread block sums the segments of a polyline; then each thread makes one sample. */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"
#include "ragged/polyline_body.h"

#define THREADS STK_POLYLINE_THREADS

/* Fills p.along, of shape (batch, points), with the distance of each point from its polyline's first point, along the line. Also stores the lengths. */
STK_KERNEL void ragged_polyline_along(struct stk_polyline p)
{
	__shared__ double sums[THREADS];
	int64_t b = blockIdx.x, n = stk__size_of(p.sizes, b, p.points);
	double *along = p.along + b * p.points, base = 0;
	int32_t lane = (int32_t)threadIdx.x;
	if (lane == 0 && n > 0)
		along[0] = 0;
	for (int64_t first = 0; first + 1 < n; first += THREADS) {
		int64_t i = first + lane;
		sums[lane] = i + 1 < n ? stk__segment_length(&p, b, i) : 0;
		__syncthreads();
		for (int32_t step = 1; step < THREADS; step *= 2) {
			double before = lane >= step ? sums[lane - step] : 0;
			__syncthreads();
			sums[lane] += before;
			__syncthreads();
		}
		if (i + 1 < n)
			along[i + 1] = base + sums[lane];
		base += sums[THREADS - 1];
		__syncthreads();
	}
	if (lane == 0 && p.length)
		stk__store_float(p.length, p.dtype, b, n > 1 ? along[n - 1] : 0);
}

STK_KERNEL void ragged_polyline_at(struct stk_polyline p)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= p.batch * p.samples)
		return;
	int64_t b = i / p.samples;
	stk__polyline_sample(&p, b, stk__size_of(p.sizes, b, p.points), p.along + b * p.points, i - b * p.samples);
}
