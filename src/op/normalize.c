/* SPDX-License-Identifier: Apache-2.0
 * normalize: (x - mean) / stddev, both measured on the sample or given. */
#include "kernel/convert.h"
#include "op/slice_args.h"

#include <string.h>

struct normalize {
	struct stk_ints axes;
	const char *axis_names;
	struct stk_floats mean, stddev;
	bool batch;
	int64_t ddof;
	float epsilon, scale, shift;
	int32_t dtype;
};

static const struct stk_arg_def normalize_args[] = {
	STK_ARG(struct normalize, axes, STK_ARG_INTS, NULL, (-STK_MAX_DIMS, STK_MAX_DIMS - 1), STK_SCALAR_OK,
		"Dims over which mean and standard deviation are taken; negative ones count from the end. Default: all."),
	STK_ARG(struct normalize, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0, "The same by letters of the layout."),
	STK_ARG(struct normalize, mean, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Mean: one value, or one for each place of the other dims. Default: the sample's."),
	STK_ARG(struct normalize, stddev, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"Standard deviation, in the same way. Default: the sample's, about the mean."),
	STK_ARG(struct normalize, batch, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Would measure over the whole batch, which is not supported yet."),
	STK_ARG(struct normalize, ddof, STK_ARG_INT, "0", (0, 0x1p31), 0, "Taken off the number of values when the variance is measured."),
	STK_ARG(struct normalize, epsilon, STK_ARG_FLOAT, "0.0", (0, HUGE_VAL), 0, "Added to the variance."),
	STK_ARG(struct normalize, scale, STK_ARG_FLOAT, "1.0", STK_FREE, 0, "Factor of the result."),
	STK_ARG(struct normalize, shift, STK_ARG_FLOAT, "0.0", STK_FREE, 0, "Added to the result."),
	STK_ARG(struct normalize, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output, to which values are rounded."),
	STK_ARG_END,
};

/* Which dims are reduced (a bit each), and how many groups the others make. */
struct reduction {
	uint32_t reduced;
	int64_t groups;
};

static enum stk_status reduction_of(const struct normalize *a, const struct stk_desc *in, struct reduction *out, struct stk_error *err)
{
	int32_t axes[STK_MAX_DIMS];
	*out = (struct reduction){(1u << in->ndim) - 1, 1};
	if (a->axes.count >= 0 || (a->axis_names && a->axis_names[0])) {
		int32_t n = stk__axes_of(a->axes, a->axis_names, in, axes, err);
		if (n < 0)
			return STK_INVALID;
		out->reduced = 0;
		for (int32_t i = 0; i < n; i++)
			out->reduced |= 1u << axes[i];
	}
	for (int32_t d = 0; d < in->ndim; d++)
		out->groups *= out->reduced >> d & 1 ? 1 : in->shape[d];
	return STK_OK;
}

static enum stk_status normalize_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct normalize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	call->out[0].desc.dtype = (enum stk_dtype)a->dtype;
	if (a->batch)
		return stk__fail(
			err, STK_UNSUPPORTED, "batch=True is not supported yet: mean and stddev are measured on each sample, or given");
	if (in->ndim < 0)
		return STK_OK;
	struct reduction r;
	enum stk_status s = reduction_of(a, in, &r, err);
	if (s || stk__building(call))
		return s;
	const struct stk_floats *given[] = {&a->mean, &a->stddev};
	for (int i = 0; i < 2; i++)
		if (given[i]->count >= 0 && given[i]->count != 1 && given[i]->count != r.groups)
			return stk__fail(err, STK_SHAPE, "%s has %d values where the dims that are not reduced have %lld places",
				i ? "stddev" : "mean", given[i]->count, (long long)r.groups);
	return STK_OK;
}

/* Walks all elements in order with the group that each belongs to: steps[d] is how far the group moves with dim d, 0 for reduced ones. */
struct walk {
	int32_t ndim;
	const int64_t *shape;
	int64_t index[STK_MAX_DIMS], steps[STK_MAX_DIMS], group;
};

static struct walk walk_begin(const struct stk_desc *d, const struct reduction *r)
{
	struct walk w = {.ndim = d->ndim, .shape = d->shape};
	int64_t step = 1;
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		if (r->reduced >> k & 1)
			continue;
		w.steps[k] = step;
		step *= d->shape[k];
	}
	return w;
}

static inline void walk_next(struct walk *w)
{
	for (int32_t k = w->ndim - 1; k >= 0; k--) {
		w->group += w->steps[k];
		if (++w->index[k] < w->shape[k])
			return;
		w->index[k] = 0;
		w->group -= w->steps[k] * w->shape[k];
	}
}

/* x: in[0], or what it was converted to. */
static void add_job(const struct stk_call *call, const struct stk_tensor *x, const struct reduction *r, struct stk_array_jobs *jobs)
{
	const struct normalize *a = call->args;
	struct stk_array_normalize n = {.mean = a->mean.count >= 0 ? a->mean.v : NULL,
		.n_mean = a->mean.count,
		.stddev = a->stddev.count >= 0 ? a->stddev.v : NULL,
		.n_stddev = a->stddev.count,
		.ddof = a->ddof,
		.epsilon = a->epsilon,
		.scale = a->scale,
		.shift = a->shift};
	stk__array_normalize(jobs, &n, x, &call->out[0], r->reduced);
}

static enum stk_status normalize_run(const struct stk_call *call, struct stk_error *err)
{
	const struct normalize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct reduction r;
	enum stk_status s = reduction_of(a, in, &r, err);
	int64_t n = stk_desc_elements(in);
	if (s || n == 0)
		return s;
	if (n > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT, "tensors of up to %d values are normalised, not of %lld", STK_ARRAY_MOST, (long long)n);
	const void *data;
	if ((s = stk__input_as(call, STK_FLOAT, &data, err)))
		return s;
	const float *x = data;
	float *y = a->dtype == STK_FLOAT ? call->out[0].data : stk__arena_take(call->tools->arena, (size_t)n * sizeof *y);
	double *stats = stk__arena_take(call->tools->arena, 2 * (size_t)r.groups * sizeof *stats);
	if (!y || !stats)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to normalise %lld values", (long long)n);
	struct stk_tensor floats = {(void *)(uintptr_t)x, *in};
	struct stk_array_job job;
	floats.desc.dtype = STK_FLOAT;
	add_job(call, &floats, &r, &(struct stk_array_jobs){&job, 0});
	job.normalize.stats = stats;
	stk__array_measure(&job);
	struct walk w = walk_begin(in, &r);
	for (int64_t i = 0; i < n; i++, walk_next(&w))
		y[i] = (float)((x[i] - stats[2 * w.group]) * stats[2 * w.group + 1] + a->shift);
	if (a->dtype != STK_FLOAT)
		stk__convert(call->out[0].data, (enum stk_dtype)a->dtype, y, STK_FLOAT, n);
	return STK_OK;
}

static enum stk_status normalize_lower_array(const struct stk_call *call, struct stk_array_jobs *jobs, struct stk_error *err)
{
	struct reduction r;
	enum stk_status s = reduction_of(call->args, &call->in[0].desc, &r, err);
	if (s)
		return s;
	if (stk_desc_elements(&call->in[0].desc) > 0)
		add_job(call, &call->in[0], &r, jobs);
	return STK_OK;
}

/* Mean and stddev that are given, of each channel or of all, make a multiplication and an addition a value: a step of a pass. */
static void normalize_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct normalize *a = call->args;
	float scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS];
	for (int32_t c = 0; c < pass->c; c++) {
		double sd = a->stddev.v[a->stddev.count == 1 ? 0 : c], variance = sd * sd + a->epsilon;
		double factor = variance > 0 ? a->scale / sqrt(variance) : 0;
		scale[c] = (float)factor;
		bias[c] = (float)(a->shift - a->mean.v[a->mean.count == 1 ? 0 : c] * factor);
	}
	stk__pass_affine(pass, scale, bias, (enum stk_dtype)a->dtype);
}

static unsigned normalize_classify(const void *args, const struct stk_desc *in)
{
	const struct normalize *a = args;
	struct reduction r;
	struct stk_dims dims;
	if (a->mean.count < 1 || a->stddev.count < 1 || !stk__dtype_in_float((enum stk_dtype)a->dtype))
		return STK_CLASS_NEVER;
	if (!in || stk__dims_of(in, &dims, NULL) || !dims.known || (dims.c >= 0 && dims.c != in->ndim - 1) || reduction_of(a, in, &r, NULL))
		return STK_CLASS_NEVER;
	int64_t channels = stk__dims_channels(&dims, in);
	bool by_channel = dims.c >= 0 && r.reduced == (1u << dims.c) - 1, by_all = a->mean.count == 1 && a->stddev.count == 1;
	if (channels < 1 || channels > STK_PASS_MAX_CHANNELS || !(by_channel || by_all))
		return STK_CLASS_NEVER;
	return stk__classes_for(in, STK_CLASS_POINTWISE);
}

const struct stk_op_def stk__op_normalize = {
	.name = "normalize",
	.doc = "Normalises tensors by mean and standard deviation.\n\n"
	       "Gives scale * (x - mean) / sqrt(stddev^2 + epsilon) + shift. What is not given is measured on each sample, over axes. "
	       "Where the standard\n"
	       "deviation is 0, the result is shift.",
	.inputs = {1, 1},
	.args = normalize_args,
	.args_size = sizeof(struct normalize),
	.layouts = "HWC FHWC HW",
	.classes = STK_CLASS_POINTWISE,
	.classify = normalize_classify,
	.infer = normalize_infer,
	.run_cpu = normalize_run,
	.lower_array = normalize_lower_array,
	.lower = normalize_lower,
};
