/* SPDX-License-Identifier: Apache-2.0
 * _subscript: implements x[...] of the bindings, with Python's rules. */
#include "kernel/convert/convert.h"
#include "kernel/copy/copy.h"
#include "op/dims.h"

#include <string.h>

struct subscript {
	struct stk_ints kinds, lo, hi, step, held;
	const char *new_names;
};

enum { KIND_INDEX, KIND_RANGE, KIND_FULL, KIND_NEW };

static const struct stk_arg_def subscript_args[] = {
	STK_ARG(struct subscript, kinds, STK_ARG_INTS, NULL, (0, 3), STK_REQUIRED,
		"For each dim: 0 an index, 1 a range, 2 the whole dim; 3 is a new dim of extent 1 before the next. Further dims are kept "
		"whole."),
	STK_ARG(struct subscript, lo, STK_ARG_INTS, NULL, STK_FREE, STK_REQUIRED,
		"Index or start; the smallest int64 stands for no start."),
	STK_ARG(struct subscript, hi, STK_ARG_INTS, NULL, STK_FREE, STK_REQUIRED, "End; the smallest int64 stands for no end."),
	STK_ARG(struct subscript, step, STK_ARG_INTS, NULL, STK_FREE, STK_REQUIRED, "Step, not 0; negative ones go backwards."),
	STK_ARG(struct subscript, held, STK_ARG_INTS, NULL, (0, STK_MAX_INPUTS - 1), 0,
		"For each of kinds three numbers: the inputs that contain lo, hi and step, each a whole number a sample; 0: use the value "
		"of the argument."),
	STK_ARG(struct subscript, new_names, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Letters of the new dims in the layout. Default: with new dims the output has no layout."),
	STK_ARG_END,
};

/* Sets *start and *count to the first index and the number of elements of the range lo:hi:step over `extent` elements, by the rule of
 * PySlice_AdjustIndices. */
static void resolve_range(int64_t lo, int64_t hi, int64_t step, int64_t extent, int64_t *start, int64_t *count)
{
	int64_t first = step > 0 ? 0 : extent - 1,
		last = step > 0 ? extent : -1; /* where a range begins and ends if lo and hi are not given */
	int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
	int64_t ends[2] = {lo, hi};
	for (int i = 0; i < 2; i++) {
		if (ends[i] == STK_INT_UNSET)
			ends[i] = i ? last : first;
		else {
			ends[i] += ends[i] < 0 ? extent : 0;
			ends[i] = ends[i] < low ? low : ends[i] > high ? high : ends[i];
		}
	}
	*start = ends[0];
	uint64_t span = step > 0 ? (uint64_t)(ends[1] - ends[0]) : (uint64_t)(ends[0] - ends[1]);
	uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
	bool empty = step > 0 ? ends[1] <= ends[0] : ends[0] <= ends[1];
	*count = empty ? 0 : (int64_t)((span + size - 1) / size);
}

/* One subscript. open: true if one of its values is in an input, which has no data while the graph is built. */
struct range {
	int64_t kind, lo, hi, step;
	bool open;
};

/* Sets *value to the number in input k, which must be one whole number. While the graph is built, only sets *open to true. */
static enum stk_status read_input(const struct stk_call *call, int64_t k, int64_t *value, bool *open, struct stk_error *err)
{
	if (k < 1 || k >= call->n_in)
		return stk__fail(err, STK_INVALID, "there is no input %lld to hold a subscript", (long long)k);
	const struct stk_tensor *t = &call->in[k];
	if (t->desc.dtype != STK_NO_DTYPE &&
		(!stk__dtype_whole(t->desc.dtype) || t->desc.dtype == STK_BOOL || stk__dtype_enumeration(t->desc.dtype)))
		return stk__fail(err, STK_INVALID, "subscripts must be whole numbers; this one is %s", stk_dtype_name(t->desc.dtype));
	if (t->desc.ndim > 0)
		return stk__fail(err, STK_SHAPE, "subscripts must be scalars; this one has %d dim%s: take an element of it with [0]",
			t->desc.ndim, t->desc.ndim == 1 ? "" : "s");
	*open |= stk__building(call);
	if (!stk__building(call))
		stk__convert(value, STK_INT64, t->data, t->desc.dtype, 1);
	return STK_OK;
}

/* Returns the index of the subscript for dim d of the input; -1: the dim has none. */
static int32_t subscript_of(const struct subscript *a, int32_t d)
{
	for (int32_t k = 0; k < a->kinds.count; k++)
		if (a->kinds.v[k] != KIND_NEW && d-- == 0)
			return k;
	return -1;
}

static enum stk_status read_range(const struct stk_call *call, int32_t d, struct range *r, struct stk_error *err)
{
	const struct subscript *a = call->args;
	int32_t k = subscript_of(a, d);
	*r = (struct range){.kind = KIND_FULL};
	if (k < 0)
		return STK_OK;
	*r = (struct range){a->kinds.v[k], a->lo.v[k], a->hi.v[k], a->step.v[k], false};
	int64_t *values[3] = {&r->lo, &r->hi, &r->step};
	enum stk_status s = STK_OK;
	for (int i = 0; i < 3 && a->held.count > 0 && s == STK_OK; i++)
		if (a->held.v[3 * k + i])
			s = read_input(call, a->held.v[3 * k + i], values[i], &r->open, err);
	if (s == STK_OK && r->kind == KIND_RANGE && r->step == 0 && !r->open)
		return stk__fail(err, STK_INVALID, "a step of 0 in dim %d", d);
	return s;
}

/* Computes start, step and number of elements of the subscript along dim d of the input; *count is -1 if it is not known yet. STK_SHAPE: an index is out
 * of range. */
static enum stk_status resolve(const struct stk_call *call, int32_t d, int64_t *start, int64_t *step, int64_t *count, struct stk_error *err)
{
	int64_t extent = call->in[0].desc.shape[d];
	struct range r;
	enum stk_status s = read_range(call, d, &r, err);
	*start = 0;
	*step = 1;
	*count = r.kind == KIND_INDEX ? 1 : r.open ? -1 : extent;
	if (s || r.open || extent < 0 || r.kind == KIND_FULL)
		return s;
	if (r.kind == KIND_INDEX) {
		*start = r.lo < 0 ? r.lo + extent : r.lo;
		if (*start < 0 || *start >= extent)
			return stk__fail(
				err, STK_SHAPE, "index %lld is out of range for dim %d of %lld", (long long)r.lo, d, (long long)extent);
		return STK_OK;
	}
	*step = r.step;
	resolve_range(r.lo, r.hi, r.step, extent, start, count);
	return STK_OK;
}

static enum stk_status subscript_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct subscript *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	int32_t n = a->kinds.count;
	*out = (struct stk_desc){.dtype = in->dtype, .ndim = -1};
	if (a->lo.count != n || a->hi.count != n || a->step.count != n || (a->held.count > 0 && a->held.count != 3 * n))
		return stk__fail(
			err, STK_INVALID, "kinds, lo, hi and step must have the same number of values, and held three times as many");
	if (in->ndim < 0)
		return STK_OK;
	int32_t news = 0;
	for (int32_t k = 0; k < n; k++)
		news += a->kinds.v[k] == KIND_NEW;
	if (n - news > in->ndim)
		return stk__fail(err, STK_SHAPE, "%d subscripts for a tensor of %d dims", n - news, in->ndim);
	if (in->ndim + news > STK_MAX_DIMS)
		return stk__fail(err, STK_LIMIT, "%d dims are too many; tensors have up to %d", in->ndim + news, STK_MAX_DIMS);
	bool named = a->new_names && a->new_names[0];
	if (named && ((int32_t)strlen(a->new_names) != news || (in->ndim > 0 && !in->layout[0])))
		return stk__fail(err, STK_INVALID, "a new axis can be named \"%s\" only in a tensor that has a layout", a->new_names);
	out->ndim = 0;
	const char *name = a->new_names;
	for (int32_t k = 0, d = 0; k < n || d < in->ndim; k++) {
		char letter = in->layout[0] ? in->layout[d] : 0;
		int64_t start, step, count = 1;
		if (k < n && a->kinds.v[k] == KIND_NEW) {
			letter = named ? *name++ : 0;
		} else {
			enum stk_status s = resolve(call, d++, &start, &step, &count, err);
			if (s)
				return s;
			if (k < n && a->kinds.v[k] == KIND_INDEX)
				continue;
		}
		out->shape[out->ndim] = count;
		out->layout[out->ndim++] = news && !named ? 0 : letter;
	}
	return STK_OK;
}

static enum stk_status subscript_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	int64_t start[STK_MAX_DIMS], step[STK_MAX_DIMS], count[STK_MAX_DIMS];
	struct stk_copy_dim dims[STK_MAX_DIMS];
	for (int32_t d = 0; d < in->ndim; d++) {
		enum stk_status s = resolve(call, d, &start[d], &step[d], &count[d], err);
		if (s)
			return s;
	}
	stk__copy_dims(dims, in->ndim, in->shape, NULL, start, step, count);
	const struct stk_tensor from = stk__stored(&call->in[0]), to = stk__stored(&call->out[0]);
	return stk__job_copy(jobs, &from, &to, dims, in->ndim, NULL, false, err);
}

const struct stk_op_def stk__op_subscript = {
	.name = "_subscript",
	.doc = "Takes a part of a tensor by indices and ranges, with Python's rules.",
	.inputs = {1, 1 + 3 * STK_MAX_DIMS},
	.host_inputs = ~1u,
	.args = subscript_args,
	.args_size = sizeof(struct subscript),
	.flags = STK_OP_HIDDEN | STK_OP_MOVES,
	.infer = subscript_infer,
	.lower_jobs = subscript_lower_jobs,
};
