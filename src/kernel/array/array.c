/* SPDX-License-Identifier: Apache-2.0
 * Making jobs. On the CPU a small tensor costs little more than this, so nothing here is filled in that the job does not need. */
#include "kernel/array/array.h"

#include "base/error.h"
#include "base/memory.h"
#include "kernel/array/array_element.h"
#include "kernel/array/array_kernels.h"
#include "kernel/array/array_run.h"
#include "kernel/convert/convert.h"

#include <assert.h>
#include <string.h>

static void begin(struct stk_array_job *job, enum stk_array_kind kind, const struct stk_tensor *in, const struct stk_tensor *out, int64_t n)
{
	job->kind = kind;
	job->ndim = 0;
	job->n = n;
	job->dst_dtype = out->desc.dtype;
	job->src_dtype[0] = job->src_dtype[1] = in->desc.dtype;
	job->dst = out->data;
	job->src[0] = job->src[1] = in->data;
	job->constants = NULL;
	job->work = NULL;
	job->constant_bytes = job->work_bytes = 0;
}

/* Appends a dim, joining it with the one before where all sides run on without a gap, so that inner loops are long and few divisions are left. */
static inline void append_dim(struct stk_array_job *job, struct stk_array_dim d)
{
	bool whole = d.begin == 0 && d.end == d.size;
	if (d.size == 1 && whole)
		return;
	struct stk_array_dim *outer = job->ndim ? &job->dim[job->ndim - 1] : NULL;
	if (outer && whole && outer->dst == d.dst * d.size && outer->src[0] == d.src[0] * d.size && outer->src[1] == d.src[1] * d.size)
		*outer = (struct stk_array_dim){
			outer->size * d.size, outer->begin * d.size, outer->end * d.size, d.dst, {d.src[0], d.src[1]}};
	else
		job->dim[job->ndim++] = d;
}

/* ---- copies ---- */

void stk__copy_dims(struct stk_copy_dim *dims, int ndim, const int64_t *shape, const int *order, const int64_t *start, const int64_t *step,
	const int64_t *size)
{
	int64_t src[STK_MAX_DIMS], src_stride = 1, dst_stride = 1;
	for (int d = ndim - 1; d >= 0; d--) {
		src[d] = src_stride;
		src_stride *= shape[d];
	}
	for (int d = ndim - 1; d >= 0; d--) {
		int from = order ? order[d] : d;
		dims[d] = (struct stk_copy_dim){size[d], start ? start[d] : 0, step ? step[d] : 1, shape[from], dst_stride, src[from]};
		dst_stride *= size[d];
	}
}

static inline int64_t clamp(int64_t x, int64_t low, int64_t high)
{
	return x < low ? low : x > high ? high : x;
}

/* The outputs [*begin, *end) along a dim whose source index lies inside. */
static inline void find_inside(const struct stk_copy_dim *d, int64_t *begin, int64_t *end)
{
	*begin = 0;
	*end = d->size;
	if (d->step == 1 && d->start >= 0 && d->start + d->size <= d->limit)
		return;
	if (d->step == 0) {
		if (d->start < 0 || d->start >= d->limit)
			*end = 0;
		return;
	}
	/* distance to the first valid index, and past the last one, in the direction of the step */
	int64_t step = d->step > 0 ? d->step : -d->step;
	int64_t before = d->step > 0 ? -d->start : d->start - (d->limit - 1);
	int64_t after = d->step > 0 ? d->limit - d->start : d->start + 1;
	*begin = before <= 0 ? 0 : step == 1 ? before : (before + step - 1) / step;
	*end = after <= 0 ? 0 : step == 1 ? after : (after + step - 1) / step;
	*begin = clamp(*begin, 0, d->size);
	*end = clamp(*end, *begin, d->size);
}

enum stk_status stk__array_copy(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_copy_dim *dims, int ndim, const void *fill, bool convert, struct stk_error *err)
{
	struct stk_array_job job;
	begin(&job, STK_ARRAY_COPY, in, out, 1);
	int64_t to = stk__array_size(job.dst_dtype), from = stk__array_size(job.src_dtype[0]), skipped = 0;
	job.copy.fills = false;
	for (int k = 0; k < ndim; k++) {
		int64_t first, last;
		find_inside(&dims[k], &first, &last);
		job.copy.fills |= first > 0 || last < dims[k].size;
		skipped += dims[k].start * dims[k].src;
		job.n *= dims[k].size;
		append_dim(
			&job, (struct stk_array_dim){dims[k].size, first, last, dims[k].dst * to, {dims[k].src * dims[k].step * from, 0}});
	}
	if (job.n == 0)
		return STK_OK;
	job.src[0] += skipped * from;
	if (fill)
		memcpy(job.copy.fill, fill, (size_t)to);
	job.copy.element = convert || job.src_dtype[0] != job.dst_dtype ? 0 : (int32_t)to;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	if (job.copy.element)
		stk__array_run_copy(&job);
	else
		stk__array_kernels(jobs, job.n)->copy(&job);
	return STK_OK;
}

/* A function of its own, so that a copy on the CPU does not pay for it. */
static __attribute__((noinline)) enum stk_status keep_rows(struct stk_array_jobs *jobs, const struct stk_tensor *in,
	const struct stk_tensor *out, const struct stk_array_rows *rows, struct stk_error *err)
{
	struct stk_tensor to = {(uint8_t *)out->data + rows->first * stk__array_size(out->desc.dtype), {.dtype = out->desc.dtype}};
	const struct stk_copy_dim dims[] = {
		{.size = rows->count, .step = 1, .limit = rows->count, .dst = rows->stride, .src = rows->length},
		{.size = rows->length, .step = 1, .limit = rows->length, .dst = 1, .src = 1}};
	return stk__array_copy(jobs, in, &to, dims, 2, NULL, false, err);
}

enum stk_status stk__array_copy_rows(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_array_rows *rows, struct stk_error *err)
{
	if (jobs->keep)
		return keep_rows(jobs, in, out, rows, err);
	int64_t size = stk__array_size(out->desc.dtype), length = rows->length * size;
	uint8_t *dst = (uint8_t *)out->data + rows->first * size;
	if (rows->count == 1) /* skips stk__array_put's choice of a loop */
		memcpy(dst, in->data, (size_t)length);
	else
		stk__array_put(dst, rows->stride * size, in->data, length, rows->count, length);
	return STK_OK;
}

enum stk_status stk__array_copy_all(
	struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, bool convert, struct stk_error *err)
{
	int64_t n = stk_desc_elements(&in->desc);
	if (!jobs->keep && (convert || in->desc.dtype != out->desc.dtype)) {
		stk__array_kernels(jobs, n)->convert(out->data, out->desc.dtype, in->data, in->desc.dtype, n);
		return STK_OK;
	}
	if (!jobs->keep)
		return stk__array_copy_rows(jobs, in, out, &(struct stk_array_rows){.count = 1, .length = n}, err);
	struct stk_copy_dim all = {.size = n, .step = 1, .limit = n, .dst = 1, .src = 1};
	return stk__array_copy(jobs, in, out, &all, 1, NULL, convert, err);
}

enum stk_status stk__array_copy_bytes(struct stk_array_jobs *jobs, const void *from, void *to, int64_t bytes, struct stk_error *err)
{
	enum { PIECE = 1 << 30 };
	enum stk_status s = STK_OK;
	for (int64_t at = 0; at < bytes && s == STK_OK; at += PIECE) {
		const struct stk_desc piece = {.dtype = STK_UINT8, .ndim = 1, .shape = {bytes - at < PIECE ? bytes - at : PIECE}};
		const struct stk_tensor in = {(uint8_t *)from + at, piece}, out = {(uint8_t *)to + at, piece};
		s = stk__array_copy_all(jobs, &in, &out, false, err);
	}
	return s;
}

/* ---- arithmetic ---- */

/* Strides in bytes along the output's dims of an operand whose dims are matched from the last on. */
static inline void broadcast_strides(const struct stk_desc *in, int32_t ndim, int64_t strides[STK_MAX_DIMS])
{
	int64_t stride = stk__array_size(in->dtype);
	for (int32_t d = ndim - 1, k = in->ndim - 1; d >= 0; d--, k--) {
		strides[d] = k < 0 || in->shape[k] == 1 ? 0 : stride;
		stride *= k < 0 ? 1 : in->shape[k];
	}
}

enum stk_status stk__array_arithmetic(struct stk_array_jobs *jobs, const struct stk_array_arithmetic *a, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job;
	int32_t ndim = out->desc.ndim, last = a->operands - 1;
	int64_t first[STK_MAX_DIMS], second[STK_MAX_DIMS], dst = stk__array_size(out->desc.dtype), to[STK_MAX_DIMS];
	begin(&job, STK_ARRAY_ARITHMETIC, in, out, stk_desc_elements(&out->desc));
	if (job.n == 0)
		return STK_OK;
	job.arithmetic = *a;
	job.src[1] = in[last].data;
	job.src_dtype[1] = in[last].desc.dtype;
	broadcast_strides(&in[0].desc, ndim, first);
	broadcast_strides(&in[last].desc, ndim, second);
	for (int32_t d = ndim - 1; d >= 0; d--) {
		to[d] = dst;
		dst *= out->desc.shape[d];
	}
	for (int32_t d = 0; d < ndim; d++)
		append_dim(&job, (struct stk_array_dim){out->desc.shape[d], 0, out->desc.shape[d], to[d], {first[d], second[d]}});
	return jobs->keep ? jobs->keep(jobs, &job, err) : stk__array_kernels(jobs, job.n)->arithmetic(&job, err);
}

/* ---- normalize ---- */

static void append_axis(struct stk_array_axis *axes, int32_t *n, uint32_t size, uint64_t stride)
{
	if (*n && (uint64_t)axes[*n - 1].stride == stride * size)
		axes[*n - 1] = (struct stk_array_axis){axes[*n - 1].size * size, (int64_t)stride};
	else if (size != 1)
		axes[(*n)++] = (struct stk_array_axis){size, (int64_t)stride};
}

void stk__array_groups(struct stk_array_groups *g, const struct stk_desc *d, uint32_t reduced)
{
	uint64_t strides[STK_MAX_DIMS], stride = 1; /* of a tensor without elements they may wrap around, and nobody goes along them */
	g->groups = g->count = 1;
	g->n_kept = g->n_reduced = 0;
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		strides[k] = stride;
		stride *= (uint64_t)d->shape[k];
	}
	assert(stride <= STK_ARRAY_MOST);
	for (int32_t k = 0; k < d->ndim; k++) {
		uint32_t size = (uint32_t)d->shape[k];
		bool is_reduced = reduced >> k & 1;
		append_axis(is_reduced ? g->reduced : g->kept, is_reduced ? &g->n_reduced : &g->n_kept, size, strides[k]);
		*(is_reduced ? &g->count : &g->groups) *= size;
	}
}

enum stk_status stk__array_normalize(struct stk_array_jobs *jobs, const struct stk_array_normalize *n, const double *given,
	const struct stk_tensor *in, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err)
{
	struct stk_array_job job;
	const struct stk_desc *d = &in->desc;
	begin(&job, STK_ARRAY_NORMALIZE, in, out, stk_desc_elements(d));
	if (job.n == 0)
		return STK_OK;
	job.normalize = *n;
	stk__array_groups(&job.normalize.groups, d, reduced);
	job.constants = given;
	job.constant_bytes = (uint64_t)(n->n_mean + n->n_factor) * sizeof *given;
	job.work_bytes = 2 * sizeof(double) * (uint64_t)job.normalize.groups.groups;
	int64_t groups[STK_MAX_DIMS], group = 1, stride = job.n;
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		groups[k] = reduced >> k & 1 ? 0 : group;
		group *= reduced >> k & 1 ? 1 : d->shape[k];
	}
	for (int32_t k = 0; k < d->ndim; k++) {
		stride /= d->shape[k];
		append_dim(&job, (struct stk_array_dim){d->shape[k], 0, d->shape[k], stride * stk__array_size(job.dst_dtype),
					 {stride * stk__array_size(d->dtype), groups[k] * 2 * (int64_t)sizeof(double)}});
	}
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	job.work = stk__arena_take(jobs->arena, job.work_bytes);
	job.src[1] = job.work;
	if (!job.work)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to measure %u groups", job.normalize.groups.groups);
	stk__array_kernels(jobs, job.n)->normalize(&job);
	return STK_OK;
}

/* ---- reductions ---- */

/* Whole numbers are summed exactly; their squares only where the result is whole, since they grow beyond 64 bits. */
static int32_t reduction_domain(enum stk_reduction op, int32_t from, int32_t to)
{
	bool squares = op == STK_REDUCE_MEAN_SQUARE || op == STK_REDUCE_RMS, about = op == STK_REDUCE_VARIANCE || op == STK_REDUCE_STD_DEV;
	if (!stk__array_is_whole(from) || about || (squares && !stk__array_is_whole(to)))
		return STK_ARITH_DOUBLE;
	return from == STK_INT8 || from == STK_INT16 || from == STK_INT32 || from == STK_INT64 ? STK_ARITH_INT64 : STK_ARITH_UINT64;
}

enum stk_status stk__array_reduce(struct stk_array_jobs *jobs, enum stk_reduction op, int64_t ddof, const struct stk_tensor *in,
	const struct stk_tensor *mean, const struct stk_tensor *out, uint32_t reduced, struct stk_error *err)
{
	struct stk_array_job job;
	begin(&job, STK_ARRAY_REDUCE, in, out, 0);
	stk__array_groups(&job.reduce.groups, &in->desc, reduced);
	job.n = job.reduce.groups.groups;
	if (job.n == 0)
		return STK_OK;
	job.reduce.op = op;
	job.reduce.domain = reduction_domain(op, job.src_dtype[0], job.dst_dtype);
	job.reduce.ddof = ddof;
	job.reduce.mean_step = 0;
	if (mean) {
		job.src[1] = mean->data;
		job.src_dtype[1] = mean->desc.dtype;
		job.reduce.mean_step = stk_desc_elements(&mean->desc) == 1 ? 0 : stk__array_size(mean->desc.dtype);
	}
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__array_run_reduce(&job);
	return STK_OK;
}

/* ---- one-hot ---- */

enum stk_status stk__array_one_hot(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, int32_t axis,
	float on, float off, struct stk_error *err)
{
	struct stk_array_job job;
	const struct stk_desc *d = &out->desc;
	int64_t outer = 1, inner = 1, to = stk__array_size(d->dtype), from = stk__array_size(in->desc.dtype), classes = d->shape[axis];
	for (int32_t k = 0; k < d->ndim; k++)
		*(k < axis ? &outer : &inner) *= k == axis ? 1 : d->shape[k];
	begin(&job, STK_ARRAY_ONE_HOT, in, out, outer * classes * inner);
	if (job.n == 0)
		return STK_OK;
	job.ndim = 3;
	job.dim[0] = (struct stk_array_dim){outer, 0, outer, classes * inner * to, {inner * from, 0}};
	job.dim[1] = (struct stk_array_dim){classes, 0, classes, inner * to, {0, 0}};
	job.dim[2] = (struct stk_array_dim){inner, 0, inner, to, {from, 0}};
	job.one_hot.classes = (uint32_t)classes;
	job.one_hot.inner = (uint32_t)inner;
	stk__convert_one(job.one_hot.on, d->dtype, &on, STK_FLOAT);
	stk__convert_one(job.one_hot.off, d->dtype, &off, STK_FLOAT);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__array_kernels(jobs, job.n)->one_hot(&job);
	return STK_OK;
}

/* ---- points ---- */

enum stk_status stk__array_points(struct stk_array_jobs *jobs, const struct stk_array_points *p, const float *matrix,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_array_job job;
	begin(&job, STK_ARRAY_POINTS, in, out, stk_desc_elements(&out->desc));
	if (job.n == 0)
		return STK_OK;
	job.points = *p;
	job.constants = matrix;
	job.constant_bytes = sizeof *matrix * (uint64_t)p->out * (uint64_t)(p->in + 1);
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	stk__array_run_points(&job);
	return STK_OK;
}
