/* SPDX-License-Identifier: Apache-2.0
 * reductions.*: reduce the elements along some dims to a sum, a mean, an extremum, ... */
#include "kernel/reduce/reduce.h"
#include "op/tensor/axes.h"

#include <string.h>

struct reduction {
	struct stk_ints axes;
	const char *axis_names;
	bool keep_dims;
	int32_t dtype;
	int64_t ddof;
};

#define AXES_ARGS                                                                                                                          \
	STK_ARG(struct reduction, axes, STK_ARG_INTS, NULL, STK_FREE, STK_SCALAR_OK,                                                       \
		"Dims that are reduced; negative ones count from the end. Default: all."),                                                 \
		STK_ARG(struct reduction, axis_names, STK_ARG_STRING, NULL, STK_FREE, 0, "The same as letters of the layout."),            \
		STK_ARG(struct reduction, keep_dims, STK_ARG_BOOL, "false", STK_FREE, 0,                                                   \
			"Keeps reduced dims, with extent 1; otherwise the output and its layout lose them.")

static const struct stk_arg_def extreme_args[] = {AXES_ARGS, STK_ARG_END};

static const struct stk_arg_def typed_args[] = {
	AXES_ARGS,
	STK_ARG(struct reduction, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output. Whole numbers are also summed in it: they wrap around, and are divided without a remainder. Default: "
		"see above."),
	STK_ARG_END,
};

static const struct stk_arg_def deviation_args[] = {
	AXES_ARGS,
	STK_ARG(struct reduction, ddof, STK_ARG_INT, "0", (-0x1p31, 0x1p31), 0,
		"Subtracted from the number of elements before the sum is divided by it."),
	STK_ARG_END,
};

/* ---- types ---- */

/* Returns the type that holds sums: int64 or uint64 for whole types, float64 for float64, and float32 for the other floats. */
static enum stk_dtype wide(enum stk_dtype t)
{
	bool with_sign = t == STK_INT8 || t == STK_INT16 || t == STK_INT32 || t == STK_INT64;
	return with_sign ? STK_INT64 : stk__dtype_whole(t) ? STK_UINT64 : t == STK_FLOAT64 ? STK_FLOAT64 : STK_FLOAT;
}

static enum stk_dtype default_dtype(enum stk_reduction op, enum stk_dtype in)
{
	if (op == STK_REDUCE_MIN || op == STK_REDUCE_MAX || in == STK_NO_DTYPE)
		return in;
	return op == STK_REDUCE_SUM ? wide(in) : in == STK_FLOAT64 ? STK_FLOAT64 : STK_FLOAT;
}

static enum stk_status check_dtype(enum stk_reduction op, enum stk_dtype in, enum stk_dtype out, struct stk_error *err)
{
	bool squares = op == STK_REDUCE_MEAN_SQUARE, whole = stk__dtype_whole(in);
	bool own = out == in && in != STK_BOOL && !(squares && whole), wider = (op == STK_REDUCE_SUM || squares) && out == wide(in);
	bool real = out == STK_FLOAT && in != STK_FLOAT64 && !(op == STK_REDUCE_SUM && whole && stk_dtype_size(in) == 8);
	if (in == STK_NO_DTYPE || out == default_dtype(op, in) || own || wider || real)
		return STK_OK;
	return stk__fail(err, STK_INVALID, "this reduction of %s cannot be computed as %s; leave dtype out, and cast the result",
		stk_dtype_name(in), stk_dtype_name(out));
}

/* ---- shapes ---- */

static enum stk_status reduced_dims(const struct reduction *a, const struct stk_desc *in, uint32_t *reduced, struct stk_error *err)
{
	if (stk_desc_elements(in) > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "a tensor to reduce may have at most %d values, not %lld", STK_JOB_MOST,
			(long long)stk_desc_elements(in));
	if (a->axes.count >= 0 || a->axis_names)
		return stk__axes_named(a->axes, a->axis_names, in, reduced, err);
	*reduced = (1u << in->ndim) - 1;
	return STK_OK;
}

static void reduce_shape(const struct reduction *a, const struct stk_desc *in, uint32_t reduced, struct stk_desc *out)
{
	out->ndim = 0;
	for (int32_t d = 0; d < in->ndim; d++) {
		bool gone = reduced >> d & 1;
		if (gone && !a->keep_dims)
			continue;
		out->shape[out->ndim] = gone ? 1 : in->shape[d];
		out->layout[out->ndim++] = in->layout[0] ? in->layout[d] : 0;
	}
}

/* Fails unless the given mean is float32 (or float64, if the input is float64 too) and has one value, or one for each group. */
static enum stk_status check_mean(const struct stk_call *call, uint32_t reduced, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *mean = &call->in[1].desc;
	if (mean->dtype != STK_NO_DTYPE && mean->dtype != STK_FLOAT && !(mean->dtype == STK_FLOAT64 && in->dtype == STK_FLOAT64))
		return stk__fail(err, STK_INVALID, "the mean must be float32%s, not %s; cast it",
			in->dtype == STK_FLOAT64 ? " or float64" : "", stk_dtype_name(mean->dtype));
	int64_t groups = 1, given = stk_desc_elements(mean);
	for (int32_t d = 0; d < in->ndim; d++)
		groups *= reduced >> d & 1 ? 1 : in->shape[d];
	if (stk__building(call) || given == 1)
		return STK_OK;
	bool fits = given == groups;
	for (int32_t d = 0; fits && mean->ndim == in->ndim && d < in->ndim; d++)
		fits = mean->shape[d] == (reduced >> d & 1 ? 1 : in->shape[d]);
	if (!fits)
		return stk__fail(err, STK_SHAPE,
			"the mean has %lld values, but the dims that are not reduced have %lld places; give one for all, or one for each",
			(long long)given, (long long)groups);
	return STK_OK;
}

static enum stk_status infer(const struct stk_call *call, enum stk_reduction op, struct stk_error *err)
{
	const struct reduction *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	uint32_t reduced;
	int32_t asked = call->def->args == typed_args ? a->dtype : -1;
	*out = (struct stk_desc){.dtype = stk__dtype_or(asked, default_dtype(op, in->dtype)), .ndim = -1};
	enum stk_status s = check_dtype(op, in->dtype, out->dtype, err);
	if (s || in->ndim < 0)
		return s;
	if ((s = reduced_dims(a, in, &reduced, err)) || (call->n_in > 1 && (s = check_mean(call, reduced, err))))
		return s;
	reduce_shape(a, in, reduced, out);
	return STK_OK;
}

static enum stk_status lower_jobs(const struct stk_call *call, enum stk_reduction op, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct reduction *a = call->args;
	uint32_t reduced;
	enum stk_status s = reduced_dims(a, &call->in[0].desc, &reduced, err);
	const struct stk_tensor *mean = call->n_in > 1 ? &call->in[1] : NULL;
	return s ? s : stk__job_reduce(jobs, op, a->ddof, &call->in[0], mean, &call->out[0], reduced, err);
}

/* ---- the operators ---- */

#define REDUCTION(symbol, op, title, count, table, ...)                                                                                    \
	static enum stk_status symbol##_infer(const struct stk_call *call, struct stk_error *err)                                          \
	{                                                                                                                                  \
		return infer(call, op, err);                                                                                               \
	}                                                                                                                                  \
	static enum stk_status symbol##_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)              \
	{                                                                                                                                  \
		return lower_jobs(call, op, jobs, err);                                                                                    \
	}                                                                                                                                  \
	const struct stk_op_def stk__op_reduce_##symbol = {.name = "reductions." title,                                                    \
		.doc = __VA_ARGS__,                                                                                                        \
		.inputs = {count, count},                                                                                                  \
		.args = table,                                                                                                             \
		.args_size = sizeof(struct reduction),                                                                                     \
		.infer = symbol##_infer,                                                                                                   \
		.lower_jobs = symbol##_lower_jobs};

#define MEANS "\n\nThe output is float32, or float64 for inputs of float64. The result for an empty tensor is NaN."

REDUCTION(sum, STK_REDUCE_SUM, "sum", 1, typed_args,
	"Adds elements along dims.\n\n"
	"The output is int64 or uint64 for whole numbers, float32 for floats, and float64 for inputs of float64. Whole numbers "
	"are summed exactly, floats in double.")
REDUCTION(mean, STK_REDUCE_MEAN, "mean", 1, typed_args, "Computes the mean of elements along dims." MEANS)
REDUCTION(
	mean_square, STK_REDUCE_MEAN_SQUARE, "mean_square", 1, typed_args, "Computes the mean of the squares of elements along dims." MEANS)
REDUCTION(rms, STK_REDUCE_RMS, "rms", 1, typed_args, "Computes the square root of the mean of the squares of elements along dims." MEANS)
REDUCTION(min, STK_REDUCE_MIN, "min", 1, extreme_args,
	"Finds the least element along dims.\n\n"
	"NaN are skipped. The result for an empty tensor is the largest number of the type.")
REDUCTION(max, STK_REDUCE_MAX, "max", 1, extreme_args,
	"Finds the greatest element along dims.\n\n"
	"NaN are skipped. The result for an empty tensor is the lowest number of the type.")
REDUCTION(std_dev, STK_REDUCE_STD_DEV, "std_dev", 2, deviation_args,
	"Computes the standard deviation of elements along dims.\n\n"
	"The second input is the mean, as float32: one value, or one for each place of the dims that are not reduced. The "
	"output is float32, or float64 for inputs of float64.")
REDUCTION(variance, STK_REDUCE_VARIANCE, "variance", 2, deviation_args,
	"Computes the variance of elements along dims.\n\n"
	"The second input is the mean, as float32: one value, or one for each place of the dims that are not reduced. The "
	"output is float32, or float64 for inputs of float64.")
