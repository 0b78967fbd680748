/* SPDX-License-Identifier: Apache-2.0
 * coord_transform: applies an affine map to points or colours. */
#include "kernel/points/points.h"
#include "op/dims.h"

#include <string.h>

struct coord_transform {
	struct stk_floats M;
	struct stk_ints M_shape;
	struct stk_floats T, MT;
	struct stk_ints MT_shape;
	int32_t dtype;
};

struct points_map {
	struct stk_job_points points;
	float matrix[STK_POINT_COMPONENTS * (STK_POINT_COMPONENTS + 1)];
};

#define MATRIX(member, text)                                                                                                               \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_FLOATS, .flags = STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK | STK_SHAPED,             \
		.offset = offsetof(struct coord_transform, member), .min = -HUGE_VAL, .max = HUGE_VAL, .shapes = true, .doc = text         \
	}

static const struct stk_arg_def coord_transform_args[] = {
	MATRIX(M,
		"Matrix, row by row, with a column for each component of the input's points and a row for each component of the output's; "
		"or one value, a factor of all components. Default: 1."),
	STK_ARG(struct coord_transform, T, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SCALAR_OK,
		"Translation, one value for each component of the output's points, or one for all. Default: 0."),
	MATRIX(MT, "M and T as one matrix [M T], as transforms.* make it, instead of M and T; or one value, as for M."),
	STK_ARG(struct coord_transform, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output: float32, or the input's, to which values are rounded."),
	STK_ARG_END,
};

static enum stk_status check_types(const struct coord_transform *a, enum stk_dtype in, struct stk_error *err)
{
	if (in == STK_NO_DTYPE)
		return STK_OK;
	if (in != STK_UINT8 && in != STK_UINT16 && in != STK_INT16 && in != STK_INT32 && in != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "points must be of uint8, uint16, int16, int32 or float32, not %s; cast them",
			stk_dtype_name(in));
	if (a->dtype != STK_FLOAT && a->dtype != (int32_t)in)
		return stk__fail(err, STK_UNSUPPORTED, "points of %s give %s or float32, not %s; cast the result", stk_dtype_name(in),
			stk_dtype_name(in), stk_dtype_name((enum stk_dtype)a->dtype));
	return STK_OK;
}

/* Reads M from the argument `name`, a matrix with `columns` values in each row, whose last column may be T. A single value is a multiple of the identity;
 * no value is the identity. STK_INVALID: the values are not such a matrix. */
static enum stk_status read_matrix(
	struct points_map *p, const char *name, struct stk_floats v, struct stk_ints shape, int32_t columns, struct stk_error *err)
{
	int32_t in = p->points.in;
	enum stk_status s = stk__check_matrix(name, shape, -1, columns, err);
	if (s)
		return s;
	if (v.count <= 1) {
		p->points.out = in;
		for (int32_t i = 0; i < in; i++)
			p->matrix[i * in + i] = v.count == 1 ? v.v[0] : 1;
		return STK_OK;
	}
	p->points.out = v.count / columns;
	if (v.count % columns || p->points.out > STK_POINT_COMPONENTS)
		return stk__fail(err, STK_INVALID, "%s has %d values; for points of %d component%s it takes 1 to %d rows of %d", name,
			v.count, in, in == 1 ? "" : "s", STK_POINT_COMPONENTS, columns);
	for (int32_t r = 0; r < p->points.out; r++) {
		memcpy(p->matrix + r * in, v.v + r * columns, (size_t)in * sizeof *v.v);
		if (columns > in)
			p->matrix[p->points.out * in + r] = v.v[r * columns + in];
	}
	return STK_OK;
}

static enum stk_status read_map(const struct coord_transform *a, struct points_map *p, struct stk_error *err)
{
	memset(p->matrix, 0, sizeof p->matrix);
	if (a->MT.count >= 0 && (a->M.count >= 0 || a->T.count >= 0))
		return stk__fail(err, STK_INVALID, "MT holds a matrix and a translation: leave out M and T, or MT");
	if (a->M.count == 0 || a->T.count == 0 || a->MT.count == 0)
		return stk__fail(err, STK_INVALID, "%s is empty: leave it out or give its values",
			a->M.count == 0   ? "M"
			: a->T.count == 0 ? "T"
					  : "MT");
	enum stk_status s = a->MT.count >= 0 ? read_matrix(p, "MT", a->MT, a->MT_shape, p->points.in + 1, err)
					     : read_matrix(p, "M", a->M, a->M_shape, p->points.in, err);
	if (s || a->T.count < 0)
		return s;
	if (a->T.count != 1 && a->T.count != p->points.out)
		return stk__fail(err, STK_INVALID,
			"T has %d values, but the output's points have %d components: give one, or one a component", a->T.count,
			p->points.out);
	for (int32_t r = 0; r < p->points.out; r++)
		p->matrix[p->points.in * p->points.out + r] = a->T.v[a->T.count == 1 ? 0 : r];
	return STK_OK;
}

static enum stk_status coord_transform_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct coord_transform *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	struct points_map *p = call->state;
	enum stk_status s = check_types(a, in->dtype, err);
	if (s)
		return s;
	*out = *in;
	out->dtype = (enum stk_dtype)a->dtype;
	if (in->ndim < 0)
		return STK_OK;
	if (in->ndim < 2)
		return stk__fail(err, STK_SHAPE,
			"a tensor of points must have 2 dims or more, the last of them the components; this one "
			"has %d",
			in->ndim);
	int64_t components = in->shape[in->ndim - 1];
	if (components >= 0 && (components < 1 || components > STK_POINT_COMPONENTS))
		return stk__fail(err, STK_SHAPE, "points must have 1 to %d components, in the last dim; these have %lld",
			STK_POINT_COMPONENTS, (long long)components);
	bool open = stk__varies(call, &a->M) || stk__varies(call, &a->T) || stk__varies(call, &a->MT);
	if (components < 0 || open) {
		out->shape[in->ndim - 1] = -1;
		return STK_OK;
	}
	p->points.in = (int32_t)components;
	if ((s = read_map(a, p, err)))
		return s;
	out->shape[in->ndim - 1] = p->points.out;
	return STK_OK;
}

static enum stk_status coord_transform_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct points_map *p = call->state;
	return stk__job_points(jobs, &p->points, p->matrix, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_coord_transform = {
	.name = "coord_transform",
	.doc = "Applies an affine map to points, vectors or colours.\n\n"
	       "Points have 1 to 6 components, which are the input's last dim. Tensors have 2 dims or more, of uint8, uint16, int16, "
	       "int32 or float32. A point p becomes M p + T, computed in float32.",
	.inputs = {1, 1},
	.args = coord_transform_args,
	.args_size = sizeof(struct coord_transform),
	.state_size = sizeof(struct points_map),
	.infer = coord_transform_infer,
	.lower_jobs = coord_transform_lower_jobs,
};
