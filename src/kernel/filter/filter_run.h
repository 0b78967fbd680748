/* SPDX-License-Identifier: Apache-2.0
 * Runs filters (filter.h) on the CPU. */
#ifndef STK_KERNEL_FILTER_RUN_H
#define STK_KERNEL_FILTER_RUN_H

#include "kernel/filter/filter.h"

/* Loops over n values of a row. load_bytes and store_bytes convert between uint8 and float32. The others compute output i from the values taps[t][i] for t
 * from 0 to n_taps - 1: their weighted sum, minimum, maximum or median. n values must be readable from each tap. */
struct stk_filter_kernels {
	void (*load_bytes)(float *restrict out, const uint8_t *restrict in, int n);
	void (*store_bytes)(uint8_t *restrict out, const float *restrict in, int n);
	void (*sum)(float *restrict out, const float *const *taps, const float *weights, int n_taps, int n);
	void (*least)(float *restrict out, const float *const *taps, int n_taps, int n);
	void (*largest)(float *restrict out, const float *const *taps, int n_taps, int n);
	/* n_taps is odd, at most STK_FILTER_MOST_MEDIAN. */
	void (*median)(float *restrict out, const float *const *taps, int n_taps, int n);
};
extern const struct stk_filter_kernels stk__filter_kernels_c, stk__filter_kernels_avx2;

struct stk_arena;

/* Runs the whole filter with scratch memory from the arena, not with the work memory of `data`. Fails only if memory runs out. */
STK_MUST_USE enum stk_status stk__filter_run(const struct stk_filter *f, const struct stk_filter_data *data,
	const struct stk_filter_kernels *kernels, struct stk_arena *arena, struct stk_error *err);

#endif
