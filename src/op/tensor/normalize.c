/* SPDX-License-Identifier: Apache-2.0
 * normalize: (x - mean) / stddev, where mean and stddev are given, or computed from the sample or its batch. */
#include "kernel/reduce/normalize.h"
#include "kernel/reduce/reduce.h"
#include "op/geometry/slice_args.h"

#include <string.h>

struct normalize {
	struct stk_ints axes;
	const char *axis_names;
	struct stk_floats mean;
	struct stk_ints mean_shape;
	struct stk_floats stddev;
	struct stk_ints stddev_shape;
	bool batch;
	int64_t ddof;
	float epsilon, scale, shift;
	int32_t dtype;
};

static const struct stk_arg_def normalize_args[] = {
	STK_ARG(struct normalize, axes, STK_ARG_INTS, NULL, STK_FREE, STK_SCALAR_OK,
		"Dims over which mean and standard deviation are taken; negative ones count from the end. Default: those in which a mean or "
		"stddev that is a tensor with the input's number of dims has extent 1; else all."),
	STK_ARG(struct normalize, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0, "The same as letters of the layout."),
	STK_ARG(struct normalize, mean, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK | STK_SHAPED,
		"Mean: one value, or one for each place of the other dims. Default: the sample's."),
	STK_ARG(struct normalize, stddev, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK | STK_SHAPED,
		"Standard deviation, in the same way. Default: the sample's, about the mean."),
	STK_ARG(struct normalize, batch, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Measures over the whole batch; the dims that are not reduced must have the same extents in all samples."),
	STK_ARG(struct normalize, ddof, STK_ARG_INT, "0", (0, 0x1p31), 0,
		"Subtracted from the number of values when the variance is "
		"measured."),
	STK_ARG(struct normalize, epsilon, STK_ARG_FLOAT, "0.0", (0, HUGE_VAL), 0, "Added to the variance."),
	STK_ARG(struct normalize, scale, STK_ARG_FLOAT, "1.0", STK_FREE, 0, "Factor of the result."),
	STK_ARG(struct normalize, shift, STK_ARG_FLOAT, "0.0", STK_FREE, 0, "Added to the result."),
	STK_ARG(struct normalize, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output, to which values are rounded."),
	STK_ARG_END,
};

/* The elements that share a mean form a group. reduced: bit d is set if dim d is reduced; groups: number of groups, which is the product of the other dims'
 * extents. */
struct reduction {
	uint32_t reduced;
	int64_t groups;
};

/* Returns the extents of a given mean or stddev if it is a tensor with the input's dims, otherwise NULL. */
static const int64_t *extents_of(const struct stk_ints *shape, const struct stk_desc *in)
{
	return shape->count == in->ndim && in->ndim > 0 ? shape->v : NULL;
}

/* Returns a mask of the dims that are reduced if `axes` is not given: those along which given mean and stddev do not vary, or all if neither is given. */
static uint32_t reduced_by_default(const struct normalize *a, const struct stk_desc *in)
{
	uint32_t reduced = (1u << in->ndim) - 1;
	if (a->mean_shape.count < 0 && a->stddev_shape.count < 0)
		return reduced;
	const int64_t *given[] = {extents_of(&a->mean_shape, in), extents_of(&a->stddev_shape, in)};
	for (int i = 0; i < 2; i++)
		for (int32_t d = 0; given[i] && d < in->ndim; d++)
			reduced &= given[i][d] == 1 ? ~0u : ~(1u << d);
	return reduced;
}

static enum stk_status reduction_of(const struct normalize *a, const struct stk_desc *in, struct reduction *out, struct stk_error *err)
{
	int32_t axes[STK_MAX_DIMS];
	*out = (struct reduction){reduced_by_default(a, in), 1};
	if (stk_desc_elements(in) > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "a tensor to normalise may have at most %d values, not %lld", STK_JOB_MOST,
			(long long)stk_desc_elements(in));
	if (a->axes.count >= 0 || (a->axis_names && a->axis_names[0])) {
		int32_t n = stk__axes_of(a->axes, a->axis_names, in, axes, err);
		if (n < 0)
			return (enum stk_status) - n;
		out->reduced = 0;
		for (int32_t i = 0; i < n; i++)
			out->reduced |= 1u << axes[i];
	}
	for (int32_t d = 0; d < in->ndim; d++)
		out->groups *= out->reduced >> d & 1 ? 1 : in->shape[d];
	return STK_OK;
}

static enum stk_status check_given(const struct normalize *a, const struct stk_desc *in, const struct reduction *r, struct stk_error *err)
{
	if (a->mean.count < 0 && a->stddev.count < 0)
		return STK_OK;
	const struct stk_floats *given[] = {&a->mean, &a->stddev};
	const struct stk_ints *shapes[] = {&a->mean_shape, &a->stddev_shape};
	const int64_t *extents[] = {extents_of(shapes[0], in), extents_of(shapes[1], in)};
	for (int i = 0; i < 2; i++) {
		if (given[i]->count > 1 && shapes[i]->count > 1 && shapes[i]->count != in->ndim)
			return stk__fail(err, STK_SHAPE, "%s has %d dims, and the input %d: give it as many, or one", i ? "stddev" : "mean",
				shapes[i]->count, in->ndim);
		for (int32_t d = 0; extents[i] && given[i]->count != 1 && d < in->ndim; d++)
			if (extents[i][d] != (r->reduced >> d & 1 ? 1 : in->shape[d]))
				return stk__fail(err, STK_SHAPE, "%s has extent %lld in dim %d; it must be %lld", i ? "stddev" : "mean",
					(long long)extents[i][d], d, (long long)(r->reduced >> d & 1 ? 1 : in->shape[d]));
		if (given[i]->count >= 0 && given[i]->count != 1 && given[i]->count != r->groups)
			return stk__fail(err, STK_SHAPE, "%s has %d values, but the dims that are not reduced have %lld places",
				i ? "stddev" : "mean", given[i]->count, (long long)r->groups);
	}
	return STK_OK;
}

static enum stk_status normalize_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct normalize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	call->out[0].desc.dtype = (enum stk_dtype)a->dtype;
	if (a->batch && (stk__varies(call, &a->mean) || stk__varies(call, &a->stddev)))
		return stk__fail(err, STK_INVALID,
			"with batch=True all samples share one mean and one stddev: give them as numbers, or leave them out");
	if (in->ndim < 0)
		return STK_OK;
	struct reduction r;
	enum stk_status s = reduction_of(a, in, &r, err);
	return s || stk__building(call) ? s : check_given(a, in, &r, err);
}

static double factor_of(const struct normalize *a, double variance)
{
	variance += a->epsilon;
	return variance > 0 ? a->scale / sqrt(variance) : 0;
}

/* Computes mean and factor of each group, from the arguments or from the samples of all calls, which must have the same groups. factor: scale /
 * sqrt(variance + epsilon), or 0 if that sum is 0. */
static void measure(const struct stk_call *calls, int32_t count, const struct reduction *r, double *mean, double *factor)
{
	const struct normalize *a = calls[0].args;
	int64_t values = 0;
	struct stk_job_groups groups;
	for (int32_t i = 0; i < count; i++)
		values += stk_desc_elements(&calls[i].in[0].desc) / (r->groups ? r->groups : 1);
	memset(mean, 0, (size_t)r->groups * sizeof *mean);
	memset(factor, 0, (size_t)r->groups * sizeof *factor);
	for (int32_t i = 0; a->mean.count < 0 && i < count; i++) {
		stk__job_groups(&groups, &calls[i].in[0].desc, r->reduced);
		stk__job_sums(&groups, &calls[i].in[0], NULL, mean);
	}
	for (int64_t g = 0; g < r->groups; g++)
		mean[g] = a->mean.count >= 0 ? a->mean.v[a->mean.count == 1 ? 0 : g] : values > 0 ? mean[g] / (double)values : 0;
	for (int32_t i = 0; a->stddev.count < 0 && i < count; i++) {
		stk__job_groups(&groups, &calls[i].in[0].desc, r->reduced);
		stk__job_sums(&groups, &calls[i].in[0], mean, factor);
	}
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

/* Measures the batch: stores the means of all groups, then their factors, in *out. */
static enum stk_status normalize_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	struct reduction r;
	const struct stk_desc *first = &calls[0].in[0].desc;
	enum stk_status s = reduction_of(calls[0].args, first, &r, err);
	if (s || (s = check_given(calls[0].args, first, &r, err)) || (s = stk__gather_same(calls, count, ~r.reduced, err)))
		return s;
	double *mean = stk__gathered_take(out, 2 * (size_t)r.groups * sizeof *mean);
	if (!mean)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to measure a batch");
	measure(calls, count, &r, mean, mean + r.groups);
	return STK_OK;
}

/* Sets *given to an array of n->n_mean means and then n->n_factor factors, which gather has measured or the user has given. Each of the two numbers is 1
 * (one value for all groups), the number of groups, or 0 if the job must measure the values on the sample. *given is NULL if both are 0. */
static enum stk_status given_stats(
	const struct stk_call *call, const struct reduction *r, struct stk_job_normalize *n, const double **given, struct stk_error *err)
{
	const struct normalize *a = call->args;
	*given = call->gathered;
	n->n_mean = call->gathered ? (int32_t)r->groups : a->mean.count < 0 ? 0 : a->mean.count;
	n->n_factor = call->gathered ? (int32_t)r->groups : a->stddev.count < 0 ? 0 : a->stddev.count;
	if (call->gathered || n->n_mean + n->n_factor == 0)
		return STK_OK;
	double *own = stk__arena_take(call->tools->arena, (size_t)(n->n_mean + n->n_factor) * sizeof *own);
	if (!own)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d numbers", n->n_mean + n->n_factor);
	for (int32_t i = 0; i < n->n_mean; i++)
		own[i] = a->mean.v[i];
	for (int32_t i = 0; i < n->n_factor; i++)
		own[n->n_mean + i] = factor_of(a, (double)a->stddev.v[i] * a->stddev.v[i]);
	*given = own;
	return STK_OK;
}

static enum stk_status normalize_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct normalize *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	struct stk_job_normalize n = {.ddof = a->ddof, .epsilon = a->epsilon, .scale = a->scale, .shift = a->shift};
	struct reduction r;
	const double *given;
	enum stk_status s = reduction_of(a, &in->desc, &r, err);
	if (s || (s = given_stats(call, &r, &n, &given, err)))
		return s;
	return stk__job_normalize(jobs, &n, given, in, &call->out[0], r.reduced, err);
}

/* Adds the normalisation to a pass, as one multiplication and one addition for each value. normalize_classify allows this if mean and stddev are given, or
 * were measured over the batch (call->gathered), and are the same for all values of a channel. */
static void normalize_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct normalize *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	float scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS];
	double given[2 * STK_PASS_MAX_CHANNELS];
	struct reduction r = {.groups = a->mean.count > a->stddev.count ? a->mean.count : a->stddev.count};
	if (call->gathered && reduction_of(a, in, &r, NULL))
		return; /* infer fails in this case, so this is never reached */
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

/* Lets a pass normalise images if mean and stddev are given or measured over the batch, and are the same for all values or for all values of a channel. If they
 * are measured, only 8-bit types use a pass: other values may be close together and far from 0, and then x * a + b in float32 loses digits. */
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
	       "Computes scale * (x - mean) / sqrt(stddev^2 + epsilon) + shift. If mean or stddev is not given, it is measured over "
	       "axes, on each sample or on the whole batch. If the standard\n"
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
	.lower_jobs = normalize_lower_jobs,
	.lower = normalize_lower,
};
