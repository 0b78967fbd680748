/* SPDX-License-Identifier: Apache-2.0
 * Losses of matched predictions on CUDA. One thread block sums the loss of a sample; gradients have a grid of (samples, parts of a sample). */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"
#include "ragged/loss_math.h"

#define THREADS STK_LOSS_THREADS
#define QUERIES STK_LOSS_QUERIES

/* Returns in thread 0 the sum of the values of all threads of the block, added in a fixed order. */
STK_DEVICE float block_sum(float value)
{
	__shared__ float sums[THREADS];
	int32_t lane = (int32_t)threadIdx.x;
	sums[lane] = value;
	__syncthreads();
	for (int32_t half = THREADS / 2; half > 0; half /= 2) {
		if (lane < half)
			sums[lane] += sums[lane + half];
		__syncthreads();
	}
	return sums[0];
}

/* ---- focal loss ---- */

/* Stores the classes of queries begin .. begin + count - 1 of sample s in `classes`, which is shared memory: -1 for a query without a class. counts: whether
 * this call counts the pairs that are out of range. */
STK_DEVICE void find_classes(const struct stk_focal *f, int64_t s, uint32_t begin, uint32_t count, bool counts, int32_t *classes)
{
	const struct stk_matches *m = &f->matches;
	const int64_t pairs = stk__pairs_of(m, s), labels = s % m->lists * m->targets;
	int64_t query, target;
	__syncthreads(); /* the classes of the part before must have been read */
	for (uint32_t i = threadIdx.x; i < count; i += THREADS)
		classes[i] = -1;
	__syncthreads();
	for (int64_t j = threadIdx.x; j < pairs; j += THREADS) {
		bool found = stk__pair(m, f->queries, s, j, &query, &target);
		if (!found && counts)
			refuse(m->refused);
		if (found && query >= begin && query - begin < count)
			atomicMax(&classes[query - begin], (int32_t)j);
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
		if (classes[i] < 0)
			continue;
		stk__pair(m, f->queries, s, classes[i], &query, &target);
		int64_t label = stk__load_index(f->labels, f->label_bytes, labels + target);
		classes[i] = label >= 0 && label < f->classes ? (int32_t)label : -1;
	}
	__syncthreads();
}

STK_KERNEL void ragged_focal(struct stk_focal_launch a)
{
	const struct stk_focal &f = a.f;
	__shared__ int32_t class_of[QUERIES];
	const uint32_t classes = (uint32_t)f.classes, queries = (uint32_t)f.queries; /* 64-bit divisions are slow */
	int64_t s = blockIdx.x;
	float sum = 0;
	for (uint32_t begin = 0; begin < queries; begin += QUERIES) {
		uint32_t count = min(queries - begin, (uint32_t)QUERIES), n = count * classes;
		int64_t first = (s * queries + begin) * classes;
		find_classes(&f, s, begin, count, begin == 0, class_of);
		for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
			uint32_t query = i / classes;
			bool hot = class_of[query] == (int32_t)(i - query * classes);
			sum += stk__focal(&f, stk__load_float(f.logits, f.dtype, first + i), hot, NULL);
		}
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		f.loss[s] = f.mean ? sum / stk__divisor(stk__pairs_of(&f.matches, s)) : sum;
}

STK_KERNEL void ragged_focal_grad(struct stk_focal_launch a)
{
	const struct stk_focal &f = a.f;
	__shared__ int32_t class_of[QUERIES];
	const uint32_t classes = (uint32_t)f.classes, queries = (uint32_t)f.queries, step = (uint32_t)a.part;
	int64_t s = blockIdx.x;
	float scale = f.scale[s * f.scale_stride] / (f.mean ? stk__divisor(stk__pairs_of(&f.matches, s)) : 1.0f);
	for (uint32_t begin = blockIdx.y * step; begin < queries; begin += gridDim.y * step) {
		uint32_t count = min(queries - begin, step), n = count * classes;
		int64_t first = (s * queries + begin) * classes;
		find_classes(&f, s, begin, count, false, class_of);
		for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
			float slope;
			uint32_t query = i / classes;
			bool hot = class_of[query] == (int32_t)(i - query * classes);
			stk__focal(&f, stk__load_float(f.logits, f.dtype, first + i), hot, &slope);
			stk__store_float(f.grad, f.dtype, first + i, scale * slope);
		}
	}
}

/* ---- L1 loss ---- */

/* Sets *at to the index in `boxes` of value i of the pairs of sample s, in which pairs follow one another. Sets *difference to that value minus the target's.
 * Returns false if the pair's indices are out of range. counts: whether this call counts such pairs. */
STK_DEVICE bool find_difference(const struct stk_l1 *l, int64_t s, uint32_t i, bool counts, int64_t *at, float *difference)
{
	uint32_t values = (uint32_t)l->values, j = i / values, value = i - j * values;
	int64_t query, target;
	if (!stk__pair(&l->matches, l->queries, s, j, &query, &target)) {
		if (counts && value == 0)
			refuse(l->matches.refused);
		return false;
	}
	*at = (s * l->queries + query) * values + value;
	*difference = l->boxes[*at] - l->target_boxes[(s % l->matches.lists * l->matches.targets + target) * values + value];
	return true;
}

STK_KERNEL void ragged_l1(struct stk_l1 l)
{
	int64_t s = blockIdx.x, pairs = stk__pairs_of(&l.matches, s), at;
	const uint32_t n = (uint32_t)(pairs * l.values);
	float sum = 0, difference;
	for (uint32_t i = threadIdx.x; i < n; i += THREADS)
		if (find_difference(&l, s, i, true, &at, &difference))
			sum += fabsf(difference);
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		l.loss[s] = l.mean ? sum / stk__divisor(pairs) : sum;
}

/* First counts in `grad` the signs of the differences, which are exact in any order if a query has several pairs. Then multiplies them by the scale. */
STK_KERNEL void ragged_l1_grad(struct stk_l1 l)
{
	int64_t s = blockIdx.x, pairs = stk__pairs_of(&l.matches, s), at;
	const uint32_t n = (uint32_t)(pairs * l.values), all = (uint32_t)(l.queries * l.values);
	/* A part is a range of the sample's values. Only this thread block writes to it. */
	const uint32_t part = (all + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * part, end = min(begin + part, all);
	float scale = l.scale[s * l.scale_stride] / (l.mean ? stk__divisor(pairs) : 1.0f), difference, *grad = l.grad + s * all;
	for (uint32_t i = begin + threadIdx.x; i < end; i += THREADS)
		grad[i] = 0;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
		if (!find_difference(&l, s, i, false, &at, &difference) || difference == 0)
			continue;
		uint32_t k = (uint32_t)(at - s * all);
		if (k >= begin && k < end)
			atomicAdd(&grad[k], stk__sign(difference));
	}
	__syncthreads();
	for (uint32_t i = begin + threadIdx.x; i < end; i += THREADS)
		if (grad[i] != 0)
			grad[i] *= scale;
}
