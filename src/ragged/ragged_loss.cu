/* SPDX-License-Identifier: Apache-2.0
 * Losses of matched predictions on CUDA. One thread block sums the loss of a sample; gradients have a grid of (samples, parts of a sample). */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"
#include "ragged/loss_math.h"

#define THREADS STK_LOSS_THREADS

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

/* Returns whether value i of sample s belongs to the class of its query. */
STK_DEVICE int32_t is_hot(const struct stk_focal *f, int64_t s, uint32_t i, uint32_t classes)
{
	uint32_t query = i / classes;
	return stk__load_index(f->labels, f->label_bytes, s * f->queries + query) == (int64_t)(i - query * classes);
}

STK_KERNEL void ragged_focal(struct stk_focal f)
{
	const uint32_t classes = (uint32_t)f.classes, n = (uint32_t)f.queries * classes; /* below 2^31: 64-bit divisions are slow */
	int64_t s = blockIdx.x, first = s * n;
	float sum = 0;
	for (uint32_t i = threadIdx.x; i < n; i += THREADS)
		sum += stk__focal(&f, stk__load_float(f.logits, f.dtype, first + i), is_hot(&f, s, i, classes), NULL);
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		f.loss[s] = f.pairs ? sum / stk__divisor(f.pairs[s]) : sum;
}

STK_KERNEL void ragged_focal_grad(struct stk_focal f)
{
	const uint32_t classes = (uint32_t)f.classes, n = (uint32_t)f.queries * classes;
	int64_t s = blockIdx.x, first = s * n;
	float scale = f.scale[s * f.scale_stride] / (f.pairs ? stk__divisor(f.pairs[s]) : 1.0f);
	for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < n; i += gridDim.y * THREADS) {
		float slope;
		stk__focal(&f, stk__load_float(f.logits, f.dtype, first + i), is_hot(&f, s, i, classes), &slope);
		stk__store_float(f.grad, f.dtype, first + i, scale * slope);
	}
}

STK_KERNEL void ragged_l1(struct stk_l1 l)
{
	int64_t s = blockIdx.x, pairs = stk__size_of(l.sizes, s, l.pairs), n = l.pairs * l.values, first = s * n, used = pairs * l.values;
	float divisor = l.mean ? stk__divisor(pairs) : 1.0f, sum = 0;
	float scale = l.grad ? l.scale[s * l.scale_stride] / divisor : 0;
	for (int64_t i = threadIdx.x; i < n; i += THREADS) {
		float difference = i < used ? l.ours[first + i] - l.theirs[first + i] : 0;
		sum += fabsf(difference);
		if (l.grad)
			l.grad[first + i] = i < used ? scale * stk__sign(difference) : 0;
	}
	if (!l.loss)
		return;
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		l.loss[s] = sum / divisor;
}
