/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts magnitudes or powers, in float32, to decibels: multiplier * log10(x / reference), where the ratio is at least `least`. */
#ifndef STK_KERNEL_DECIBELS_H
#define STK_KERNEL_DECIBELS_H

#include "kernel/job/job_place.h"

struct stk_decibels {
	float factor;    /* multiplier * log10(2): multiplies the binary logarithm */
	float least;     /* minimum of the ratio x / reference */
	float reference; /* 0: use the largest value of the tensor, or 1 if no value is above 0 */
	bool keep_nan;   /* a ratio that is NaN stays NaN; otherwise it becomes `least` */
};
STK_PARAMS_FIT(stk_decibels);

/* Makes a job that converts `in`. in and out are float32 tensors with the same number of elements. */
STK_MUST_USE enum stk_status stk__job_decibels(struct stk_jobs *jobs, const struct stk_decibels *p, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err);

/* Run a job on the CPU. The _avx2 function is the same source, compiled for AVX2. */
void stk__decibels_run(const struct stk_job *job);
void stk__decibels_run_avx2(const struct stk_job *job);

/* Return the bits of a float, and the float with given bits. */
STK_HD uint32_t stk__decibels_bits(float x)
{
	union {
		float f;
		uint32_t u;
	} v;
	v.f = x;
	return v.u;
}

STK_HD float stk__decibels_float(uint32_t bits)
{
	union {
		uint32_t u;
		float f;
	} v;
	v.u = bits;
	return v.f;
}

/* Returns the binary logarithm of a number that is not negative, with an absolute or relative error of at most 1.5e-7. Writes x as m * 2^e, with m from
 * sqrt(1/2) to sqrt(2), and computes log m = 2 atanh((m - 1) / (m + 1)) with a polynomial. The loop on the CPU does the same in lanes. */
STK_HD float stk__decibels_log2(float x)
{
	bool small = x < 0x1p-126f;
	float scaled = small ? x * 0x1p24f : x;
	uint32_t bits = stk__decibels_bits(scaled), shifted = bits - 0x3f3504f3u;   /* subtracts the bits of sqrt(1/2) */
	int32_t exponent = (int32_t)(shifted >> 23) - (shifted >> 31 ? 1 << 9 : 0); /* the arithmetic shift (int32_t)shifted >> 23 */
	float m = stk__decibels_float(bits - ((uint32_t)exponent << 23)), t = (m - 1) / (m + 1), z = t * t;
	float series = 2.88539008f + z * (0.961796694f + z * (0.577078016f + z * (0.412198583f + z * 0.320598898f)));
	float result = (float)(exponent - (small ? 24 : 0)) + t * series;
	return bits == 0 || bits >= 0x7f800000u ? (bits == 0 ? stk__decibels_float(0xff800000u) : x) : result;
}

/* Returns x in decibels. reference: p->reference, or if that is 0, the value that replaces it. */
STK_HD float stk__decibels_one(const struct stk_decibels *p, float reference, float x)
{
	float ratio = x / reference;
	return p->factor * stk__decibels_log2(ratio > p->least || (p->keep_nan && ratio != ratio) ? ratio : p->least);
}

#endif
