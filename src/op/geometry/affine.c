/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/affine.h"

#include "base/math.h"

#include <string.h>

void stk__affine_identity(struct stk_affine *a, int32_t ndim)
{
	memset(a, 0, sizeof *a);
	a->ndim = ndim;
	for (int32_t d = 0; d < ndim; d++)
		a->m[d][d] = 1;
}

enum stk_status stk__affine_about(struct stk_affine *a, const char *name, struct stk_floats center, struct stk_error *err)
{
	if (center.count < 0)
		return STK_OK;
	if (center.count != 1 && center.count != a->ndim)
		return stk__fail(err, STK_INVALID, "%s has %d values for a transform of %d dims: give one, or one a dim", name,
			center.count, a->ndim);
	for (int32_t i = 0; i < a->ndim; i++) {
		a->m[i][a->ndim] = stk__affine_value(center, i);
		for (int32_t k = 0; k < a->ndim; k++)
			a->m[i][a->ndim] -= a->m[i][k] * stk__affine_value(center, k);
	}
	return STK_OK;
}

void stk__affine_rotate_2d(struct stk_affine *a, double angle)
{
	double c = stk__cos(angle), s = stk__sin(angle);
	stk__affine_identity(a, 2);
	a->m[0][0] = a->m[1][1] = c;
	a->m[0][1] = -s;
	a->m[1][0] = s;
}

/* Computes the rotation about an axis by Rodrigues' formula. */
void stk__affine_rotate_3d(struct stk_affine *a, const double axis[3], double angle)
{
	double c = stk__cos(angle), s = stk__sin(angle), length = sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);
	double x = axis[0] / length, y = axis[1] / length, z = axis[2] / length;
	const double m[3][3] = {{x * x * (1 - c) + c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s},
		{y * x * (1 - c) + z * s, y * y * (1 - c) + c, y * z * (1 - c) - x * s},
		{z * x * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z * (1 - c) + c}};
	stk__affine_identity(a, 3);
	for (int i = 0; i < 3; i++)
		memcpy(a->m[i], m[i], sizeof m[i]);
}

void stk__affine_then(const struct stk_affine *first, const struct stk_affine *second, struct stk_affine *out)
{
	int32_t n = first->ndim;
	struct stk_affine r = {.ndim = n};
	for (int32_t i = 0; i < n; i++) {
		for (int32_t k = 0; k <= n; k++)
			for (int32_t j = 0; j < n; j++)
				r.m[i][k] += second->m[i][j] * first->m[j][k];
		r.m[i][n] += second->m[i][n];
	}
	*out = r;
}

struct stk_desc stk__affine_desc(int32_t ndim)
{
	return (struct stk_desc){.dtype = STK_FLOAT, .ndim = 2, .shape = {ndim, ndim < 0 ? -1 : ndim + 1}, .layout = "**"};
}

enum stk_status stk__affine_check(const struct stk_desc *d, struct stk_error *err)
{
	if (d->dtype != STK_NO_DTYPE && d->dtype != STK_FLOAT)
		return stk__fail(err, STK_INVALID, "a transform must be a float32 matrix, not %s; cast it", stk_dtype_name(d->dtype));
	if (d->ndim < 0)
		return STK_OK;
	if (d->ndim != 2)
		return stk__fail(
			err, STK_SHAPE, "a transform must be a matrix of n rows and n + 1 columns, not a tensor of %d dims", d->ndim);
	if (d->shape[0] >= 0 && d->shape[1] >= 0 && (d->shape[0] < 1 || d->shape[0] > STK_AFFINE_DIMS || d->shape[1] != d->shape[0] + 1))
		return stk__fail(err, STK_SHAPE,
			"a transform must have n rows and n + 1 columns, n from 1 to %d; this matrix is %lld x "
			"%lld",
			STK_AFFINE_DIMS, (long long)d->shape[0], (long long)d->shape[1]);
	return STK_OK;
}

int32_t stk__affine_input_dims(const struct stk_call *call)
{
	if (!call->n_in)
		return 0;
	return call->in[0].desc.ndim == 2 ? (int32_t)call->in[0].desc.shape[0] : -1;
}

enum stk_status stk__affine_infer(const struct stk_call *call, stk__affine_make make, struct stk_error *err)
{
	struct stk_affine *own = call->state;
	enum stk_status s = call->n_in ? stk__affine_check(&call->in[0].desc, err) : STK_OK;
	if (s)
		return s;
	int32_t in = stk__affine_input_dims(call);
	call->out[0].desc = stk__affine_desc(in > 0 ? in : -1);
	if (stk__building(call) && (call->n_varying || in < 0))
		return STK_OK;
	if ((s = make(call, own, err)))
		return s;
	if (in > 0 && in != own->ndim)
		return stk__fail(err, STK_SHAPE, "the input is a transform of %d dim%s, and the arguments are for %d", in,
			in == 1 ? "" : "s", own->ndim);
	call->out[0].desc = stk__affine_desc(own->ndim);
	return STK_OK;
}

void stk__affine_read(const struct stk_tensor *t, struct stk_affine *out)
{
	const float *v = t->data;
	*out = (struct stk_affine){.ndim = (int32_t)t->desc.shape[0]};
	for (int32_t i = 0; i < out->ndim; i++)
		for (int32_t k = 0; k <= out->ndim; k++)
			out->m[i][k] = (double)*v++;
}

void stk__affine_write(const struct stk_affine *a, const struct stk_tensor *out)
{
	float *v = out->data;
	for (int32_t i = 0; i < a->ndim; i++)
		for (int32_t k = 0; k <= a->ndim; k++)
			*v++ = (float)a->m[i][k];
}

void stk__affine_run(const struct stk_call *call, bool reverse)
{
	const struct stk_affine *own = call->state;
	struct stk_affine in, both;
	if (call->n_in) {
		stk__affine_read(&call->in[0], &in);
		stk__affine_then(reverse ? own : &in, reverse ? &in : own, &both);
		own = &both;
	}
	stk__affine_write(own, &call->out[0]);
}
