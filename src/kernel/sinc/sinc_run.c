/* SPDX-License-Identifier: Apache-2.0
 * Resampling of signals on the CPU. The lanes of a vector hold eight taps of one output. */
#include "kernel/common/lanes.h"
#include "kernel/convert/convert.h"
#include "kernel/sinc/sinc.h"

enum { BLOCK = 512 };

/* Converts the interleaved samples to floats, in the range -1 .. 1 for integer types, and stores channel after channel. */
static void load_channels(const struct stk_job *job, float *to)
{
	const struct stk_sinc *p = &STK_PARAMS(stk_sinc, job);
	enum stk_dtype dtype = (enum stk_dtype)job->src_dtype[0];
	float largest = stk__sinc_largest(dtype), block[BLOCK];
	bool is_unsigned = stk__sinc_unsigned(dtype);
	int64_t n = p->in * p->channels, channel = 0, sample = 0;
	for (int64_t i = 0, count; i < n; i += count) {
		count = n - i < BLOCK ? n - i : BLOCK;
		stk__convert(block, STK_FLOAT, job->src[0] + i * stk__job_size(dtype), dtype, count);
		for (int64_t k = 0; k < count && largest > 0; k++)
			block[k] = stk__sinc_load(block[k], (is_unsigned ? 2 : 1) / largest, is_unsigned);
		if (p->channels == 1)
			memcpy(to + i, block, sizeof *block * (size_t)count);
		for (int64_t k = 0; k < count && p->channels > 1; k++) {
			to[channel * p->in + sample] = block[k];
			if (++channel == p->channels) {
				channel = 0;
				sample++;
			}
		}
	}
}

STK_LANES_INLINE float sum_row(const float *x, const float *row, int32_t taps)
{
	stk_lanes sum = {0}, a, w;
	float parts[STK_LANES];
	for (int32_t k = 0; k < taps; k += STK_LANES) {
		memcpy(&a, x + k, sizeof a);
		memcpy(&w, row + k, sizeof w);
		sum += a * w;
	}
	memcpy(parts, &sum, sizeof parts);
	return stk__sinc_join(parts);
}

/* Returns one output, computed from samples x[0 .. taps - 1] of the input. row: the output's row of the table. */
STK_LANES_INLINE float sum_taps(const struct stk_sinc *p, const struct stk_sinc_at *at, const float *x, const float *row)
{
	float sum = sum_row(x, row, p->taps);
	return p->phases > 0 ? sum : sum + at->part * (sum_row(x, row + p->taps, p->taps) - sum);
}

/* Does what sum_row does, for samples from number `first` on. Samples before the start of the signal and after its end count as 0. */
static float sum_row_at_border(const struct stk_sinc *p, const float *signal, int64_t first, const float *row)
{
	stk_lanes sum = {0}, a, w;
	float x[STK_LANES];
	for (int32_t k = 0; k < p->taps; k += STK_LANES) {
		for (int32_t l = 0; l < STK_LANES; l++) {
			int64_t i = first + k + l;
			x[l] = i >= 0 && i < p->in ? signal[i] : 0;
		}
		memcpy(&a, x, sizeof a);
		memcpy(&w, row + k, sizeof w);
		sum += a * w;
	}
	memcpy(x, &sum, sizeof x);
	return stk__sinc_join(x);
}

static float sum_at_border(const struct stk_sinc *p, const struct stk_sinc_at *at, const float *signal, const float *row)
{
	float sum = sum_row_at_border(p, signal, at->first, row);
	return p->phases > 0 ? sum : sum + at->part * (sum_row_at_border(p, signal, at->first, row + p->taps) - sum);
}

/* Computes n outputs of a channel, from number `first` on. signal: the channel as floats. */
static void resample(const struct stk_job *job, const float *signal, int64_t first, int64_t n, float *to)
{
	const struct stk_sinc *p = &STK_PARAMS(stk_sinc, job);
	const float *table = job->constants;
	for (int64_t i = 0; i < n; i++) {
		const struct stk_sinc_at at = stk__sinc_at(p, first + i);
		const float *row = table + at.row * p->taps;
		bool inside = at.first >= 0 && at.first + p->taps <= p->in;
		to[i] = inside ? sum_taps(p, &at, signal + at.first, row) : sum_at_border(p, &at, signal, row);
	}
}

void stk__sinc_run(const struct stk_job *job)
{
	const struct stk_sinc *p = &STK_PARAMS(stk_sinc, job);
	enum stk_dtype dtype = (enum stk_dtype)job->dst_dtype;
	float largest = stk__sinc_largest(dtype), block[BLOCK];
	bool is_unsigned = stk__sinc_unsigned(dtype), plain = job->src_dtype[0] == STK_FLOAT && p->channels == 1;
	const float *signals = plain ? (const float *)(const void *)job->src[0] : job->work;
	int32_t size = stk__job_size(dtype);
	if (!plain)
		load_channels(job, job->work);
	for (int64_t c = 0; c < p->channels; c++)
		for (int64_t i = 0, n; i < p->out; i += n) {
			n = p->out - i < BLOCK ? p->out - i : BLOCK;
			resample(job, signals + c * p->in, i, n, block);
			for (int64_t k = 0; k < n && largest > 0; k++)
				block[k] = stk__sinc_store(block[k], largest, is_unsigned);
			if (p->channels == 1)
				stk__convert(job->dst + i * size, dtype, block, STK_FLOAT, n);
			for (int64_t k = 0; k < n && p->channels > 1; k++)
				stk__convert_one(job->dst + ((i + k) * p->channels + c) * size, dtype, &block[k], STK_FLOAT);
		}
}
