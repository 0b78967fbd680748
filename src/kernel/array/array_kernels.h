/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of array jobs that gain from wide registers: those that convert or compute. They are the same source, compiled once more for a processor that has
 * such registers (array_avx2.h), so that the bits are the same. Copies that convert nothing gain nothing, and are not among them. */
#ifndef STK_KERNEL_ARRAY_KERNELS_H
#define STK_KERNEL_ARRAY_KERNELS_H

#include "kernel/array/array.h"

struct stk_array_kernels {
	void (*convert)(
		void *dst, enum stk_dtype dst_dtype, const void *src, enum stk_dtype src_dtype, int64_t n); /* kernel/convert/convert.h */
	void (*copy)(const struct stk_array_job *job);                                                      /* that converts */
	void (*one_hot)(const struct stk_array_job *job);
	enum stk_status (*arithmetic)(const struct stk_array_job *job, struct stk_error *err);
	void (*normalize)(const struct stk_array_job *job);
	void (*jpeg_distortion)(const struct stk_jpeg_distortion *j, const uint8_t *src, uint8_t *dst, uint8_t *work);
	void (*debayer)(const struct stk_debayer *b, const void *src, void *dst, int64_t pixels);
	void (*enhance)(const struct stk_enhance *e, const uint8_t *src, uint8_t *dst);
	void (*equalize)(const struct stk_equalize *e, const struct stk_equalize_data *data);
	void (*pointwise)(const struct stk_pointwise *p, const struct stk_pointwise_data *data);
	void (*sample)(const struct stk_array_job *job);
	void (*transform)(const struct stk_transform *t, const uint8_t *src, uint8_t *dst);
};
extern const struct stk_array_kernels stk__array_kernels_c, stk__array_kernels_avx2;

void stk__array_kernels_init(struct stk_array_kernels *k, unsigned cpu);
void stk__array_kernels_x86(struct stk_array_kernels *k, unsigned cpu);

/* The loops for a job of n outputs. Small jobs are done before wide loops would have begun. */
static inline const struct stk_array_kernels *stk__array_kernels(const struct stk_array_jobs *jobs, int64_t n)
{
	enum { SMALL = 128 };
	return jobs->kernels && n >= SMALL ? jobs->kernels : &stk__array_kernels_c;
}

#endif
