/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array.h"

#include "kernel/array/array_element.h"
#include "kernel/convert/convert.h"

#include <assert.h>
#include <string.h>

/* ---- making jobs ---- */

static struct stk_array_job *append(
	struct stk_array_jobs *jobs, enum stk_array_kind kind, const struct stk_tensor *in, const struct stk_tensor *out)
{
	int64_t n = stk_desc_elements(&out->desc);
	assert(n >= 0 && n <= STK_ARRAY_MOST);
	struct stk_array_job *job = &jobs->v[jobs->count++];
	*job = (struct stk_array_job){.kind = kind,
		.n = (uint32_t)n,
		.dst = out->data,
		.dst_dtype = out->desc.dtype,
		.src = {in->data},
		.src_dtype = {in->desc.dtype}};
	return job;
}

/* Appends a dim, joining it with the one before where all sides run on without a gap, so that few divisions are left. */
static void append_dim(struct stk_array_job *job, struct stk_array_dim d)
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

/* Two elements that follow each other everywhere may move as one. */
static bool may_pair(const struct stk_array_job *job)
{
	int32_t element = job->copy.element;
	const struct stk_array_dim *inner = &job->dim[job->ndim - 1];
	uint64_t all = (uintptr_t)job->dst | (uintptr_t)job->src[0];
	for (int32_t k = 0; k + 1 < job->ndim; k++)
		all |= (uint64_t)job->dim[k].dst | (uint64_t)job->dim[k].src[0];
	return element < 8 && inner->dst == element && inner->src[0] == element && !((inner->size | inner->begin | inner->end) & 1) &&
	       !(all & (uint64_t)(2 * element - 1));
}

static void pair(struct stk_array_job *job)
{
	int32_t element = job->copy.element;
	struct stk_array_dim *inner = &job->dim[job->ndim - 1];
	*inner = (struct stk_array_dim){inner->size / 2, inner->begin / 2, inner->end / 2, 2 * element, {2 * element, 0}};
	memcpy(job->copy.fill + element, job->copy.fill, (size_t)element);
	job->copy.element *= 2;
	job->n /= 2;
}

void stk__array_copy(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out,
	const struct stk_copy_dim *dims, int ndim, const void *fill, bool convert)
{
	struct stk_array_job *job = append(jobs, STK_ARRAY_COPY, in, out);
	int64_t to = stk__array_size(job->dst_dtype), from = stk__array_size(job->src_dtype[0]);
	job->n = 1;
	for (int k = 0; k < ndim; k++) {
		int64_t begin, end;
		stk__copy_nd_valid(&dims[k], &begin, &end);
		job->src[0] += dims[k].start * dims[k].src * from;
		job->n *= (uint32_t)dims[k].size;
		append_dim(job, (struct stk_array_dim){(uint32_t)dims[k].size, (uint32_t)begin, (uint32_t)end, dims[k].dst * to,
					{dims[k].src * dims[k].step * from, 0}});
	}
	if (fill)
		memcpy(job->copy.fill, fill, (size_t)to);
	job->copy.element = convert || job->src_dtype[0] != job->dst_dtype ? 0 : (int32_t)to;
	while (job->copy.element && job->ndim && may_pair(job))
		pair(job);
}

void stk__array_plain(struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, bool convert)
{
	int64_t n = stk_desc_elements(&in->desc);
	struct stk_copy_dim all = {.size = n, .step = 1, .limit = n, .dst = 1, .src = 1};
	stk__array_copy(jobs, in, out, &all, 1, NULL, convert);
}

/* Stride in bytes along the output's dim d of an operand whose dims are matched from the last on. */
static int64_t broadcast_stride(const struct stk_desc *in, const struct stk_desc *out, int32_t d)
{
	int32_t k = d - (out->ndim - in->ndim);
	if (k < 0 || in->shape[k] == 1)
		return 0;
	int64_t stride = stk__array_size(in->dtype);
	for (int32_t i = in->ndim - 1; i > k; i--)
		stride *= in->shape[i];
	return stride;
}

void stk__array_arithmetic(
	struct stk_array_jobs *jobs, const struct stk_array_arithmetic *a, const struct stk_tensor *in, const struct stk_tensor *out)
{
	struct stk_array_job *job = append(jobs, STK_ARRAY_ARITHMETIC, &in[0], out);
	job->arithmetic = *a;
	if (a->operands == 2) {
		job->src[1] = in[1].data;
		job->src_dtype[1] = in[1].desc.dtype;
	}
	for (int32_t d = 0; d < out->desc.ndim; d++) {
		uint32_t size = (uint32_t)out->desc.shape[d];
		append_dim(job, (struct stk_array_dim){size, 0, size, broadcast_stride(&out->desc, &out->desc, d),
					{broadcast_stride(&in[0].desc, &out->desc, d),
						a->operands == 2 ? broadcast_stride(&in[1].desc, &out->desc, d) : 0}});
	}
}

static void append_axis(struct stk_array_axis *axes, int32_t *n, uint32_t size, int64_t stride)
{
	if (*n && axes[*n - 1].stride == stride * size)
		axes[*n - 1] = (struct stk_array_axis){axes[*n - 1].size * size, stride};
	else if (size != 1)
		axes[(*n)++] = (struct stk_array_axis){size, stride};
}

void stk__array_normalize(struct stk_array_jobs *jobs, const struct stk_array_normalize *n, const struct stk_tensor *in,
	const struct stk_tensor *out, uint32_t reduced)
{
	struct stk_array_job *job = append(jobs, STK_ARRAY_NORMALIZE, in, out);
	struct stk_array_normalize *to = &job->normalize;
	const struct stk_desc *d = &in->desc;
	*to = *n;
	to->groups = to->count = 1;
	to->n_kept = to->n_reduced = 0;
	int64_t strides[STK_MAX_DIMS], groups[STK_MAX_DIMS], stride = 1, group = 1;
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		strides[k] = stride;
		groups[k] = reduced >> k & 1 ? 0 : group;
		stride *= d->shape[k];
		group *= reduced >> k & 1 ? 1 : d->shape[k];
	}
	for (int32_t k = 0; k < d->ndim; k++) {
		uint32_t size = (uint32_t)d->shape[k];
		bool is_reduced = reduced >> k & 1;
		append_axis(is_reduced ? to->reduced : to->kept, is_reduced ? &to->n_reduced : &to->n_kept, size, strides[k]);
		*(is_reduced ? &to->count : &to->groups) *= size;
		append_dim(job, (struct stk_array_dim){size, 0, size, strides[k] * stk__array_size(job->dst_dtype),
					{strides[k] * stk__array_size(d->dtype), groups[k] * 2 * (int64_t)sizeof(double)}});
	}
}

void stk__array_one_hot(
	struct stk_array_jobs *jobs, const struct stk_tensor *in, const struct stk_tensor *out, int32_t axis, float on, float off)
{
	struct stk_array_job *job = append(jobs, STK_ARRAY_ONE_HOT, in, out);
	const struct stk_desc *d = &out->desc;
	int64_t outer = 1, inner = 1, to = stk__array_size(d->dtype), from = stk__array_size(in->desc.dtype);
	for (int32_t k = 0; k < d->ndim; k++)
		*(k < axis ? &outer : &inner) *= k == axis ? 1 : d->shape[k];
	uint32_t classes = (uint32_t)d->shape[axis];
	job->ndim = 3;
	job->dim[0] = (struct stk_array_dim){(uint32_t)outer, 0, (uint32_t)outer, classes * inner * to, {inner * from, 0}};
	job->dim[1] = (struct stk_array_dim){classes, 0, classes, inner * to, {0, 0}};
	job->dim[2] = (struct stk_array_dim){(uint32_t)inner, 0, (uint32_t)inner, to, {from, 0}};
	job->one_hot.classes = classes;
	job->one_hot.inner = (uint32_t)inner;
	stk__convert(job->one_hot.on, d->dtype, &on, STK_FLOAT, 1);
	stk__convert(job->one_hot.off, d->dtype, &off, STK_FLOAT, 1);
}

/* ---- measures ---- */

static inline float value_at(const uint8_t *x, int dtype)
{
	return dtype == STK_FLOAT ? *(const float *)(const void *)x : stk__array_float(x, dtype);
}

static inline double term(float x, const double *about)
{
	return about ? (x - *about) * (x - *about) : (double)x;
}

/* Adds a run of n values, of which the first is element k of the group, to the partial sums. */
static void add_run(double *sums, uint32_t k, const uint8_t *x, int dtype, int64_t step, uint32_t n, const double *about)
{
	float block[STK_ARRAY_LANES];
	for (uint32_t i = 0; i < n;) {
		uint32_t lane = (k + i) % STK_ARRAY_LANES, most = STK_ARRAY_LANES - lane, m = n - i < most ? n - i : most;
		if (step == stk__array_size(dtype))
			stk__convert(block, STK_FLOAT, x + (int64_t)i * step, (enum stk_dtype)dtype, m);
		else
			for (uint32_t j = 0; j < m; j++)
				block[j] = value_at(x + (int64_t)(i + j) * step, dtype);
		for (uint32_t j = 0; j < m; j++)
			sums[lane + j] += term(block[j], about);
		i += m;
	}
}

/* The sum over a group of the values, or of the squares of their distance from *about. */
static double sum_group(const struct stk_array_job *job, const uint8_t *base, const double *about)
{
	const struct stk_array_normalize *n = &job->normalize;
	const struct stk_array_axis one = {1, 1}, *inner = n->n_reduced ? &n->reduced[n->n_reduced - 1] : &one;
	int dtype = job->src_dtype[0];
	int64_t size = stk__array_size(dtype), step = inner->stride * size;
	double sums[STK_ARRAY_LANES], sum = 0;
	bool serial = n->count < STK_ARRAY_SERIAL;
	if (!serial)
		memset(sums, 0, sizeof sums);
	for (uint32_t k = 0; k < n->count; k += inner->size) {
		const uint8_t *x = base + stk__array_offset(n->reduced, n->n_reduced, k) * size;
		for (uint32_t i = 0; serial && i < inner->size; i++)
			sum += term(value_at(x + i * step, dtype), about);
		if (!serial)
			add_run(sums, k, x, dtype, step, inner->size, about);
	}
	for (uint32_t apart = serial ? 0 : STK_ARRAY_LANES / 2; apart > 0; apart /= 2)
		for (uint32_t i = 0; i < apart; i++)
			sums[i] += sums[i + apart];
	return serial ? sum : sums[0];
}

static const uint8_t *group_base(const struct stk_array_job *job, uint32_t group)
{
	const struct stk_array_normalize *n = &job->normalize;
	return job->src[0] + stk__array_offset(n->kept, n->n_kept, group) * stk__array_size(job->src_dtype[0]);
}

void stk__array_sums(const struct stk_array_job *job, const double *about, double *sums)
{
	for (uint32_t g = 0; job->n && g < job->normalize.groups; g++)
		sums[g] += sum_group(job, group_base(job, g), about ? &about[g] : NULL);
}

/* Mean and factor of all groups. */
static void measure(const struct stk_array_job *job)
{
	const struct stk_array_normalize *n = &job->normalize;
	for (uint32_t g = 0; job->n && g < n->groups; g++) {
		double mean = stk__array_mean(n, g, n->mean ? 0 : sum_group(job, group_base(job, g), NULL));
		n->stats[2 * g] = mean;
		n->stats[2 * g + 1] = stk__array_factor(n, g, n->factor ? 0 : sum_group(job, group_base(job, g), &mean));
	}
}

/* ---- running ---- */

size_t stk__array_scratch(const struct stk_array_job *job)
{
	return job->kind == STK_ARRAY_NORMALIZE ? 2 * sizeof(double) * job->normalize.groups : 0;
}

bool stk__array_run(const struct stk_array_job *given, void *scratch)
{
	struct stk_array_job job = *given;
	if (job.kind == STK_ARRAY_NORMALIZE) {
		job.normalize.stats = scratch;
		job.src[1] = scratch;
		measure(&job);
	}
	for (uint32_t i = 0; i < job.n; i++) {
		struct stk_array_place p = stk__array_place(&job, i);
		if (job.kind == STK_ARRAY_COPY)
			stk__array_copy_one(&job, &p);
		else if (job.kind == STK_ARRAY_NORMALIZE)
			stk__array_normalize_one(&job, &p);
		else if (job.kind == STK_ARRAY_ONE_HOT)
			stk__array_one_hot_one(&job, &p, i);
		else if (!stk__array_arithmetic_one(&job, &p))
			return false;
	}
	return true;
}
