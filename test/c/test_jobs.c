/* SPDX-License-Identifier: Apache-2.0
 * Jobs: compares the CPU's loops with a computation of one output at a time by the functions in KIND_one.h, and the GPU with the CPU, for random calls
 * (job_calls.h). Other tests compare the operators' results with NumPy and DALI. */
#include "job_calls.h"

#include "gpu_setup.h"
#include "libm_functions.h"
#include "spectrum_reference.h"

#include "kernel/arithmetic/arithmetic_one.h"
#include "kernel/bands/bands.h"
#include "kernel/convert/convert.h"
#include "kernel/copy/copy_one.h"
#include "kernel/debayer/debayer.h"
#include "kernel/decibels/decibels.h"
#include "kernel/enhance/enhance.h"
#include "kernel/equalize/equalize.h"
#include "kernel/equalize/equalize_element.h"
#include "kernel/filter/filter.h"
#include "kernel/filter/filter_element.h"
#include "kernel/job/job_gpu.h"
#include "kernel/job/job_place.h"
#include "kernel/jpeg_distortion/jpeg_distortion.h"
#include "kernel/jpeg_distortion/jpeg_distortion_element.h"
#include "kernel/one_hot/one_hot_one.h"
#include "kernel/points/points_one.h"
#include "kernel/pointwise/pointwise.h"
#include "kernel/pointwise/pointwise_element.h"
#include "kernel/preemphasis/preemphasis.h"
#include "kernel/reduce/normalize.h"
#include "kernel/reduce/normalize_one.h"
#include "kernel/reduce/reduce.h"
#include "kernel/resize/resize_one.h"
#include "kernel/sample/sample_one.h"
#include "kernel/sinc/sinc.h"
#include "kernel/transform/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 48, BATCHES = 30, MAX_JOBS = 16 * CALLS };

/* ---- comparing ---- */

static bool is_nan(const uint8_t *p, enum stk_dtype dtype)
{
	double v = 0;
	stk__convert(&v, STK_FLOAT64, p, dtype, 1);
	return v != v;
}

static bool close_to(const struct call *c, const uint8_t *got, const uint8_t *want)
{
	double a = 0, b = 0, unit = c->out.desc.dtype == STK_FLOAT16 ? 0x1p-9 : c->out.desc.dtype == STK_BFLOAT16 ? 0x1p-6 : 0x1p-22;
	stk__convert(&a, STK_FLOAT64, got, c->out.desc.dtype, 1);
	stk__convert(&b, STK_FLOAT64, want, c->out.desc.dtype, 1);
	return fabs(a - b) <= unit * fabs(b);
}

static void compare(const struct call *c, const uint8_t *got, bool on_gpu)
{
	const struct stk_desc *d = &c->out.desc;
	size_t size = stk_dtype_size(d->dtype), bytes = (size_t)stk_desc_bytes(d);
	for (size_t i = 0; i < bytes; i += size) {
		const uint8_t *a = got + i, *b = c->want + i;
		if (memcmp(a, b, size) == 0 || (is_nan(a, d->dtype) && is_nan(b, d->dtype)) ||
			(on_gpu && calls_libm(c->title) && close_to(c, a, b)))
			continue;
		double x = 0, y = 0;
		stk__convert(&x, STK_FLOAT64, a, d->dtype, 1);
		stk__convert(&y, STK_FLOAT64, b, d->dtype, 1);
		fail_msg("%s, %s of %d dims -> %s of %d dims, element %zu of %zu: %.17g instead of %.17g", c->title,
			stk_dtype_name(c->in[0].desc.dtype), c->in[0].desc.ndim, stk_dtype_name(d->dtype), d->ndim, i / size, bytes / size,
			x, y);
	}
	for (size_t i = bytes; i < bytes + 64; i++)
		assert_int_equal(got[i], 0xa5);
}

/* ---- storing jobs ---- */

struct kept_jobs {
	struct stk_jobs jobs;
	struct stk_job v[MAX_JOBS];
	int32_t count;
};

static enum stk_status keep_job(struct stk_jobs *jobs, const struct stk_job *job, struct stk_error *e)
{
	(void)e;
	struct kept_jobs *to = (struct kept_jobs *)jobs;
	assert_true(to->count < MAX_JOBS && job->n > 0);
	struct stk_job *kept = &to->v[to->count++];
	*kept = *job;
	if (job->constant_bytes) {
		void *copy = stk__arena_take(jobs->arena, job->constant_bytes);
		assert_non_null(copy);
		kept->constants = memcpy(copy, job->constants, job->constant_bytes);
	}
	return STK_OK;
}

/* ---- one output at a time ---- */

static double sum_of(const struct stk_job *job, uint32_t group, double mean, bool squares)
{
	const struct stk_job_groups *g = &STK_PARAMS(stk_job_normalize, job).groups;
	static double terms[MAX_VALUES], sums[STK_JOB_PARTIAL_SUMS];
	double sum = 0;
	for (uint32_t k = 0; k < g->count; k++) {
		int64_t at = stk__job_offset(g->kept, g->n_kept, group) + stk__job_offset(g->reduced, g->n_reduced, k);
		double x = (double)stk__job_float(job->src[0] + at * stk__job_size(job->src_dtype[0]), job->src_dtype[0]) - mean;
		terms[k] = squares ? x * x : x;
	}
	memset(sums, 0, sizeof sums);
	for (uint32_t k = 0; k < g->count; k++)
		*(g->count < STK_JOB_SERIAL ? &sum : &sums[k % STK_JOB_PARTIAL_SUMS]) += terms[k];
	for (int apart = STK_JOB_PARTIAL_SUMS / 2; apart > 0; apart /= 2)
		for (int i = 0; i < apart; i++)
			sums[i] += sums[i + apart];
	return g->count < STK_JOB_SERIAL ? sum : sums[0];
}

/* Allocates the job's work memory, which the caller frees. For a normalisation, stores the mean and the factor of each group in it, and makes job->src[1]
 * refer to them. */
static double *measure(struct stk_job *job)
{
	double *stats = malloc(job->work_bytes + 1);
	for (uint32_t k = 0; job->kind == STK_JOB_normalize && k < STK_PARAMS(stk_job_normalize, job).groups.groups; k++) {
		stats[2 * k] = stk__job_mean(job, k, sum_of(job, k, 0, false));
		stats[2 * k + 1] = stk__job_factor(job, k, sum_of(job, k, stats[2 * k], true));
	}
	if (job->kind == STK_JOB_normalize)
		job->src[1] = (const uint8_t *)stats;
	job->work = stats;
	return stats;
}

/* Runs all phases of a filter, one value at a time. */
static void run_filter(struct stk_job *job)
{
	int axes[STK_FILTER_PHASES], phases = stk__filter_phases(&STK_PARAMS(stk_filter, job), axes);
	struct stk_filter_data data = stk__job_filter_data(job);
	for (int k = 0; k < phases; k++)
		for (uint32_t i = 0; i < job->n * (k < phases - 1 ? STK_PARAMS(stk_filter, job).n_terms : 1); i++)
			stk__filter_one(&STK_PARAMS(stk_filter, job), &data, axes[k], k, phases, i);
}

static void run_resize(struct stk_job *job)
{
	job->work = malloc(job->work_bytes + 1);
	for (int k = 0; k < STK_PARAMS(stk_job_resize, job).phases; k++)
		for (uint32_t i = 0; i < stk__resize_outputs(&STK_PARAMS(stk_job_resize, job).phase[k]); i++)
			stk__job_resize_one(job, k, i);
	free(job->work);
}

static void run_equalize(struct stk_job *job)
{
	const struct stk_equalize *e = &STK_PARAMS(stk_equalize, job);
	struct stk_equalize_data data = stk__job_equalize_data(job);
	int32_t tiles = e->tiles_x ? e->tiles_x * e->tiles_y : 1, n = e->tiles_x ? e->tile_w * e->tile_h : e->width * e->height;
	for (int32_t t = 0; t < stk__equalize_tables(e); t++) {
		int32_t counts[STK_EQUALIZE_BINS] = {0};
		for (int32_t k = 0; k < n; k++)
			counts[e->tiles_x ? stk__equalize_tile_value(e, &data, t / tiles, t % tiles, k)
					  : stk__equalize_value(e, &data, t, k % e->width, k / e->width)]++;
		stk__equalize_table(e, counts, n, data.tables + (size_t)t * STK_EQUALIZE_BINS);
	}
	for (uint32_t i = 0; i < job->n; i++)
		stk__equalize_one(e, &data, i);
}

static void run_enhance(struct stk_job *job)
{
	const struct stk_enhance *e = &STK_PARAMS(stk_enhance, job);
	int32_t *means = job->work, measures = stk__enhance_measures(e), p[3];
	int64_t pixels = (int64_t)e->width * e->height;
	for (int64_t f = 0; f < e->frames && measures < e->n; f++) {
		uint64_t sum = 0;
		for (int64_t i = f * pixels; i < (f + 1) * pixels; i++) {
			stk__enhance_load(e, job->src[0] + i * e->channels, measures, 0, p);
			sum += (uint64_t)stk__enhance_luma(p);
		}
		means[f] = stk__enhance_mean(sum, (uint64_t)pixels);
	}
	for (uint32_t i = 0; i < job->n; i++)
		stk__enhance_one(e, job->src[0], job->dst, means, i);
}

/* Computes the elements of a group one by one, and combines them as reduce.h describes. */
static void reduce_one(const struct stk_job *job, uint32_t group)
{
	const struct stk_job_groups *g = &STK_PARAMS(stk_job_reduce, job).groups;
	union stk_job_value part[STK_JOB_PARTIAL_SUMS];
	int lanes = g->count < STK_JOB_SERIAL ? 1 : STK_JOB_PARTIAL_SUMS;
	for (int l = 0; l < lanes; l++)
		part[l] = stk__job_reduce_identity(job);
	for (uint32_t k = 0; k < g->count; k++) {
		int64_t at = stk__job_offset(g->kept, g->n_kept, group) + stk__job_offset(g->reduced, g->n_reduced, k);
		const uint8_t *x = job->src[0] + at * stk__job_size(job->src_dtype[0]);
		union stk_job_value *p = &part[k % (uint32_t)lanes];
		*p = stk__job_reduce_join(job, *p, stk__job_reduce_term(job, x, stk__job_reduce_mean(job, group)));
	}
	for (int apart = lanes / 2; apart > 0; apart /= 2)
		for (int l = 0; l < apart; l++)
			part[l] = stk__job_reduce_join(job, part[l], part[l + apart]);
	stk__job_reduce_store(job, job->dst + (int64_t)group * stk__job_size(job->dst_dtype), part[0]);
}

static void run_decibels(struct stk_job *job)
{
	const struct stk_decibels *p = &STK_PARAMS(stk_decibels, job);
	const float *x = (const float *)(const void *)job->src[0];
	float reference = p->reference;
	for (int64_t i = 0; i < job->n && p->reference == 0; i++)
		reference = x[i] > reference ? x[i] : reference;
	for (int64_t i = 0; i < job->n; i++)
		((float *)(void *)job->dst)[i] = stk__decibels_one(p, reference > 0 ? reference : 1, x[i]);
}

static void run_sinc(const struct stk_job *job)
{
	const struct stk_sinc *p = &STK_PARAMS(stk_sinc, job);
	float top = stk__sinc_largest(job->src_dtype[0]), largest = stk__sinc_largest(job->dst_dtype);
	bool moved = stk__sinc_unsigned(job->src_dtype[0]);
	for (int64_t i = 0; i < job->n; i++) {
		const struct stk_sinc_at at = stk__sinc_at(p, i / p->channels);
		const float *row = (const float *)job->constants + at.row * p->taps;
		float sum[2][STK_SINC_LANES] = {{0}};
		for (int32_t k = 0; k < p->taps; k++) {
			int64_t from = at.first + k, element = from * p->channels + i % p->channels;
			float x = 0;
			if (from >= 0 && from < p->in)
				x = stk__job_float(job->src[0] + element * stk__job_size(job->src_dtype[0]), job->src_dtype[0]);
			if (from >= 0 && from < p->in && top > 0)
				x = stk__sinc_load(x, (moved ? 2 : 1) / top, moved);
			sum[0][k % STK_SINC_LANES] += x * row[k];
			if (p->phases == 0)
				sum[1][k % STK_SINC_LANES] += x * row[p->taps + k];
		}
		float y = stk__sinc_join(sum[0]);
		y = p->phases ? y : y + at.part * (stk__sinc_join(sum[1]) - y);
		y = largest > 0 ? stk__sinc_store(y, largest, stk__sinc_unsigned(job->dst_dtype)) : y;
		stk__convert_one(job->dst + i * stk__job_size(job->dst_dtype), job->dst_dtype, &y, STK_FLOAT);
	}
}

/* Runs jobs of signals. Returns false for other kinds. */
static bool run_signal(struct stk_job *job)
{
	switch (job->kind) {
	case STK_JOB_preemphasis:
		for (uint32_t i = 0; i < job->n; i++)
			stk__preemphasis_one(job, i);
		return true;
	case STK_JOB_spectrum:
		spectrum_reference(job);
		return true;
	case STK_JOB_bands:
		for (uint32_t i = 0; i < job->n; i++)
			stk__bands_one(job, i);
		return true;
	case STK_JOB_sinc:
		run_sinc(job);
		return true;
	case STK_JOB_decibels:
		run_decibels(job);
		return true;
	default:
		return false;
	}
}

/* Runs jobs of images, phase by phase if they have several, and jobs of signals. Returns false for other kinds. */
static bool run_image(struct stk_job *job)
{
	struct stk_pointwise_data pointwise = stk__job_pointwise_data(job);
	const struct stk_jpeg_distortion *j = &STK_PARAMS(stk_jpeg_distortion, job);
	switch (job->kind) {
	case STK_JOB_filter:
		run_filter(job);
		return true;
	case STK_JOB_equalize:
		run_equalize(job);
		return true;
	case STK_JOB_resize:
		run_resize(job);
		return true;
	case STK_JOB_pointwise:
		for (uint32_t i = 0; i < job->n; i++)
			stk__pointwise_one(&STK_PARAMS(stk_pointwise, job), &pointwise, i);
		return true;
	case STK_JOB_debayer:
		for (uint32_t i = 0; i < job->n; i++)
			stk__debayer_one(&STK_PARAMS(stk_debayer, job), job->src[0], job->dst, i);
		return true;
	case STK_JOB_enhance:
		run_enhance(job);
		return true;
	case STK_JOB_transform:
		for (uint32_t i = 0; i < job->n; i++)
			stk__transform_one(&STK_PARAMS(stk_transform, job), job->src[0], job->dst, i);
		return true;
	case STK_JOB_jpeg_distortion:
		for (int phase = 0; phase < STK_JPEG_DISTORTION_PHASES; phase++)
			for (uint32_t i = 0; i < stk__jpeg_distortion_values(j, phase); i++)
				stk__jpeg_distortion_one(j, job->src[0], job->dst, job->work, phase, i);
		return true;
	default:
		return run_signal(job);
	}
}

/* Runs a job on the calling thread, one output at a time or, for the kinds of run_image, phase by phase. Returns false if it divides integers by 0. */
static bool run_one_by_one(struct stk_job *job)
{
	bool right = true;
	double *stats = measure(job);
	bool image = run_image(job);
	for (uint32_t i = 0; i < job->n && right && !image; i++) {
		struct stk_job_place p = {0};
		if (job->kind != STK_JOB_points && job->kind != STK_JOB_sample && job->kind != STK_JOB_reduce)
			p = stk__job_place(job, i);
		if (job->kind == STK_JOB_copy)
			stk__job_copy_one(job, &p);
		else if (job->kind == STK_JOB_normalize)
			stk__job_normalize_one(job, &p);
		else if (job->kind == STK_JOB_one_hot)
			stk__job_one_hot_one(job, &p, i);
		else if (job->kind == STK_JOB_points)
			stk__job_points_one(job, i);
		else if (job->kind == STK_JOB_sample)
			stk__job_sample_one(job, i);
		else if (job->kind == STK_JOB_reduce)
			reduce_one(job, i);
		else
			right = stk__job_arithmetic_one(job, &p);
	}
	free(stats);
	return right;
}

static void loops_do_what_elements_do(void **state)
{
	(void)state;
	static struct kept_jobs kept;
	int ran = 0, failed = 0;
	for (int i = 0; i < CALLS * BATCHES; i++) {
		static struct call c; /* static, since GCC's AddressSanitizer does not align its substitute for the stack to 64 bytes */
		used = 0;
		if (call_open(&c)) {
			kept.jobs.keep = keep_job;
			kept.jobs.arena = &c.arena;
			kept.count = 0;
			ok(c.call.def->lower_jobs(&c.call, &kept.jobs, &err));
			bool right = true;
			for (int32_t k = 0; k < kept.count; k++)
				right = run_one_by_one(&kept.v[k]) && right;
			assert_int_equal(right, c.status == STK_OK);
			if (right)
				compare(&c, c.out.data, false);
			ran++;
			failed += !right;
		}
		call_close(&c);
	}
	print_message("%d calls, %d of them divided by 0\n", ran, failed);
	assert_true(ran > CALLS * BATCHES * 3 / 4);
}

/* ---- the GPU ---- */

static int setup_space(void **state)
{
	space = malloc(SPACE);
	return setup(state);
}

static int teardown_space(void **state)
{
	free(space);
	return teardown(state);
}

static stk_gpu_ptr at_gpu(stk_gpu_ptr base, const void *p)
{
	return base + (size_t)((const uint8_t *)p - space);
}

/* Adds the call's jobs to `kept`, with tensors at the same offsets in device memory from `base` on, except those that the operator reads on the host. */
static void lower_for_gpu(struct call *c, stk_gpu_ptr base, struct kept_jobs *kept)
{
	struct stk_tensor in[4], out = c->out;
	struct stk_call call = c->call;
	for (int i = 0; i < call.n_in; i++) {
		in[i] = c->in[i];
		if (!(call.def->host_inputs >> i & 1))
			in[i].data = (void *)(uintptr_t)at_gpu(base, c->in[i].data);
	}
	out.data = (void *)(uintptr_t)at_gpu(base, c->out.data);
	call.in = in;
	call.out = &out;
	c->first_job = kept->count;
	kept->jobs.arena = &c->arena;
	ok(call.def->lower_jobs(&call, &kept->jobs, &err));
	c->n_jobs = kept->count - c->first_job;
}

/* Runs all calls in one batch. Copies the GPU's results to `space`, and its flags to `flags`. */
static void run_batch(struct stk_gpu_device *dev, struct call *calls, int n, uint32_t *flags)
{
	static struct kept_jobs kept;
	const struct stk_job *jobs = kept.v;
	struct stk_job_gpu_limits limits = {0};
	struct stk_job_gpu_kernels kernels;
	struct stk_job_gpu *batch;
	stk_gpu_ptr base, tables, work;
	ok(stk__job_gpu_kernels_load(dev, &kernels, &err));
	ok(stk__gpu_alloc(dev, SPACE, &base, &err));
	kept = (struct kept_jobs){.jobs = {.keep = keep_job}};
	for (int i = 0; i < n; i++)
		lower_for_gpu(&calls[i], base, &kept);
	uint32_t total = (uint32_t)kept.count;
	for (uint32_t k = 0; k < total; k++)
		stk__job_gpu_need(&jobs[k], &limits);
	struct stk_job_gpu_sizes sizes = stk__job_gpu_sizes(&limits);
	void *host = malloc(sizes.tables + 1);
	ok(stk__gpu_alloc(dev, sizes.tables + 1, &tables, &err));
	ok(stk__gpu_alloc(dev, sizes.work + 1, &work, &err));
	ok(stk__job_gpu_create(&limits, host, tables, work, &batch, &err));
	stk__job_gpu_begin(batch);
	for (uint32_t k = 0, index; k < total; k++) {
		assert_true(stk__job_gpu_add(batch, &jobs[k], &index));
		assert_int_equal(index, k);
	}
	assert_false(total && stk__job_gpu_add(batch, &jobs[0], NULL));
	ok(stk__gpu_upload(dev, NULL, base, space, SPACE, &err));
	ok(stk__gpu_upload(dev, NULL, tables, host, stk__job_gpu_end(batch), &err));
	ok(stk__job_gpu_launch(dev, &kernels, batch, NULL, &err));
	ok(stk__gpu_download(dev, NULL, space, base, SPACE, &err));
	ok(stk__gpu_download(dev, NULL, flags, tables, sizeof *flags * total, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	stk__job_gpu_destroy(batch);
	stk__gpu_free(dev, base);
	stk__gpu_free(dev, tables);
	stk__gpu_free(dev, work);
	free(host);
}

static void gpu_does_what_the_cores_do(void **state)
{
	struct gpu *g = *state;
	static struct call calls[CALLS];
	static uint32_t flags[MAX_JOBS];
	if (!g->dev)
		skip();
	for (int b = 0; b < BATCHES; b++) {
		int n = 0;
		used = 0;
		for (int i = 0; i < CALLS; i++)
			if (call_open(&calls[n]))
				n++;
			else
				call_close(&calls[n]);
		run_batch(g->dev, calls, n, flags);
		for (int i = 0; i < n; i++) {
			bool right = true;
			for (int32_t k = 0; k < calls[i].n_jobs; k++)
				right = right && !flags[calls[i].first_job + k];
			assert_int_equal(right, calls[i].status == STK_OK);
			if (right)
				compare(&calls[i], calls[i].out.data, true);
			call_close(&calls[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loops_do_what_elements_do),
		cmocka_unit_test(gpu_does_what_the_cores_do),
	};
	return cmocka_run_group_tests(tests, setup_space, teardown_space);
}
