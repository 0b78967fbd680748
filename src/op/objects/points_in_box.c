/* SPDX-License-Identifier: Apache-2.0
 * points_in_box: finds the points in a box whose sides are parallel to the axes. */
#include "op/objects/objects.h"

struct points_in_box {
	struct stk_floats lo, hi;
};

static const struct stk_arg_def points_in_box_args[] = {
	STK_ARG(struct points_in_box, lo, STK_ARG_FLOATS, NULL, STK_FREE, STK_REQUIRED | STK_SCALAR_OK | STK_INFINITE,
		"The box's lowest coordinates, one for each component of a point, or one for all."),
	STK_ARG(struct points_in_box, hi, STK_ARG_FLOATS, NULL, STK_FREE, STK_REQUIRED | STK_SCALAR_OK | STK_INFINITE,
		"The box's highest coordinates. Points on the border are in the box."),
	STK_ARG_END,
};

static enum stk_status check_corner(const char *name, struct stk_floats v, int64_t components, struct stk_error *err)
{
	if (v.count < 1 || (v.count != 1 && components >= 0 && v.count != components))
		return stk__fail(err, STK_INVALID, "%s has %d values for points of %lld components: give one, or one for each", name,
			v.count, (long long)components);
	return STK_OK;
}

static enum stk_status points_in_box_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct points_in_box *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	enum stk_status s = stk__objects_check(in, "points", 2, -1, err);
	if (s || (s = check_corner("lo", a->lo, in->ndim == 2 ? in->shape[1] : -1, err)) ||
		(s = check_corner("hi", a->hi, in->ndim == 2 ? in->shape[1] : -1, err)))
		return s;
	call->out[0].desc = (struct stk_desc){STK_BOOL, 1, {in->ndim == 2 ? in->shape[0] : -1}, ""};
	return STK_OK;
}

static enum stk_status points_in_box_run(const struct stk_call *call, struct stk_error *err)
{
	const struct points_in_box *a = call->args;
	const double *v;
	enum stk_status s = stk__objects_values(call, 0, &v, err);
	if (s)
		return s;
	uint8_t *out = call->out[0].data;
	int64_t n = call->in[0].desc.shape[0], components = call->in[0].desc.shape[1];
	for (int64_t i = 0; i < n; i++) {
		bool inside = true;
		for (int64_t k = 0; k < components; k++, v++)
			inside &= *v >= (double)a->lo.v[a->lo.count == 1 ? 0 : k] && *v <= (double)a->hi.v[a->hi.count == 1 ? 0 : k];
		out[i] = inside;
	}
	return STK_OK;
}

const struct stk_op_def stk__op_points_in_box = {
	.name = "points_in_box",
	.doc = "Decides which points are in a box whose sides are parallel to the axes.\n\n"
	       "Points are the rows of a tensor of two dims. The output is one bool for each point: true if all components are from lo "
	       "to hi.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = points_in_box_args,
	.args_size = sizeof(struct points_in_box),
	.infer = points_in_box_infer,
	.run_cpu = points_in_box_run,
};
