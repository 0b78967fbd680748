/* SPDX-License-Identifier: Apache-2.0
 * stk_ragged_polyline on the CPU. A thread computes one polyline at a time, with its length and all its samples. */
#include "ragged/polyline_body.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

struct polyline_job {
	const struct stk_polyline *p;
	double *along; /* (threads, points): distance of each point from the first, along the line */
};

static inline void polyline_run(const struct stk_polyline *p, double *along, int64_t b)
{
	int64_t n = stk__size_of(p->sizes, b, p->points);
	if (n)
		along[0] = 0;
	/* Two loops: the lengths of segments are independent of each other, so the processor can overlap them; each sum needs the one before it. */
	for (int64_t i = 0; i + 1 < n; i++)
		along[i + 1] = stk__segment_length(p, b, i);
	for (int64_t i = 0; i + 1 < n; i++)
		along[i + 1] += along[i];
	if (p->length)
		stk__store_float(p->length, p->dtype, b, n ? along[n - 1] : 0);
	for (int64_t j = 0; p->out && j < p->samples; j++)
		stk__polyline_sample(p, b, n, along, j);
}

/* Defines a function that works on one polyline. A constant type and number of dims let the compiler remove the branches on them from the loops. */
#define POLYLINE(name, type, count)                                                                                                        \
	__attribute__((flatten)) static void name(void *ctx, int64_t b, int32_t worker)                                                    \
	{                                                                                                                                  \
		const struct polyline_job *job = ctx;                                                                                      \
		struct stk_polyline p = *job->p;                                                                                           \
		p.dtype = (type);                                                                                                          \
		p.dims = (count);                                                                                                          \
		polyline_run(&p, job->along + worker * p.points, b);                                                                       \
	}
POLYLINE(polyline_float_2, STK_FLOAT, 2)
POLYLINE(polyline_float_3, STK_FLOAT, 3)
POLYLINE(polyline_double_2, STK_FLOAT64, 2)
POLYLINE(polyline_double_3, STK_FLOAT64, 3)
POLYLINE(polyline_any, job->p->dtype, job->p->dims)

/* Returns the work of a call as the number of bytes that a plain copy moves in the same time, for stk__fork_threads: about 5 bytes a nanosecond. */
static int64_t polyline_work(const struct stk_polyline *p)
{
	int steps = 4; /* the interpolation of a sample costs four steps; the loop adds those of the search for the sample's segment */
	for (int64_t n = p->points; n > 1; n /= 2)
		steps++;
	double work = (double)p->batch * ((double)p->points + (p->out ? (double)p->samples * steps : 0)) * (8 + 4 * (double)p->dims);
	return (int64_t)fmin(work, 1e15);
}

enum stk_status stk__cpu_polyline(struct stk_ragged *r, const struct stk_polyline *p, struct stk_error *err)
{
	static void (*const fixed[2][2])(void *ctx, int64_t b, int32_t worker) = {
		{polyline_float_2, polyline_float_3}, {polyline_double_2, polyline_double_3}};
	void (*run)(void *ctx, int64_t b, int32_t worker) = polyline_any;
	if ((p->dims == 2 || p->dims == 3) && (p->dtype == STK_FLOAT || p->dtype == STK_FLOAT64))
		run = fixed[p->dtype == STK_FLOAT64][p->dims - 2];
	int32_t threads = stk__fork_threads(r, p->batch, polyline_work(p));
	struct polyline_job job = {p, stk__alloc((size_t)(threads * p->points + 1) * sizeof(double))};
	if (!job.along)
		return stk__fail(err, STK_NO_MEMORY, "polyline: no memory for the distances of %lld points", (long long)p->points);
	stk__fork(threads, p->batch, run, &job);
	stk__free(job.along);
	return STK_OK;
}
