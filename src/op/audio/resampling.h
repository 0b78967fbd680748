/* SPDX-License-Identifier: Apache-2.0
 * Resampling from one rate to another, for all operators that resample. */
#ifndef STK_OP_RESAMPLING_H
#define STK_OP_RESAMPLING_H

#include "op/audio/audio.h"

/* in, out: rates, of which only the ratio matters; in is above 0. */
struct stk_resampling {
	double in, out;
	int32_t lobes;  /* stk__resampling_lobes */
	int32_t phases; /* limit of a table's rows: ratios that need more rows interpolate between them; 0: no limit */
};

/* Returns the lobes of the filter for a quality of 0 to 100, as in DALI. */
int32_t stk__resampling_lobes(float quality);

/* Returns the number of samples that n samples become, rounded up to a whole number. */
double stk__resampling_length(const struct stk_resampling *r, int64_t n);

/* Adds the job that resamples `in` to `out` to `jobs`. in and out: of 1 dimension, or of 2 with channels last. tables: tables made for this number of lobes. */
STK_MUST_USE enum stk_status stk__resampling_job(const struct stk_resampling *r, struct stk_audio_tables *tables, struct stk_arena *arena,
	struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err);

#endif
