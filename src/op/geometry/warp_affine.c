/* SPDX-License-Identifier: Apache-2.0
 * warp_affine: rotates, scales, shears and shifts an image or volume by a matrix. */
#include "op/geometry/warp_args.h"

#include <string.h>

struct warp_affine {
	struct stk_floats matrix;
	struct stk_ints matrix_shape;
	bool inverse_map;
	struct stk_warp_args warp;
};

static const struct stk_arg_def warp_affine_args[] = {
	STK_ARG(struct warp_affine, matrix, STK_ARG_FLOATS, NULL, STK_FREE, STK_PER_SAMPLE | STK_PER_FRAME | STK_SHAPED,
		"Two rows of three values, row by row, over (x, y, 1) in pixels from the top left corner; for volumes three rows of four, "
		"over (x, y, z, 1). transforms.* make such matrices. Default, and if empty: the second input."),
	STK_ARG(struct warp_affine, inverse_map, STK_ARG_BOOL, "true", STK_FREE, 0,
		"The matrix maps positions of the output to those of the input; false: the other way round."),
	STK_ARG_GROUP(struct warp_affine, warp, stk__warp_group),
	STK_ARG_END,
};

static enum stk_status check_input(const struct stk_desc *d, int32_t ndim, struct stk_error *err)
{
	if (d->dtype != STK_NO_DTYPE && d->dtype != STK_FLOAT)
		return stk__fail(err, STK_INVALID, "the matrix is of %s; cast it to float32", stk_dtype_name(d->dtype));
	if (d->ndim >= 0 && ndim &&
		(d->ndim != 2 || (d->shape[0] >= 0 && d->shape[0] != ndim) || (d->shape[1] >= 0 && d->shape[1] != ndim + 1)))
		return stk__fail(err, STK_SHAPE, "the matrix must have %s rows of %s; this tensor has %d dim%s and %lld values",
			ndim == 2 ? "two" : "three", ndim == 2 ? "three" : "four", d->ndim, d->ndim == 1 ? "" : "s",
			(long long)stk_desc_elements(d));
	return STK_OK;
}

/* Sets *m to the matrix, which is either the argument or input 1. While the graph is built its values may not be known yet: *m is then the identity. Fails
 * if both or neither are given, or if the matrix has another shape or type. */
static enum stk_status read_matrix(const struct stk_call *call, int32_t ndim, struct stk_affine *m, struct stk_error *err)
{
	const struct warp_affine *a = call->args;
	bool given = a->matrix.count > 0, input = call->n_in > 1;
	stk__affine_identity(m, ndim);
	if (stk__varies(call, &a->matrix))
		return STK_OK;
	if (given == input)
		return stk__fail(err, STK_INVALID,
			given ? "the matrix is given twice, by an input and by matrix: choose one"
			      : "no matrix is given: give matrix, or a second input");
	if (given && ndim && a->matrix.count != ndim * (ndim + 1))
		return stk__fail(err, STK_INVALID, "matrix has %d values; it takes %s", a->matrix.count,
			ndim == 2 ? "two rows of three" : "three rows of four");
	enum stk_status s = input  ? check_input(&call->in[1].desc, ndim, err)
			    : ndim ? stk__check_matrix("matrix", a->matrix_shape, ndim, ndim + 1, err)
				   : STK_OK;
	if (s || !ndim || (input && stk__building(call)))
		return s;
	const float *v = input ? call->in[1].data : a->matrix.v;
	for (int32_t i = 0; i < ndim * (ndim + 1); i++)
		m->m[i / (ndim + 1)][i % (ndim + 1)] = (double)v[i];
	return STK_OK;
}

/* Inverts the map in place, by Gauss-Jordan elimination with partial pivoting. STK_INVALID: it has no inverse. */
static enum stk_status invert(struct stk_affine *a, struct stk_error *err)
{
	int32_t n = a->ndim;
	double m[3][7] = {{0}};
	for (int32_t i = 0; i < n; i++) {
		memcpy(m[i], a->m[i], (size_t)n * sizeof(double));
		m[i][n + i] = 1;
	}
	for (int32_t k = 0; k < n; k++) {
		int32_t best = k;
		for (int32_t i = k + 1; i < n; i++)
			best = fabs(m[i][k]) > fabs(m[best][k]) ? i : best;
		if (!(fabs(m[best][k]) > 0))
			return stk__fail(err, STK_INVALID, "the matrix maps the image to a line: it has no inverse");
		double row[7], pivot = m[best][k];
		memcpy(row, m[best], sizeof row);
		memcpy(m[best], m[k], sizeof row);
		for (int32_t j = 0; j < 2 * n; j++)
			m[k][j] = row[j] / pivot;
		for (int32_t i = 0; i < n; i++) {
			double factor = i == k ? 0 : m[i][k];
			for (int32_t j = 0; j < 2 * n; j++)
				m[i][j] -= factor * m[k][j];
		}
	}
	struct stk_affine inverse = {.ndim = n};
	for (int32_t i = 0; i < n; i++)
		for (int32_t k = 0; k < n; k++) {
			inverse.m[i][k] = m[i][n + k];
			inverse.m[i][n] -= m[i][n + k] * a->m[k][n];
		}
	*a = inverse;
	return STK_OK;
}

static enum stk_status warp_affine_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct warp_affine *a = call->args;
	struct stk_warp_dims dims;
	struct stk_affine map;
	enum stk_status s = stk__warp_begin(call, &a->warp, &dims, err);
	if (s || (s = read_matrix(call, dims.count, &map, err)) || !dims.count)
		return s;
	if (!a->inverse_map && (s = invert(&map, err)))
		return s;
	return stk__warp_end(call, &a->warp, &dims, &map, err);
}

static unsigned warp_affine_classify(const void *args, const struct stk_desc *in)
{
	return stk__warp_classify(&((const struct warp_affine *)args)->warp, in);
}

const struct stk_op_def stk__op_warp_affine = {
	.name = "warp_affine",
	.doc = "Maps images and volumes by a matrix: rotations, scales, shears, shifts.\n\n"
	       "Positions are in pixels from the top left corner of the image, so that the first pixel's centre is (0.5, 0.5). The output has "
	       "the input's extents unless size is given. Volumes have the layout DHWC, and may have leading frames.",
	.inputs = {1, 2},
	.host_inputs = 2,
	.frame_inputs = 2,
	.layouts = STK_WARP_LAYOUTS,
	.tolerance = "Positions are float32, and DALI's differ in their last bits: floats and 16-bit integers differ by up to 1e-4 of the "
		     "range, and with NN one pixel in a thousand is a neighbour of DALI's.",
	.args = warp_affine_args,
	.args_size = sizeof(struct warp_affine),
	.flags = STK_OP_IMAGES,
	.state_size = sizeof(struct stk_warp_state),
	.classes = STK_CLASS_SAMPLER,
	.classify = warp_affine_classify,
	.infer = warp_affine_infer,
	.lower = stk__warp_lower,
	.lower_jobs = stk__warp_lower_jobs,
};
