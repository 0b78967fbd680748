/* SPDX-License-Identifier: Apache-2.0
 * Makes copy jobs, runs them if they are for the CPU, and describes them for the GPU. */
#include "kernel/copy/copy.h"

#include "kernel/convert/convert.h"
#include "kernel/copy/copy_run.h"
#include "kernel/job/job_cpu.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

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

/* Sets *begin and *end such that exactly the output indices *begin .. *end - 1 along d read a source index from 0 to d->limit - 1. */
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
	/* before: number of source indices from the start to the first valid index; after: to the end of the valid indices; both in the direction of the
	 * step */
	int64_t step = d->step > 0 ? d->step : -d->step;
	int64_t before = d->step > 0 ? -d->start : d->start - (d->limit - 1);
	int64_t after = d->step > 0 ? d->limit - d->start : d->start + 1;
	*begin = before <= 0 ? 0 : step == 1 ? before : (before + step - 1) / step;
	*end = after <= 0 ? 0 : step == 1 ? after : (after + step - 1) / step;
	*begin = clamp(*begin, 0, d->size);
	*end = clamp(*end, *begin, d->size);
}

enum stk_status stk__job_copy(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_copy_dim *dims, int ndim, const void *fill, bool convert, struct stk_error *err)
{
	struct stk_job job;
	struct stk_job_copy *copy = &STK_PARAMS_SET(stk_job_copy, &job);
	stk__job_begin(&job, STK_JOB_copy, in, out, 1);
	job.src[1] = NULL;
	int64_t to = stk__job_size(job.dst_dtype), from = stk__job_size(job.src_dtype[0]), skipped = 0;
	copy->has_unset_outputs = false;
	for (int k = 0; k < ndim; k++) {
		int64_t first, last;
		find_inside(&dims[k], &first, &last);
		copy->has_unset_outputs |= first > 0 || last < dims[k].size;
		skipped += dims[k].start * dims[k].src;
		job.n *= dims[k].size;
		stk__job_append_dim(
			&job, (struct stk_job_dim){dims[k].size, first, last, dims[k].dst * to, {dims[k].src * dims[k].step * from, 0}});
	}
	if (job.n == 0)
		return STK_OK;
	job.src[0] += skipped * from;
	if (fill)
		memcpy(copy->fill, fill, (size_t)to);
	copy->element = convert || job.src_dtype[0] != job.dst_dtype ? 0 : (int32_t)to;
	if (jobs->keep)
		return jobs->keep(jobs, &job, err);
	if (copy->element) /* AVX2 does not make copies without conversion faster */
		stk__copy_run(&job);
	else
		STK_JOB_LOOP(jobs, job.n, stk__copy_run)(&job);
	return STK_OK;
}

/* Makes a job for the GPU. This is a separate function, so that copies on the CPU need no stack for its arrays. */
static __attribute__((noinline)) enum stk_status keep_rows(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_job_rows *rows, struct stk_error *err)
{
	struct stk_tensor to = {(uint8_t *)out->data + rows->first * stk__job_size(out->desc.dtype), {.dtype = out->desc.dtype}};
	const struct stk_copy_dim dims[] = {
		{.size = rows->count, .step = 1, .limit = rows->count, .dst = rows->stride, .src = rows->length},
		{.size = rows->length, .step = 1, .limit = rows->length, .dst = 1, .src = 1}};
	return stk__job_copy(jobs, in, &to, dims, 2, NULL, false, err);
}

enum stk_status stk__job_copy_rows(struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_job_rows *rows, struct stk_error *err)
{
	if (jobs->keep)
		return keep_rows(jobs, in, out, rows, err);
	int64_t size = stk__job_size(out->desc.dtype), length = rows->length * size;
	uint8_t *dst = (uint8_t *)out->data + rows->first * size;
	if (rows->count == 1) /* calling memcpy here is faster than letting stk__job_put select a loop */
		memcpy(dst, in->data, (size_t)length);
	else
		stk__job_put(dst, rows->stride * size, in->data, length, rows->count, length);
	return STK_OK;
}

enum stk_status stk__job_copy_all(
	struct stk_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, bool convert, struct stk_error *err)
{
	int64_t n = stk_desc_elements(&in->desc);
	if (!jobs->keep && (convert || in->desc.dtype != out->desc.dtype)) {
		STK_JOB_LOOP(jobs, n, stk__convert)(out->data, out->desc.dtype, in->data, in->desc.dtype, n);
		return STK_OK;
	}
	if (!jobs->keep)
		return stk__job_copy_rows(jobs, in, out, &(struct stk_job_rows){.count = 1, .length = n}, err);
	struct stk_copy_dim all = {.size = n, .step = 1, .limit = n, .dst = 1, .src = 1};
	return stk__job_copy(jobs, in, out, &all, 1, NULL, convert, err);
}

enum stk_status stk__job_copy_bytes(struct stk_jobs *jobs, const void *from, void *to, int64_t bytes, struct stk_error *err)
{
	enum { PIECE = 1 << 30 };
	enum stk_status s = STK_OK;
	for (int64_t at = 0; at < bytes && s == STK_OK; at += PIECE) {
		const struct stk_desc piece = {.dtype = STK_UINT8, .ndim = 1, .shape = {bytes - at < PIECE ? bytes - at : PIECE}};
		const struct stk_tensor in = {(uint8_t *)from + at, piece}, out = {(uint8_t *)to + at, piece};
		s = stk__job_copy_all(jobs, &in, &out, false, err);
	}
	return s;
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_copy added, indices among all kinds' launches. */
enum { ANY, FLAT, FLAT_CONVERT };
static const struct stk_job_launch launches[] = {
	[ANY] = {"copy_gpu", "job_copy", 0},
	[FLAT] = {"copy_gpu_flat", "job_copy_flat", 0},
	[FLAT_CONVERT] = {"copy_gpu_flat", "job_convert_flat", 0},
};

/* Returns whether the job `next`, which differs from `job` only in addresses and parameters, may run as part of `job`. */
static bool joins(const struct stk_job *job, const struct stk_job *next)
{
	return STK_PARAMS(stk_job_copy, job).element == STK_PARAMS(stk_job_copy, next).element &&
	       !STK_PARAMS(stk_job_copy, next).has_unset_outputs;
}

static int32_t flat(const struct stk_job *job, bool *dense)
{
	const struct stk_job_copy *copy = &STK_PARAMS(stk_job_copy, job);
	*dense = copy->element != 0;
	if (copy->element)
		return copy->has_unset_outputs ? 0 : copy->element;
	return stk__in_float(job->src_dtype[0]) && stk__in_float(job->dst_dtype) ? stk__job_size(job->dst_dtype) : 0;
}

/* Returns whether two adjacent elements can always be copied as one element of twice the size, which must be at most 8 bytes and aligned. */
static bool may_pair(const struct stk_job *job)
{
	int32_t element = STK_PARAMS(stk_job_copy, job).element;
	const struct stk_job_dim *inner = &job->dim[job->ndim - 1];
	uint64_t all = (uintptr_t)job->dst | (uintptr_t)job->src[0];
	for (int32_t k = 0; k + 1 < job->ndim; k++)
		all |= (uint64_t)job->dim[k].dst | (uint64_t)job->dim[k].src[0];
	return element < 8 && inner->dst == element && inner->src[0] == element && !((inner->size | inner->begin | inner->end) & 1) &&
	       !(all & (uint64_t)(2 * element - 1));
}

static void pair(struct stk_job *job)
{
	struct stk_job_copy *copy = &STK_PARAMS_SET(stk_job_copy, job);
	int32_t element = copy->element;
	struct stk_job_dim *inner = &job->dim[job->ndim - 1];
	*inner = (struct stk_job_dim){inner->size / 2, inner->begin / 2, inner->end / 2, 2 * element, {2 * element, 0}};
	memcpy(copy->fill + element, copy->fill, (size_t)element);
	copy->element *= 2;
	job->n /= 2;
}

static void widen(struct stk_job *job)
{
	while (STK_PARAMS(stk_job_copy, job).element && job->ndim && may_pair(job))
		pair(job);
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	bool moves = STK_PARAMS(stk_job_copy, &it->job).element != 0;
	if (it->flat.pieces)
		b->count[STK_LAUNCH_copy + (moves ? FLAT : FLAT_CONVERT)] += stk__job_piece_blocks(it);
	else
		b->count[STK_LAUNCH_copy + ANY] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_copy = {
	STK_JOB_LAUNCHES_OF(copy, launches), .flat = flat, .joins = joins, .close = widen, .blocks = blocks};
