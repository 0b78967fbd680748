/* SPDX-License-Identifier: Apache-2.0 */
#include "op/audio/resampling.h"

#include "kernel/sinc/sinc.h"

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

static enum stk_status fill_table(const void *user, int64_t key, void *table, struct stk_error *err)
{
	(void)err;
	stk__sinc_table(((const struct stk_resampling *)user)->lobes, key, table);
	return STK_OK;
}

enum stk_status stk__resampling_job(const struct stk_resampling *r, struct stk_audio_tables *tables, struct stk_arena *arena,
	struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_sinc p = {.in = in->desc.shape[0],
		.out = out->desc.shape[0],
		.channels = in->desc.ndim > 1 ? in->desc.shape[1] : 1,
		.ratio = r->in / r->out,
		.lobes = r->lobes};
	p.taps = stk__sinc_taps(p.lobes);
	find_phases(r->in, r->out, &p);
	if (r->phases && p.phases > r->phases)
		p.phases = 0;
	const struct stk_audio_maker maker = {sizeof(float) * (size_t)stk__sinc_rows(p.phases) * (size_t)p.taps, fill_table, r};
	const float *table = stk__audio_table_take(tables, p.phases, &maker, arena, err);
	return table ? stk__job_sinc(jobs, &p, table, in, out, err) : STK_NO_MEMORY;
}
