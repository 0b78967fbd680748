/* SPDX-License-Identifier: Apache-2.0
 * Polylines on the CPU. */
#include "ragged/polyline_body.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

struct polyline_job {
	const struct stk_polyline *p;
	double *along; /* (threads, points): distance of each point from the first, along the line */
};

static void polyline_one(void *ctx, int64_t b, int32_t worker)
{
	const struct polyline_job *job = ctx;
	const struct stk_polyline *p = job->p;
	double *along = job->along + worker * p->points;
	int64_t n = stk__size_of(p->sizes, b, p->points);
	if (n)
		along[0] = 0;
	for (int64_t i = 0; i + 1 < n; i++)
		along[i + 1] = along[i] + stk__segment_length(p, b, i);
	if (p->length)
		stk__store_float(p->length, p->dtype, b, n ? along[n - 1] : 0);
	for (int64_t j = 0; p->out && j < p->samples; j++)
		stk__polyline_sample(p, b, n, along, j);
}

enum stk_status stk__cpu_polyline(struct stk_ragged *r, const struct stk_polyline *p, struct stk_error *err)
{
	int64_t bytes = p->batch * (p->points + 8 * p->samples) * (8 + 8 * p->dims);
	int32_t threads = stk__fork_threads(r, p->batch, bytes);
	struct polyline_job job = {p, stk__alloc((size_t)(threads * p->points + 1) * sizeof(double))};
	if (!job.along)
		return stk__fail(err, STK_NO_MEMORY, "polyline: no memory for the distances of %lld points", (long long)p->points);
	stk__fork(threads, p->batch, polyline_one, &job);
	stk__free(job.along);
	return STK_OK;
}
