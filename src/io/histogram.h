/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of times: four bins for each octave from 4 microseconds on, so that a quantile of longer times is at most a quarter too large. Any thread. */
#ifndef STK_IO_HISTOGRAM_H
#define STK_IO_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { STK_HISTOGRAM_BINS = 4 * 32 };

struct stk_histogram {
	_Atomic uint64_t bins[STK_HISTOGRAM_BINS];
};

/* Quantiles of a histogram in milliseconds; 0: the histogram is empty. */
struct stk_quantiles {
	double half, p95, p99;
};

static inline void stk__histogram_add(struct stk_histogram *h, int64_t ns)
{
	uint64_t us = ns > 4000 ? (uint64_t)ns / 1000 : 4;
	int octave = 63 - __builtin_clzll(us), bin = 4 * octave + (int)(us >> (octave - 2) & 3);
	atomic_fetch_add_explicit(&h->bins[bin < STK_HISTOGRAM_BINS ? bin : STK_HISTOGRAM_BINS - 1], 1, memory_order_relaxed);
}

/* Returns the upper edge, in milliseconds, of the bin that contains the quantile `share` (0 to 1). all: sum of the bins. Returns 0 if `all` is 0. */
static inline double stk__histogram_at(const uint64_t *bins, uint64_t all, double share)
{
	uint64_t seen = 0;
	for (int i = 0; i < STK_HISTOGRAM_BINS; i++) {
		seen += bins[i];
		if (all && (double)seen >= share * (double)all)
			return (double)(1ull << i / 4) * (1.25 + 0.25 * (i % 4)) / 1e3;
	}
	return 0;
}

static inline struct stk_quantiles stk__histogram_read(const struct stk_histogram *h)
{
	uint64_t bins[STK_HISTOGRAM_BINS], all = 0;
	for (int i = 0; i < STK_HISTOGRAM_BINS; i++)
		all += bins[i] = atomic_load_explicit(&h->bins[i], memory_order_relaxed);
	return (struct stk_quantiles){
		stk__histogram_at(bins, all, 0.5), stk__histogram_at(bins, all, 0.95), stk__histogram_at(bins, all, 0.99)};
}

#endif
