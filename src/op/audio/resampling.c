/* SPDX-License-Identifier: Apache-2.0 */
#include "op/audio/resampling.h"

#include "kernel/sinc/sinc.h"

enum { MOST_REACH = 1 << 12 }; /* largest number of samples on each side of an output that the filter weights */

int32_t stk__resampling_lobes(float quality)
{
	double q = (double)quality;
	return (int32_t)floor(0.007 * q * q - 0.09 * q + 3 + 0.5);
}

double stk__resampling_length(const struct stk_resampling *r, int64_t n)
{
	return n ? ceil((double)n * r->out / r->in) : 0;
}

/* Sets p->up and p->phases to the numerator and denominator of in / out in lowest terms. Output samples then lie at p->phases different positions between two
 * input samples, and the filter's table has a row for each. Changes neither if the table would be too large, or if no whole numbers with this ratio are
 * found. */
static void find_phases(double in, double out, struct stk_sinc *p)
{
	enum { MOST_WEIGHTS = 1 << 16 };
	const double most = 0x1p31;
	for (int i = 0; i < 16 && (floor(in) != in || floor(out) != out); i++) {
		in *= 2;
		out *= 2;
	}
	if (floor(in) != in || floor(out) != out || in > most || out > most)
		return;
	int64_t a = (int64_t)in, b = (int64_t)out;
	while (b) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	int64_t phases = (int64_t)out / a;
	if (phases * p->taps > MOST_WEIGHTS)
		return;
	p->phases = phases;
	p->up = (int64_t)in / a;
}

/* A table to make. phases: as in struct stk_sinc. */
struct wanted_table {
	struct stk_sinc_filter filter;
	int64_t phases;
};

static enum stk_status fill_table(const void *user, int64_t key, void *table, struct stk_error *err)
{
	const struct wanted_table *t = user;
	(void)key, (void)err;
	stk__sinc_table(t->filter, t->phases, table);
	return STK_OK;
}

/* Returns a key that differs for tables of one pipeline that differ. With a low-pass to a lower rate, tables also depend on the ratio of the rates. */
static int64_t key_of(const struct stk_sinc *p, double cutoff)
{
	int64_t bits;
	if (cutoff == 1)
		return p->phases;
	memcpy(&bits, &cutoff, sizeof bits); /* not 0, and below 2^62, since 0 < cutoff < 1 */
	return p->phases > 0 ? INT64_MIN + bits : bits;
}

enum stk_status stk__resampling_job(const struct stk_resampling *r, struct stk_audio_tables *tables, struct stk_arena *arena,
	struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct wanted_table t = {.filter = {r->lobes, r->low_pass && r->out < r->in ? r->out / r->in : 1}};
	struct stk_sinc p = {.in = in->desc.shape[0],
		.out = out->desc.shape[0],
		.channels = in->desc.ndim > 1 ? in->desc.shape[1] : 1,
		.ratio = r->in / r->out};
	if (r->lobes > MOST_REACH * t.filter.cutoff)
		return stk__fail(err, STK_UNSUPPORTED,
			"resampling from %g to %g Hz needs a filter of more than %d samples: resample in two steps", r->in, r->out,
			2 * MOST_REACH);
	p.reach = stk__sinc_reach(t.filter);
	p.taps = stk__sinc_taps(p.reach);
	find_phases(r->in, r->out, &p);
	if (r->phases && p.phases > r->phases)
		p.phases = 0;
	t.phases = p.phases;
	const struct stk_audio_maker maker = {sizeof(float) * (size_t)stk__sinc_rows(p.phases) * (size_t)p.taps, fill_table, &t};
	const float *table = stk__audio_table_take(tables, key_of(&p, t.filter.cutoff), &maker, arena, err);
	return table ? stk__job_sinc(jobs, &p, table, in, out, err) : STK_NO_MEMORY;
}
