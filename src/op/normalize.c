/* SPDX-License-Identifier: Apache-2.0
 * normalize: (x - mean) / stddev, both measured on the sample or on its batch, or given. */
#include "kernel/convert/convert.h"
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
		"Measures over the whole batch; dims that are not reduced must then have the same extents in all samples."),
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
	if (stk_desc_elements(in) > STK_ARRAY_MOST)
		return stk__fail(err, STK_LIMIT, "tensors of up to %d values are normalised, not of %lld", STK_ARRAY_MOST,
			(long long)stk_desc_elements(in));
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

static enum stk_status check_given(const struct normalize *a, const struct reduction *r, struct stk_error *err)
{
	const struct stk_floats *given[] = {&a->mean, &a->stddev};
	for (int i = 0; i < 2; i++)
		if (given[i]->count >= 0 && given[i]->count != 1 && given[i]->count != r->groups)
			return stk__fail(err, STK_SHAPE, "%s has %d values where the dims that are not reduced have %lld places",
				i ? "stddev" : "mean", given[i]->count, (long long)r->groups);
	return STK_OK;
}

static enum stk_status normalize_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct normalize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	call->out[0].desc.dtype = (enum stk_dtype)a->dtype;
	if (a->batch && (stk__varies(call, &a->mean) || stk__varies(call, &a->stddev)))
		return stk__fail(err, STK_INVALID, "with batch=True all samples have one mean and one stddev: give numbers, or none");
	if (in->ndim < 0)
		return STK_OK;
	struct reduction r;
	enum stk_status s = reduction_of(a, in, &r, err);
	return s || stk__building(call) ? s : check_given(a, &r, err);
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

/* Adds up all values of a tensor, or their squared distances from the means, by group. */
static void add_up(const struct stk_tensor *in, const struct reduction *r, const double *about, double *sums)
{
	struct stk_array_job job;
	stk__array_normalize(&(struct stk_array_jobs){&job, 0}, &(struct stk_array_normalize){0}, in, in, r->reduced);
	stk__array_sums(&job, about, sums);
}

static double factor_of(const struct normalize *a, double variance)
{
	variance += a->epsilon;
	return variance > 0 ? a->scale / sqrt(variance) : 0;
}

/* Mean and factor (scale / stddev; 0 where nothing varies) of each group, given or measured on the samples of all calls. Their groups agree. */
static void measure(const struct stk_call *calls, int32_t count, const struct reduction *r, double *mean, double *factor)
{
	const struct normalize *a = calls[0].args;
	int64_t values = 0;
	for (int32_t i = 0; i < count; i++)
		values += stk_desc_elements(&calls[i].in[0].desc) / (r->groups ? r->groups : 1);
	memset(mean, 0, (size_t)r->groups * sizeof *mean);
	memset(factor, 0, (size_t)r->groups * sizeof *factor);
	for (int32_t i = 0; a->mean.count < 0 && i < count; i++)
		add_up(&calls[i].in[0], r, NULL, mean);
	for (int64_t g = 0; g < r->groups; g++)
		mean[g] = a->mean.count >= 0 ? a->mean.v[a->mean.count == 1 ? 0 : g] : values > 0 ? mean[g] / (double)values : 0;
	for (int32_t i = 0; a->stddev.count < 0 && i < count; i++)
		add_up(&calls[i].in[0], r, mean, factor);
	int64_t freedom = values - a->ddof;
	for (int64_t g = 0; g < r->groups; g++) {
		double sd = a->stddev.count < 0 ? 0 : a->stddev.v[a->stddev.count == 1 ? 0 : g];
		double variance = a->stddev.count >= 0 ? sd * sd : freedom > 0 ? factor[g] / (double)freedom : 0;
		factor[g] = factor_of(a, variance);
	}
}

static bool measures_batch(const struct normalize *a)
{
	return a->batch && (a->mean.count < 0 || a->stddev.count < 0);
}

static bool normalize_gathers(const struct stk_call *call)
{
	return measures_batch(call->args);
}

/* Means of all groups, then factors. */
static enum stk_status normalize_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	struct reduction r;
	const struct stk_desc *first = &calls[0].in[0].desc;
	enum stk_status s = reduction_of(calls[0].args, first, &r, err);
	if (s || (s = check_given(calls[0].args, &r, err)) || (s = stk__gather_same(calls, count, ~r.reduced, err)))
		return s;
	double *mean = stk__gathered_take(out, 2 * (size_t)r.groups * sizeof *mean);
	if (!mean)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to measure a batch");
	measure(calls, count, &r, mean, mean + r.groups);
	return STK_OK;
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
	const void *data;
	if ((s = stk__input_as(call, STK_FLOAT, &data, err)))
		return s;
	const float *x = data;
	float *y = a->dtype == STK_FLOAT ? call->out[0].data : stk__arena_take(call->tools->arena, (size_t)n * sizeof *y);
	double *own = call->gathered ? NULL : stk__arena_take(call->tools->arena, 2 * (size_t)r.groups * sizeof *own);
	if (!y || !(own || call->gathered))
		return stk__fail(err, STK_NO_MEMORY, "out of memory to normalise %lld values", (long long)n);
	if (own)
		measure(call, 1, &r, own, own + r.groups);
	const double *mean = own ? own : call->gathered, *factor = mean + r.groups;
	struct walk w = walk_begin(in, &r);
	for (int64_t i = 0; i < n; i++, walk_next(&w))
		y[i] = (float)((x[i] - mean[w.group]) * factor[w.group] + a->shift);
	if (a->dtype != STK_FLOAT)
		stk__convert(call->out[0].data, (enum stk_dtype)a->dtype, y, STK_FLOAT, n);
	return STK_OK;
}

/* What is given, one value or one a group, as a job takes it. */
static enum stk_status given_stats(
	const struct stk_call *call, const struct reduction *r, struct stk_array_normalize *n, struct stk_error *err)
{
	const struct normalize *a = call->args;
	int32_t means = a->mean.count < 0 ? 0 : a->mean.count, factors = a->stddev.count < 0 ? 0 : a->stddev.count;
	if (call->gathered) {
		n->mean = call->gathered;
		n->factor = n->mean + r->groups;
		n->n_mean = n->n_factor = (int32_t)r->groups;
		return STK_OK;
	}
	double *given = stk__arena_take(call->tools->arena, (size_t)(means + factors) * sizeof *given);
	if (!given)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d numbers", means + factors);
	for (int32_t i = 0; i < means; i++)
		given[i] = a->mean.v[i];
	for (int32_t i = 0; i < factors; i++)
		given[means + i] = factor_of(a, (double)a->stddev.v[i] * a->stddev.v[i]);
	n->mean = means ? given : NULL;
	n->factor = factors ? given + means : NULL;
	n->n_mean = means;
	n->n_factor = factors;
	return STK_OK;
}

static enum stk_status normalize_lower_array(const struct stk_call *call, struct stk_array_jobs *jobs, struct stk_error *err)
{
	const struct normalize *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	struct stk_array_normalize n = {.ddof = a->ddof, .epsilon = a->epsilon, .scale = a->scale, .shift = a->shift};
	struct reduction r;
	enum stk_status s = reduction_of(a, &in->desc, &r, err);
	if (s || stk_desc_elements(&in->desc) == 0 || (s = given_stats(call, &r, &n, err)))
		return s;
	stk__array_normalize(jobs, &n, in, &call->out[0], r.reduced);
	return STK_OK;
}

/* Mean and stddev that are known before the sample is read, of each channel or of all, make a multiplication and an addition a value: a step of a
 * pass. */
static void normalize_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct normalize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	float scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS];
	double given[2 * STK_PASS_MAX_CHANNELS];
	struct reduction r = {.groups = a->mean.count > a->stddev.count ? a->mean.count : a->stddev.count};
	if (call->gathered && reduction_of(a, in, &r, NULL))
		return; /* infer has refused it before */
	if (!call->gathered)
		measure(call, 1, &r, given, given + r.groups);
	const double *mean = call->gathered ? call->gathered : given, *factor = mean + r.groups;
	for (int32_t c = 0; c < pass->c; c++) {
		int32_t g = r.groups == 1 ? 0 : pass->plane + c;
		scale[c] = (float)factor[g];
		bias[c] = (float)(a->shift - mean[g] * factor[g]);
	}
	stk__pass_affine(pass, scale, bias, (enum stk_dtype)a->dtype);
}

/* What is measured on the batch can lie close together and far from 0, where x * a + b in float32 would lose digits: so only bytes take that way. */
static unsigned normalize_classify(const void *args, const struct stk_desc *in)
{
	const struct normalize *a = args;
	struct reduction r;
	struct stk_dims dims;
	bool given = a->mean.count > 0 && a->stddev.count > 0, bytes = in && (in->dtype == STK_UINT8 || in->dtype == STK_INT8);
	if (!(given || (measures_batch(a) && bytes)) || !stk__dtype_in_float((enum stk_dtype)a->dtype))
		return STK_CLASS_NEVER;
	if (!in || stk__dims_of(in, &dims, NULL) || !dims.known || (dims.c >= 0 && dims.c != in->ndim - 1) || reduction_of(a, in, &r, NULL))
		return STK_CLASS_NEVER;
	int64_t channels = stk__dims_channels(&dims, in);
	bool by_channel = dims.c >= 0 && r.reduced == (1u << dims.c) - 1;
	bool by_all = given ? a->mean.count == 1 && a->stddev.count == 1 : r.reduced == (1u << in->ndim) - 1;
	if (channels < 1 || channels > STK_PASS_MAX_CHANNELS || !(by_channel || by_all))
		return STK_CLASS_NEVER;
	return stk__classes_for(in, STK_CLASS_POINTWISE);
}

const struct stk_op_def stk__op_normalize = {
	.name = "normalize",
	.doc = "Normalises tensors by mean and standard deviation.\n\n"
	       "Gives scale * (x - mean) / sqrt(stddev^2 + epsilon) + shift. What is not given is measured over axes, on each sample or on "
	       "the whole batch. "
	       "Where the standard\n"
	       "deviation is 0, the result is shift.",
	.inputs = {1, 1},
	.args = normalize_args,
	.args_size = sizeof(struct normalize),
	.layouts = "HWC FHWC HW",
	.classes = STK_CLASS_POINTWISE,
	.classify = normalize_classify,
	.flags = STK_OP_GATHERS_DATA,
	.gather = normalize_gather,
	.gathers = normalize_gathers,
	.infer = normalize_infer,
	.run_cpu = normalize_run,
	.lower_array = normalize_lower_array,
	.lower = normalize_lower,
};
