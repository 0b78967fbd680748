/* SPDX-License-Identifier: Apache-2.0
 * Resampling from one rate to another, for all operators that resample. */
#ifndef STK_OP_RESAMPLING_H
#define STK_OP_RESAMPLING_H

#include "op/audio/audio.h"

/* Parameters of resampling. in, out: rates of input and output in any common unit, since only their ratio matters; in must be above 0. */
struct stk_resampling {
	double in, out;
	int32_t lobes;  /* number of lobes on each side of the filter, as stk__resampling_lobes returns it */
	bool low_pass;  /* true: frequencies above half of a lower rate are removed first; false: they become aliases, as in DALI */
	int32_t phases; /* maximum number of rows of the filter's table; ratios that need more rows interpolate between rows; 0: no limit */
};

/* Returns the number of lobes on each side of the filter for a quality of 0 to 100, as in DALI. */
int32_t stk__resampling_lobes(float quality);

/* Returns the number of output samples for n input samples, rounded up to a whole number. */
double stk__resampling_length(const struct stk_resampling *r, int64_t n);

/* Adds to `jobs` a job that resamples `in` to `out`, of shape (samples) or (samples, channels). tables: all calls that share them must have the same lobes
 * and low_pass. STK_UNSUPPORTED: low_pass, and the output's rate is so low that the filter would be too long. */
STK_MUST_USE enum stk_status stk__resampling_job(const struct stk_resampling *r, struct stk_audio_tables *tables, struct stk_arena *arena,
	struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
