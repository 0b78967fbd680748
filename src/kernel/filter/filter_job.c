/* SPDX-License-Identifier: Apache-2.0
 * Makes filter jobs, and describes them for the GPU. */
#include "kernel/filter/filter.h"

#include "kernel/filter/filter_element.h"
#include "kernel/filter/filter_run.h"
#include "kernel/filter/filter_tile.h"
#include "kernel/filter/filter_words.h"
#include "kernel/job/job_kind.h"
#include "kernel/job/job_make.h"

static const struct stk_filter_kernels *filter_kernels(unsigned cpu)
{
#ifdef STK_X86
	if (cpu & STK_CPU_AVX2)
		return &stk__filter_kernels_avx2;
#endif
	(void)cpu;
	return &stk__filter_kernels_c;
}

enum stk_status stk__job_filter(struct stk_jobs *jobs, const struct stk_filter *f, const float *weights, int32_t n_weights,
	const struct stk_tensor *in, const struct stk_tensor *out, struct stk_error *err)
{
	bool from_input = f->dense && f->reduction == STK_FILTER_SUM && !weights;
	struct stk_job job = {
		.kind = STK_JOB_filter,
		.n = stk_desc_elements(&out->desc),
		.dst_dtype = out->desc.dtype,
		.src_dtype = {in[0].desc.dtype, STK_FLOAT},
		.dst = out->data,
		.src = {in[0].data, from_input ? in[1].data : NULL},
		.constants = weights,
		.constant_bytes = (uint64_t)n_weights * sizeof *weights,
	};
	STK_PARAMS_SET(stk_filter, &job) = *f;
	if (job.n == 0)
		return STK_OK;
	if (!jobs->keep) {
		struct stk_filter_data data = stk__job_filter_data(&job);
		return stk__filter_run(f, &data, filter_kernels(jobs->cpu), jobs->arena, err);
	}
	if (job.n * f->n_terms > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "the GPU filters tensors of up to %d values, not of %lld; place this operator on the CPU",
			STK_JOB_MOST / f->n_terms, (long long)job.n);
	job.work_bytes = stk__filter_work(f);
	return jobs->keep(jobs, &job, err);
}

/* ---- on the GPU ---- */

/* Indices of the kind's launches; with STK_LAUNCH_filter added, indices among all kinds' launches. PHASES and following: filters that compute
 * each output by itself, one launch for each phase. TILES and following: filters in tiles, one launch for each tiling. WORDS and WORD_EXTREMES: filters of
 * bytes in columns of words. */
enum { PHASES, TILES = PHASES + STK_FILTER_PHASES, WORDS = TILES + STK_FILTER_TILINGS, WORD_EXTREMES };
static const struct stk_job_launch launches[] = {
	[PHASES] = {"filter_gpu", "job_filter", 0},
	[PHASES + 1] = {"filter_gpu", "job_filter", 0},
	[PHASES + 2] = {"filter_gpu", "job_filter", 0},
	[TILES + STK_FILTER_SUM_TILES] = {"filter_gpu_tiles", "job_filter_sums", STK_FILTER_TILE_THREADS},
	[TILES + STK_FILTER_EXTREME_TILES] = {"filter_gpu_tiles", "job_filter_extremes", STK_FILTER_TILE_THREADS},
	[TILES + STK_FILTER_DENSE_TILES] = {"filter_gpu_tiles", "job_filter_dense", STK_FILTER_TILE_THREADS},
	[TILES + STK_FILTER_MEDIAN_TILES] = {"filter_gpu_tiles", "job_filter_median", STK_FILTER_TILE_THREADS},
	[WORDS] = {"filter_gpu_words", "job_filter_words", 0},
	[WORD_EXTREMES] = {"filter_gpu_extremes", "job_filter_word_extremes", 0},
};

/* Sets *work, the size in bytes of the work memory that the job requests, to 0 for filters in tiles, which need no work memory. */
static void memory(const struct stk_job *job, uint64_t *constants, uint64_t *work)
{
	(void)constants;
	if (stk__filter_tiling(&STK_PARAMS(stk_filter, job)) != STK_FILTER_NO_TILES)
		*work = 0;
}

static void blocks(const struct stk_job_gpu_item *it, struct stk_job_blocks *b)
{
	const struct stk_job *job = &it->job;
	const struct stk_filter *f = &STK_PARAMS(stk_filter, job);
	struct stk_filter_data data = stk__job_filter_data(job);
	uint32_t *count = b->count + STK_LAUNCH_filter, *shared = b->shared + STK_LAUNCH_filter;
	int tiling = stk__filter_tiling(f), axes[STK_FILTER_PHASES], phases = stk__filter_phases(f, axes);
	if (stk__filter_takes_words(f, &data)) {
		uint64_t words = (uint64_t)f->outer * stk__filter_words_across(f) * stk__filter_words_strips(f);
		count[f->reduction == STK_FILTER_SUM ? WORDS : WORD_EXTREMES] +=
			(uint32_t)((words + STK_JOB_THREADS - 1) / STK_JOB_THREADS);
		return;
	}
	if (tiling != STK_FILTER_NO_TILES) {
		struct stk_filter_tiles tiles = stk__filter_tiles(f);
		count[TILES + tiling] += (uint32_t)stk__filter_tile_blocks(f, &tiles);
		shared[TILES + tiling] = shared[TILES + tiling] > tiles.shared ? shared[TILES + tiling] : tiles.shared;
		return;
	}
	for (int k = 0; k < phases; k++)
		count[PHASES + k] += stk__job_blocks_of(k < phases - 1 ? job->n * f->n_terms : job->n);
}

const struct stk_job_kind stk__job_kind_filter = {STK_JOB_LAUNCHES_OF(filter, launches), .memory = memory, .blocks = blocks};
