/* SPDX-License-Identifier: Apache-2.0
 * external_source: samples from a user's callback. The engine calls the callback and checks its tensors against the type, shape and layout that the graph
 * declares. */
#include "op/op.h"

#include <string.h>

struct external_source {
	int64_t num_outputs;
	struct stk_ints dtype, ndim;
	struct stk_strings layout;
	bool blocking, no_copy, repeat_last;
};

static const struct stk_arg_def external_source_args[] = {
	STK_ARG(struct external_source, num_outputs, STK_ARG_INT, "1", (1, STK_MAX_OUTPUTS), 0, "Number of tensors in a sample."),
	STK_ARG(struct external_source, dtype, STK_ARG_INTS, NULL, (-1, STK_DTYPE_COUNT - 1), STK_SCALAR_OK,
		"Types, one or one for each output; -1: any. Default: any; the types of all operators that follow are then not known before "
		"the run."),
	STK_ARG(struct external_source, ndim, STK_ARG_INTS, NULL, (-1, STK_MAX_DIMS), STK_SCALAR_OK,
		"Numbers of dims, one or one for each output; -1: any. Default: those of the layouts, else any."),
	STK_ARG(struct external_source, layout, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK,
		"Layouts, one or one for each output. Default: none."),
	STK_ARG(struct external_source, blocking, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: feeding always "
		"waits for room."),
	STK_ARG(struct external_source, no_copy, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: data is copied only "
		"if that is necessary."),
	STK_ARG(struct external_source, repeat_last, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Would feed the last batch again, which is not supported yet."),
	STK_ARG_END,
};

static int32_t external_source_outputs(const void *args)
{
	const struct external_source *a = args;
	return (int32_t)a->num_outputs;
}

static enum stk_status check_count(const char *name, int32_t count, int64_t outputs, struct stk_error *err)
{
	if (count < 0 || count == 1 || count == outputs)
		return STK_OK;
	return stk__fail(err, STK_INVALID, "%s has %d values for %lld outputs: give one, or one for each", name, count, (long long)outputs);
}

static enum stk_status external_source_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct external_source *a = call->args;
	enum stk_status s = check_count("dtype", a->dtype.count, a->num_outputs, err);
	if (s || (s = check_count("ndim", a->ndim.count, a->num_outputs, err)) ||
		(s = check_count("layout", a->layout.count, a->num_outputs, err)))
		return s;
	if (a->repeat_last)
		return stk__fail(err, STK_UNSUPPORTED, "repeat_last is not supported yet; feed the batch again");
	for (int32_t k = 0; k < call->n_out; k++) {
		struct stk_desc *d = &call->out[k].desc;
		const char *layout = a->layout.count > 0 ? a->layout.v[a->layout.count == 1 ? 0 : k] : "";
		int64_t ndim = a->ndim.count > 0 ? a->ndim.v[a->ndim.count == 1 ? 0 : k] : -1;
		size_t letters = strlen(layout);
		if (letters > STK_MAX_DIMS || (letters && ndim >= 0 && (size_t)ndim != letters))
			return stk__fail(err, STK_INVALID, "output %d has the layout \"%s\" and %lld dims", k, layout, (long long)ndim);
		*d = (struct stk_desc){.dtype = a->dtype.count > 0 ? (enum stk_dtype)a->dtype.v[a->dtype.count == 1 ? 0 : k] : STK_NO_DTYPE,
			.ndim = letters ? (int32_t)letters : (int32_t)ndim};
		memcpy(d->layout, layout, letters);
		for (int32_t i = 0; i < d->ndim; i++)
			d->shape[i] = -1;
	}
	return STK_OK;
}

const struct stk_op_def stk__op_external_source = {
	.name = "external_source",
	.doc = "Takes samples from a callback.\n\n"
	       "In C, stk_graph_set_source sets the callback; in Python, the argument `source`.",
	.output_count = external_source_outputs,
	.args = external_source_args,
	.args_size = sizeof(struct external_source),
	.flags = STK_OP_CALLBACK,
	.infer = external_source_infer,
};
