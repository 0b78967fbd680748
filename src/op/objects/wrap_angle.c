/* SPDX-License-Identifier: Apache-2.0
 * wrap_angle: adds multiples of 2 pi to angles, so that they lie between -pi and pi. */
#include "op/objects/objects.h"

#include "kernel/convert/convert.h"

static const struct stk_arg_def wrap_angle_args[] = {STK_ARG_END};

static enum stk_status wrap_angle_infer(const struct stk_call *call, struct stk_error *err)
{
	call->out[0].desc = call->in[0].desc;
	if (call->n_in > 1 && call->in[1].desc.ndim > 0)
		return stk__fail(err, STK_SHAPE, "the angle to add is a scalar; this tensor has %d dims", call->in[1].desc.ndim);
	return stk__objects_float(&call->in[0].desc, "angles", err);
}

static enum stk_status wrap_angle_run(const struct stk_call *call, struct stk_error *err)
{
	const double pi = 3.14159265358979323846, *v, *rotation = NULL;
	enum stk_status s = stk__objects_values(call, 0, &v, err);
	if (s || (call->n_in > 1 && (s = stk__objects_values(call, 1, &rotation, err))))
		return s;
	int64_t n = stk_desc_elements(&call->in[0].desc);
	double *out = stk__arena_take(call->tools->arena, ((size_t)n + 1) * sizeof *out);
	if (!out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld angles", (long long)n);
	for (int64_t i = 0; i < n; i++) {
		double a = v[i] + (rotation ? *rotation : 0);
		if (a > pi)
			a -= ceil((a - pi) / (2 * pi)) * (2 * pi);
		else if (a < -pi)
			a += ceil((-pi - a) / (2 * pi)) * (2 * pi);
		/* Rounding in the sums above may leave a large angle outside of -pi to pi. */
		out[i] = fabs(a) > pi ? remainder(v[i] + (rotation ? *rotation : 0), 2 * pi) : a;
	}
	stk__convert(call->out[0].data, call->out[0].desc.dtype, out, STK_FLOAT64, n);
	return STK_OK;
}

const struct stk_op_def stk__op_wrap_angle = {
	.name = "wrap_angle",
	.doc = "Wraps angles to the range from -pi to pi, by adding whole turns.\n\n"
	       "A second input, a scalar, is added first. Angles are float32 or float64, in radians.",
	.inputs = {1, 2},
	.host_inputs = 3,
	.args = wrap_angle_args,
	.args_size = 1,
	.infer = wrap_angle_infer,
	.run_cpu = wrap_angle_run,
};
