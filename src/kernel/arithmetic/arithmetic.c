/* SPDX-License-Identifier: Apache-2.0
 * Makes arithmetic jobs, and describes them for the GPU. */
#include "kernel/arithmetic/arithmetic.h"

#include "kernel/arithmetic/arithmetic_run.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

/* Sets strides[] to the strides in bytes of an operand along the output's ndim dimensions. Dimensions are matched from the last one backwards, as in NumPy. */
static inline void broadcast_strides(const struct stk_desc *in, int32_t ndim, int64_t strides[STK_MAX_DIMS])
{
	int64_t stride = stk__job_size(in->dtype);
	for (int32_t d = ndim - 1, k = in->ndim - 1; d >= 0; d--, k--) {
		strides[d] = k < 0 || in->shape[k] == 1 ? 0 : stride;
		stride *= k < 0 ? 1 : in->shape[k];
	}
}

enum stk_status stk__job_arithmetic(struct stk_jobs *jobs, const struct stk_job_arithmetic *a, const struct stk_tensor *in,
	const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_job job;
	int32_t ndim = out->desc.ndim, last = a->operands - 1;
	int64_t first[STK_MAX_DIMS], second[STK_MAX_DIMS], dst = stk__job_size(out->desc.dtype), to[STK_MAX_DIMS];
	stk__job_begin(&job, STK_JOB_arithmetic, in, out, stk_desc_elements(&out->desc));
	if (job.n == 0)
		return STK_OK;
	STK_PARAMS_SET(stk_job_arithmetic, &job) = *a;
	job.src[1] = in[last].data;
	job.src_dtype[1] = in[last].desc.dtype;
	broadcast_strides(&in[0].desc, ndim, first);
	broadcast_strides(&in[last].desc, ndim, second);
	for (int32_t d = ndim - 1; d >= 0; d--) {
		to[d] = dst;
		dst *= out->desc.shape[d];
	}
	for (int32_t d = 0; d < ndim; d++)
		stk__job_append_dim(&job, (struct stk_job_dim){out->desc.shape[d], 0, out->desc.shape[d], to[d], {first[d], second[d]}});
	return jobs->keep ? jobs->keep(jobs, &job, err) : STK_JOB_LOOP(jobs, job.n, stk__arithmetic_run)(&job, err);
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_arithmetic added, indices among all kinds' launches. */
enum { ANY, FLAT_WHOLE, FLAT_REALS };
static const struct stk_job_launch launches[] = {
	[ANY] = {"arithmetic_gpu", "job_arithmetic", 0},
	[FLAT_WHOLE] = {"arithmetic_gpu_flat", "job_arithmetic_flat_whole", 0},
	[FLAT_REALS] = {"arithmetic_gpu_flat", "job_arithmetic_flat_reals", 0},
};

static bool joins(const struct stk_job *job, const struct stk_job *next)
{
	const struct stk_job_arithmetic *a = &STK_PARAMS(stk_job_arithmetic, job), *b = &STK_PARAMS(stk_job_arithmetic, next);
	return !b->divides && memcmp(a, b, sizeof *a) == 0;
}

static bool may_fail(const struct stk_job *job)
{
	return STK_PARAMS(stk_job_arithmetic, job).divides != 0;
}

/* Returns whether the flat kernels support the job. They compute sums, differences and products, and in float32 also quotients. These are the operations for
 * which computing in float32 gives the same as rounding a double result to float32. */
static bool serves(const struct stk_job *job)
{
	const struct stk_job_arithmetic *a = &STK_PARAMS(stk_job_arithmetic, job);
	int32_t op = a->op, first = job->src_dtype[0], second = job->src_dtype[1];
	if (op != STK_ARITH_OP_add && op != STK_ARITH_OP_sub && op != STK_ARITH_OP_mul &&
		((op != STK_ARITH_OP_fdiv && op != STK_ARITH_OP_div) || a->domain != STK_ARITH_DOUBLE))
		return false;
	if (a->domain != STK_ARITH_DOUBLE)
		return stk__in_int32(first) && stk__in_int32(second) && stk__in_int32(job->dst_dtype);
	return a->meet == STK_FLOAT && job->dst_dtype == STK_FLOAT && (stk__in_float(first) || stk__in_int32(first)) &&
	       (stk__in_float(second) || stk__in_int32(second));
}

static int32_t flat(const struct stk_job *job, bool *dense)
{
	*dense = false;
	return serves(job) ? stk__job_size(job->dst_dtype) : 0;
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	bool reals = STK_PARAMS(stk_job_arithmetic, &it->job).domain == STK_ARITH_DOUBLE;
	if (it->flat.pieces)
		b->count[STK_LAUNCH_arithmetic + (reals ? FLAT_REALS : FLAT_WHOLE)] += stk__job_piece_blocks(it);
	else
		b->count[STK_LAUNCH_arithmetic + ANY] += stk__job_blocks_of(it->job.n);
}

const struct stk_job_kind stk__job_kind_arithmetic = {
	STK_JOB_LAUNCHES_OF(arithmetic, launches), .flat = flat, .joins = joins, .may_fail = may_fail, .blocks = blocks};
