/* SPDX-License-Identifier: Apache-2.0
 * Computes one value of a filter (filter.h), in C and CUDA. The GPU uses these functions for filters that can run neither in tiles nor in columns of words
 * (filter_gpu.cu), and tests compare the CPU's loops with them. */
#ifndef STK_KERNEL_FILTER_ELEMENT_H
#define STK_KERNEL_FILTER_ELEMENT_H

#include "kernel/convert/convert_one.h"
#include "kernel/filter/filter.h"
#include "kernel/job/job_place.h"

/* Sets `axes` to the axes along which the filter is applied, in order, and returns their number. Each axis is a phase. The last phase makes outputs; each
 * earlier one makes n_terms times as many values. A dense filter has one phase. */
STK_HD int stk__filter_phases(const struct stk_filter *f, int axes[STK_FILTER_PHASES])
{
	int n = 0;
	for (int a = 2; !f->dense && a > f->last; a--) {
		bool wide = false;
		for (int t = 0; t < f->n_terms; t++)
			wide |= f->window[t][a].size > 1;
		if (wide)
			axes[n++] = a;
	}
	axes[n++] = f->last;
	return n;
}

/* Returns the size in bytes of the values between phases: each phase except the last stores one set of them. */
STK_HD uint64_t stk__filter_work(const struct stk_filter *f)
{
	int axes[STK_FILTER_PHASES];
	uint64_t set = (uint64_t)(f->outer * stk__filter_volume(f, f->out)) * (uint64_t)f->n_terms * sizeof(float);
	return set * (uint64_t)(stk__filter_phases(f, axes) - 1);
}

/* Returns an integer for a float (its rank), such that larger floats have larger ranks. */
STK_HD uint32_t stk__filter_rank(float x)
{
	union {
		float f;
		uint32_t u;
	} bits;
	bits.f = x;
	return bits.u & 0x80000000u ? ~bits.u : bits.u | 0x80000000u;
}

STK_HD float stk__filter_of_rank(uint32_t rank)
{
	union {
		float f;
		uint32_t u;
	} bits;
	bits.u = rank & 0x80000000u ? rank & 0x7fffffffu : ~rank;
	return bits.f;
}

/* Returns x, or for every NaN the same NaN, which is ordered after all numbers. Processors produce NaNs with different signs, and medians compare bits. */
STK_HD float stk__filter_one_nan(float x)
{
	return x == x ? x : stk__filter_of_rank(0xffc00000u);
}

STK_HD float stk__filter_load(const uint8_t *src, int64_t i, int dtype)
{
	float x;
	switch (dtype) {
	case STK_UINT8:
		return (float)src[i];
	case STK_FLOAT:
		return stk__filter_one_nan(((const float *)(const void *)src)[i]);
	case STK_UINT16:
	case STK_INT16:
	case STK_FLOAT16:
	case STK_BFLOAT16:
		src += 2 * i;
		break;
	case STK_UINT32:
	case STK_INT32:
		src += 4 * i;
		break;
	case STK_UINT64:
	case STK_INT64:
	case STK_FLOAT64:
		src += 8 * i;
		break;
	default:
		src += i;
	}
	stk__convert_one(&x, STK_FLOAT, src, dtype);
	return stk__filter_one_nan(x);
}

STK_HD float stk__filter_fill(const struct stk_filter *f, int dtype)
{
	return f->fill_at ? stk__filter_load((const uint8_t *)f->fill_at, 0, dtype) : f->fill;
}

/* Returns the sum, minimum or maximum of x and `before`, which is the result for the previous values. */
STK_HD float stk__filter_take(int reduction, float before, float x)
{
	if (reduction == STK_FILTER_SUM)
		return before + x;
	return reduction == STK_FILTER_LEAST ? (x < before ? x : before) : (x > before ? x : before);
}

/* The position of an output, and the volume that it reads. */
struct stk_filter_place {
	int64_t volume; /* index of the volume's first input */
	int32_t p[STK_FILTER_AXES], channel;
};

STK_HD struct stk_filter_place stk__filter_place(const struct stk_filter *f, uint32_t i)
{
	struct stk_filter_place at;
	uint32_t rest = i / (uint32_t)f->channels;
	at.channel = (int32_t)(i - rest * (uint32_t)f->channels);
	for (int a = 2; a >= 0; a--) {
		uint32_t next = rest / (uint32_t)f->out[a];
		at.p[a] = (int32_t)(rest - next * (uint32_t)f->out[a]);
		rest = next;
	}
	at.volume = (int64_t)rest * stk__filter_volume(f, f->in);
	return at;
}

/* Returns the input value at the k-th position of a dense window, or the fill value if the position is outside of the image. */
STK_HD float stk__filter_dense_value(
	const struct stk_filter *f, const struct stk_filter_data *d, const struct stk_filter_place *at, int32_t k)
{
	const struct stk_filter_window *w = f->window[0];
	int32_t x = k % w[2].size, y = k / w[2].size % w[1].size, z = k / w[2].size / w[1].size;
	z = stk__border_index(at->p[0] + w[0].first + z, f->in[0], f->border);
	y = stk__border_index(at->p[1] + w[1].first + y, f->in[1], f->border);
	x = stk__border_index(at->p[2] + w[2].first + x, f->in[2], f->border);
	if ((z | y | x) < 0)
		return stk__filter_fill(f, d->src_dtype);
	int64_t row = (int64_t)z * f->in[1] + y;
	return stk__filter_load(d->src, at->volume + (row * f->in[2] + x) * f->channels + at->channel, d->src_dtype);
}

/* Returns the median of the `places` values (an odd number) of a window. Finds the bits of the median's rank one by one, from the highest. */
STK_HD float stk__filter_median(
	const struct stk_filter *f, const struct stk_filter_data *d, const struct stk_filter_place *at, int32_t places)
{
	uint32_t rank = 0;
	for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
		int32_t below = 0;
		for (int32_t k = 0; k < places; k++)
			below += stk__filter_rank(stk__filter_dense_value(f, d, at, k)) < (rank | bit);
		rank |= below <= places / 2 ? bit : 0;
	}
	return stk__filter_of_rank(rank);
}

STK_HD float stk__filter_dense(const struct stk_filter *f, const struct stk_filter_data *d, uint32_t i)
{
	const struct stk_filter_window *w = f->window[0];
	struct stk_filter_place at = stk__filter_place(f, i);
	int32_t places = w[0].size * w[1].size * w[2].size;
	if (f->reduction == STK_FILTER_MEDIAN)
		return stk__filter_median(f, d, &at, places);
	float value = 0;
	for (int32_t k = 0; k < places; k++) {
		float x = stk__filter_dense_value(f, d, &at, k);
		x = f->reduction == STK_FILTER_SUM ? d->weights[k] * x : x;
		value = k ? stk__filter_take(f->reduction, value, x) : x;
	}
	return value;
}

/* Returns value i of a phase: the windows of terms begin .. end - 1 along one axis, applied to `from`, the previous phase's values (NULL: to the input). */
STK_HD float stk__filter_line(
	const struct stk_filter *f, const struct stk_filter_data *d, int axis, const float *from, int begin, int end, uint32_t i)
{
	struct stk_filter_place at = stk__filter_place(f, i);
	int64_t step = f->channels, n = f->outer * stk__filter_volume(f, f->out);
	for (int a = 2; a > axis; a--)
		step *= f->in[a];
	float value = 0;
	bool first = true;
	for (int t = begin; t < end; t++) {
		const struct stk_filter_window w = f->window[t][axis];
		for (int32_t k = 0; k < w.size; k++) {
			int32_t p = stk__border_index(at.p[axis] + w.first + k, f->in[axis], f->border);
			int64_t index = (int64_t)i + ((int64_t)p - at.p[axis]) * step;
			float x = p < 0  ? stk__filter_fill(f, d->src_dtype)
				  : from ? from[t * n + index]
					 : stk__filter_load(d->src, index, d->src_dtype);
			x = f->reduction == STK_FILTER_SUM ? d->weights[w.weights + k] * x : x;
			value = first ? x : stk__filter_take(f->reduction, value, x);
			first = false;
		}
	}
	return value;
}

/* Computes and stores value i of the phase along `axis`. phase: index of this phase; phases: number of phases. In the last phase the value is output i; in
 * others it belongs to term i / (number of outputs). */
STK_HD void stk__filter_one(const struct stk_filter *f, const struct stk_filter_data *d, int axis, int phase, int phases, uint32_t i)
{
	uint32_t n = (uint32_t)(f->outer * stk__filter_volume(f, f->out));
	int64_t set = (int64_t)n * f->n_terms;
	const float *from = phase ? d->work + (phase - 1) * set : 0;
	if (phase < phases - 1) {
		int term = (int)(i / n);
		d->work[phase * set + i] = stk__filter_line(f, d, axis, from, term, term + 1, i - (uint32_t)term * n);
		return;
	}
	float value = f->dense ? stk__filter_dense(f, d, i) : stk__filter_line(f, d, axis, from, 0, f->n_terms, i);
	stk__convert_one(d->dst + (int64_t)i * d->dst_size, d->dst_dtype, &value, STK_FLOAT);
}

/* Returns the addresses, types and element sizes of a filter job's memory. */
STK_HD struct stk_filter_data stk__job_filter_data(const struct stk_job *job)
{
	struct stk_filter_data d;
	d.src = job->src[0];
	d.dst = job->dst;
	d.weights = job->constant_bytes ? (const float *)job->constants : (const float *)(const void *)job->src[1];
	d.work = (float *)job->work;
	d.src_dtype = job->src_dtype[0];
	d.dst_dtype = job->dst_dtype;
	d.src_size = stk__job_size(d.src_dtype);
	d.dst_size = stk__job_size(d.dst_dtype);
	return d;
}

#endif
