/* SPDX-License-Identifier: Apache-2.0
 * Jobs that resample tensors: the code that makes them, runs them on the CPU, and describes them for the GPU. */
#include "kernel/resize/resize.h"

#include "kernel/convert/convert.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"
#include "kernel/resample/filter.h"
#include "kernel/resize/resize_one.h"

/* ---- on the CPU ---- */

enum { PART = 512 };

/* Sets `sums` to n values (at most PART) of an output row, as stk__job_resize_one computes them. src: the values at the same positions in the first source row
 * that contributes. */
static void sum_rows(const struct stk_resize_phase *p, const uint8_t *src, int32_t dtype, const float *weights, int64_t n, float *sums)
{
	float converted[PART];
	int64_t row = p->inner * stk__job_size(dtype);
	for (int32_t t = 0; t < p->taps; t++, src += row) {
		const float *x = dtype == STK_FLOAT ? (const float *)(const void *)src : converted;
		if (dtype != STK_FLOAT)
			stk__convert(converted, STK_FLOAT, src, (enum stk_dtype)dtype, n);
		float w = weights[t];
		for (int64_t i = 0; i < n; i++)
			sums[i] = t ? sums[i] + x[i] * w : x[i] * w;
	}
}

static void run_phase(const struct stk_job *job, int phase)
{
	const struct stk_resize_phase *p = &STK_PARAMS(stk_job_resize, job).phase[phase];
	bool last = phase == STK_PARAMS(stk_job_resize, job).phases - 1;
	int32_t from = phase ? STK_FLOAT : job->src_dtype[0], to = last ? job->dst_dtype : STK_FLOAT;
	const uint8_t *src = phase ? (const uint8_t *)stk__resize_between(job, phase - 1) : job->src[0];
	uint8_t *dst = last ? job->dst : (uint8_t *)stk__resize_between(job, phase);
	const uint32_t *words = job->constants;
	const int32_t *first = (const int32_t *)(const void *)(words + p->first);
	const float *weights = (const float *)(const void *)(words + p->weights);
	int64_t rows = p->outer * p->out, size = stk__job_size(from);
	if (p->inner < 8) { /* rows are so short that sum_rows and stk__convert would take longer for each value */
		for (uint32_t i = 0; i < rows * p->inner; i++)
			stk__job_resize_one(job, phase, i);
		return;
	}
	for (int64_t row = 0; row < rows; row++)
		for (int64_t i = 0, n; i < p->inner; i += n) {
			int64_t outer = row / p->out, o = row - outer * p->out;
			float sums[PART];
			n = p->inner - i < PART ? p->inner - i : PART;
			sum_rows(p, src + ((outer * p->in + first[o]) * p->inner + i) * size, from, weights + o * p->taps, n, sums);
			stk__convert(dst + (row * p->inner + i) * stk__job_size(to), (enum stk_dtype)to, sums, STK_FLOAT, n);
		}
}

static void run(const struct stk_job *job)
{
	for (int phase = 0; phase < STK_PARAMS(stk_job_resize, job).phases; phase++)
		run_phase(job, phase);
}

/* ---- making jobs ---- */

/* Sets order[0 .. n - 1] to the indices of `dims`, sorted by how much the dimensions shrink. The one that shrinks most is first. */
static void order_of(const struct stk_tensor *in, const struct stk_tensor *out, const int32_t *dims, int32_t n, int32_t order[])
{
	for (int32_t i = 0; i < n; i++) {
		int32_t at = i;
		double share = (double)out->desc.shape[dims[i]] / (double)in->desc.shape[dims[i]];
		for (; at > 0; at--) {
			int32_t previous = dims[order[at - 1]];
			if ((double)out->desc.shape[previous] / (double)in->desc.shape[previous] <= share)
				break;
			order[at] = order[at - 1];
		}
		order[at] = i;
	}
}

static void place_phase(
	struct stk_resize_phase *p, const int64_t *shape, int32_t ndim, int32_t d, const struct stk_filter_axis *a, int64_t out)
{
	*p = (struct stk_resize_phase){.outer = 1, .inner = 1, .in = (int32_t)shape[d], .out = (int32_t)out, .taps = a->curve ? a->n : 1};
	for (int32_t k = 0; k < d; k++)
		p->outer *= shape[k];
	for (int32_t k = d + 1; k < ndim; k++)
		p->inner *= shape[k];
}

/* Makes the job's constants (resize.h) in the arena. Sets `first` and `weights` of the phases, and *bytes to the size of the constants. Returns NULL if they
 * are too large or memory runs out. */
static uint32_t *make_taps(struct stk_jobs *jobs, struct stk_job_resize *r, const struct stk_filter_axis *const axes[], uint64_t *bytes)
{
	uint64_t words = 0;
	for (int32_t k = 0; k < r->phases; k++) {
		struct stk_resize_phase *p = &r->phase[k];
		p->first = (uint32_t)words;
		p->weights = p->first + (uint32_t)p->out;
		words += (uint64_t)p->out * (uint64_t)(p->taps + 1);
	}
	*bytes = 4 * words;
	uint32_t *taps = words <= UINT32_MAX / 4 ? stk__arena_take(jobs->arena, *bytes) : NULL;
	for (int32_t k = 0; taps && k < r->phases; k++) {
		const struct stk_resize_phase *p = &r->phase[k];
		int32_t *first = (int32_t *)(void *)(taps + p->first);
		float *weights = (float *)(void *)(taps + p->weights);
		if (!axes[k]->curve)
			stk__filter_nearest(axes[k], false, p->out, first);
		for (int32_t o = 0; o < p->out; o++, weights += p->taps)
			if (axes[k]->curve)
				first[o] = stk__filter_taps(axes[k], o, weights);
			else
				*weights = 1;
	}
	return taps;
}

enum stk_status stk__job_resize(struct stk_jobs *jobs, const struct stk_filter_axis *axes, const int32_t *dims, int32_t n,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job = {.kind = STK_JOB_resize,
		.n = stk_desc_elements(&out->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in->desc.dtype, in->desc.dtype},
		.dst = out->data,
		.src = {in->data, in->data}};
	struct stk_job_resize *resize = &STK_PARAMS_SET(stk_job_resize, &job);
	const struct stk_filter_axis *ordered[STK_RESIZE_PHASES];
	int32_t order[STK_RESIZE_PHASES];
	int64_t shape[STK_MAX_DIMS];
	if (job.n == 0)
		return STK_OK;
	resize->phases = n;
	memcpy(shape, in->desc.shape, sizeof shape);
	order_of(in, out, dims, n, order);
	for (int32_t k = 0; k < n; k++) {
		int32_t d = dims[order[k]];
		ordered[k] = &axes[order[k]];
		place_phase(&resize->phase[k], shape, in->desc.ndim, d, ordered[k], out->desc.shape[d]);
		shape[d] = out->desc.shape[d];
		int64_t values = stk__resize_outputs(&resize->phase[k]);
		if (values > STK_JOB_MOST)
			return stk__fail(err, STK_LIMIT, "a resize needs %lld intermediate values; it may have up to %d", (long long)values,
				STK_JOB_MOST);
		job.work_bytes += k < n - 1 ? (uint64_t)values * sizeof(float) : 0;
	}
	job.constants = make_taps(jobs, resize, ordered, &job.constant_bytes);
	if (!job.constants)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the weights of a resize");
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, job.work_bytes + 1);
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a resize");
	run(&job);
	return STK_OK;
}

/* ---- on the GPU ---- */

static const struct stk_job_launch launches[] = {/* one for each phase */
	{"resize_gpu", "job_resize", 0}, {"resize_gpu", "job_resize", 0}, {"resize_gpu", "job_resize", 0}};

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_job_resize *resize = &STK_PARAMS(stk_job_resize, &it->job);
	for (int k = 0; k < resize->phases; k++)
		b->count[STK_LAUNCH_resize + k] += stk__job_blocks_of(stk__resize_outputs(&resize->phase[k]));
}

const struct stk_job_kind stk__job_kind_resize = {STK_JOB_LAUNCHES_OF(resize, launches), .blocks = blocks};
