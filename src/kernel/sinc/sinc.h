/* SPDX-License-Identifier: Apache-2.0
 *
 * Resamples signals with a windowed sinc: a sample of the input at distance d (in samples of the input) from the output's position has the weight
 * c sinc(c d) (1 + cos(pi c d / width)) / 2, up to `lobes` / c samples on each side. The width is lobes + 1/64, as in DALI. c is the cutoff, as a share of half
 * the input's rate. With a cutoff of 1, as in DALI, a signal that is resampled to a lower rate keeps its aliases. The ratio of the rates as the cutoff removes
 * them, except close to half the output's rate.
 *
 * Weights come from a table with a row for each phase. The phase of an output is its distance from the last input sample at or before it. If both rates are
 * whole numbers and outputs have only few different phases, the table has a row for each of these. Otherwise it has rows for STK_SINC_STEPS phases, and a
 * weight is interpolated between two rows, which changes it by less than 2e-6. Positions are computed in integers in the first case, and in double in the
 * second.
 *
 * Samples of integer types stand for numbers from -1 to 1: signed ones are divided by their largest value, unsigned ones are mapped linearly from 0 ..
 * largest. Each output is the sum of eight partial sums in float32, one for each tap number modulo 8, so that all implementations give the same bits. */
#ifndef STK_KERNEL_SINC_H
#define STK_KERNEL_SINC_H

#include "kernel/job/job_place.h"

#include <math.h>

enum { STK_SINC_LANES = 8, STK_SINC_STEPS = 512 };

/* The parameters. Output i is at position i * up / phases of the input, in samples, or at i * ratio if phases is 0. */
struct stk_sinc {
	int64_t in, out;    /* number of samples of each channel, in the input and in the output */
	int64_t channels;   /* number of channels, whose samples are interleaved */
	int64_t up, phases; /* the ratio of the rates as a reduced fraction up / phases; phases is 0 if `ratio` is used */
	double ratio;       /* the input's rate divided by the output's */
	int32_t reach,
		taps; /* reach: number of samples on each side of an output that have weights; taps: length of a table's row, a multiple of
				STK_SINC_LANES; weights after the first 2 * reach are 0 */
};
STK_PARAMS_FIT(stk_sinc);

/* A filter. lobes: number of lobes on each side; cutoff: above 0, at most 1. */
struct stk_sinc_filter {
	int32_t lobes;
	double cutoff;
};

/* Returns the number of samples on each side of an output that have weights. lobes / cutoff must be below 2^24. */
static inline int32_t stk__sinc_reach(struct stk_sinc_filter f)
{
	return (int32_t)ceil(f.lobes / f.cutoff);
}

/* Return the length of a table's row, and the number of rows in a table. */
static inline int32_t stk__sinc_taps(int32_t reach)
{
	return (2 * reach + STK_SINC_LANES - 1) / STK_SINC_LANES * STK_SINC_LANES;
}

static inline int64_t stk__sinc_rows(int64_t phases)
{
	return phases > 0 ? phases : STK_SINC_STEPS + 1;
}

/* Computes a table: stk__sinc_rows(phases) rows of stk__sinc_taps(stk__sinc_reach(f)) weights. */
void stk__sinc_table(struct stk_sinc_filter f, int64_t phases, float *table);

/* Makes a job that resamples `in`. table: made by stk__sinc_table for p->phases, with rows of p->taps weights. */
STK_MUST_USE enum stk_status stk__job_sinc(struct stk_jobs *jobs, const struct stk_sinc *p, const float *table, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);

/* Runs the job on the CPU. job->work must have space for the samples of all channels as floats. _avx2: the same source, compiled for AVX2. */
void stk__sinc_run(const struct stk_job *job);
void stk__sinc_run_avx2(const struct stk_job *job);

/* The position of an output: index of the first sample that it needs, row of the table, and part (0 to 1) of the way from this row to the next one. */
struct stk_sinc_at {
	int64_t first, row;
	float part;
};

STK_HD struct stk_sinc_at stk__sinc_at(const struct stk_sinc *p, int64_t i)
{
	struct stk_sinc_at at;
	int64_t whole;
	at.part = 0;
	if (p->phases > 0) {
		whole = i * p->up / p->phases;
		at.row = i * p->up - whole * p->phases;
	} else {
		double position = (double)i * p->ratio, floor_of = floor(position), step = (position - floor_of) * STK_SINC_STEPS;
		whole = (int64_t)floor_of;
		at.row = (int64_t)step;
		at.part = (float)(step - (double)at.row);
	}
	at.first = whole + 1 - p->reach;
	return at;
}

/* Returns the largest value of an integer type of at most 32 bits; 0 for other types. */
STK_HD float stk__sinc_largest(int32_t dtype)
{
	switch (dtype) {
	case STK_INT8:
		return 127;
	case STK_UINT8:
		return 255;
	case STK_INT16:
		return 32767;
	case STK_UINT16:
		return 65535;
	case STK_INT32:
		return 2147483647.0f;
	case STK_UINT32:
		return 4294967295.0f;
	default:
		return 0;
	}
}

STK_HD bool stk__sinc_unsigned(int32_t dtype)
{
	return dtype == STK_UINT8 || dtype == STK_UINT16 || dtype == STK_UINT32;
}

/* Returns x, a sample of an integer type, scaled to -1 .. 1. scale: 1 / stk__sinc_largest, or 2 / stk__sinc_largest for unsigned types. */
STK_HD float stk__sinc_load(float x, float scale, bool is_unsigned)
{
	return is_unsigned ? x * scale - 1 : x * scale;
}

/* Returns x, from -1 to 1, scaled to the range of an integer type, without rounding. largest: stk__sinc_largest of the type. */
STK_HD float stk__sinc_store(float x, float largest, bool is_unsigned)
{
	return is_unsigned ? (x + 1) * (largest * 0.5f) : x * largest;
}

STK_HD float stk__sinc_join(const float *s)
{
	float a = s[0] + s[4], b = s[1] + s[5], c = s[2] + s[6], d = s[3] + s[7];
	return (a + c) + (b + d);
}

#endif
