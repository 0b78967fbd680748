/* SPDX-License-Identifier: Apache-2.0
 * transform_matrix: multiplies a matrix by a transform, for projections whose source or target is transformed. */
#include "op/geometry/affine.h"
#include "op/objects/objects.h"

#include "kernel/convert/convert.h"

#include <string.h>

enum { H = STK_AFFINE_DIMS + 1 };

struct transform_matrix {
	const char *side;
	bool inverse;
};

static const struct stk_arg_def transform_matrix_args[] = {
	{.name = "side",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct transform_matrix, side),
		.fallback = "\"left\"",
		.choices = "left|right",
		.doc = "\"left\": the transform is applied to the result of the matrix; \"right\": to the input of the matrix."},
	STK_ARG(struct transform_matrix, inverse, STK_ARG_BOOL, "false", STK_FREE, 0, "Uses the inverse of the transform."),
	STK_ARG_END,
};

static bool from_left(const struct stk_call *call)
{
	return ((const struct transform_matrix *)call->args)->side[0] == 'l';
}

static enum stk_status transform_matrix_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc, *m = &call->in[1].desc;
	enum stk_status s = stk__objects_check(in, "matrices", 2, -1, err);
	if (s || (s = stk__objects_float(in, "matrices", err)) || (s = stk__affine_check(m, err)))
		return s;
	call->out[0].desc = *in;
	int64_t extent = in->ndim == 2 ? in->shape[from_left(call) ? 0 : 1] : -1, k = m->ndim == 2 ? m->shape[0] : -1;
	if (extent >= 0 && k >= 0 && extent < k + 1)
		return stk__fail(err, STK_SHAPE,
			"a transform of points with %lld components needs a matrix with at least %lld %s; this one has %lld", (long long)k,
			(long long)k + 1, from_left(call) ? "rows" : "columns", (long long)extent);
	return STK_OK;
}

/* Inverts the first n rows and columns of h in place, by Gauss-Jordan elimination with the unit matrix to their right. Returns false and leaves h unchanged if
 * there is no inverse. */
static bool invert(double h[H][H], int32_t n)
{
	double m[H][2 * H], row[2 * H];
	const size_t bytes = 2 * (size_t)n * sizeof(double);
	for (int32_t i = 0; i < n; i++)
		for (int32_t c = 0; c < n; c++) {
			m[i][c] = h[i][c];
			m[i][n + c] = i == c;
		}
	for (int32_t k = 0; k < n; k++) {
		int32_t best = k;
		for (int32_t i = k + 1; i < n; i++)
			best = fabs(m[i][k]) > fabs(m[best][k]) ? i : best;
		if (!(fabs(m[best][k]) > 0))
			return false;
		memcpy(row, m[best], bytes);
		memcpy(m[best], m[k], bytes);
		for (int32_t c = k; c < 2 * n; c++) /* columns before k already equal those of the unit matrix */
			m[k][c] = row[c] / row[k];
		for (int32_t i = 0; i < n; i++) {
			double factor = m[i][k];
			for (int32_t c = k; c < 2 * n && i != k && factor != 0; c++)
				m[i][c] -= factor * m[k][c];
		}
	}
	for (int32_t i = 0; i < n; i++)
		memcpy(h[i], m[i] + n, bytes / 2);
	return true;
}

/* Sets h to the transform, extended by a last row of zeros and a one to a square matrix of *n rows for homogeneous coordinates. If the argument `inverse`
 * is set, inverts the matrix. STK_INVALID: it has no inverse. */
static enum stk_status read_transform(const struct stk_call *call, double h[H][H], int32_t *n, struct stk_error *err)
{
	struct stk_affine a;
	stk__affine_read(&call->in[1], &a);
	*n = a.ndim + 1;
	for (int32_t i = 0; i < *n; i++)
		for (int32_t c = 0; c < *n; c++)
			h[i][c] = i < a.ndim ? a.m[i][c] : (double)(c == a.ndim);
	if (((const struct transform_matrix *)call->args)->inverse && !invert(h, *n))
		return stk__fail(err, STK_INVALID, "the transform has no inverse");
	return STK_OK;
}

/* Computes the first n rows of h * v. v and out have rows of `columns` values; other rows of out are not written. */
static void multiply_left(double h[H][H], int32_t n, const double *v, int64_t columns, double *out)
{
	for (int32_t r = 0; r < n; r++)
		for (int64_t c = 0; c < columns; c++) {
			double sum = 0;
			for (int32_t k = 0; k < n; k++)
				sum += h[r][k] * v[k * columns + c];
			out[r * columns + c] = sum;
		}
}

/* Computes the first n columns of v * h. v and out have `rows` rows of `columns` values; other columns of out are not written. */
static void multiply_right(double h[H][H], int32_t n, const double *v, int64_t rows, int64_t columns, double *out)
{
	for (int64_t r = 0; r < rows; r++)
		for (int32_t c = 0; c < n; c++) {
			double sum = 0;
			for (int32_t k = 0; k < n; k++)
				sum += v[r * columns + k] * h[k][c];
			out[r * columns + c] = sum;
		}
}

static enum stk_status transform_matrix_run(const struct stk_call *call, struct stk_error *err)
{
	double h[H][H];
	int32_t n;
	const double *v;
	enum stk_status s = stk__objects_values(call, 0, &v, err);
	if (s || (s = read_transform(call, h, &n, err)))
		return s;
	int64_t rows = call->in[0].desc.shape[0], columns = call->in[0].desc.shape[1];
	double *out = stk__arena_take(call->tools->arena, ((size_t)(rows * columns) + 1) * sizeof *out);
	if (!out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a matrix");
	memcpy(out, v, (size_t)(rows * columns) * sizeof *out);
	if (from_left(call))
		multiply_left(h, n, v, columns, out);
	else
		multiply_right(h, n, v, rows, columns, out);
	stk__convert(call->out[0].data, call->out[0].desc.dtype, out, STK_FLOAT64, rows * columns);
	return STK_OK;
}

const struct stk_op_def stk__op_transform_matrix = {
	.name = "transform_matrix",
	.doc = "Multiplies a matrix by an affine transform, which is the second input.\n\n"
	       "The transform has k rows and k + 1 columns, and stands for a square matrix of k + 1 rows over homogeneous coordinates. "
	       "It multiplies the first k + 1 rows of the matrix from the left, or its first k + 1 columns from the right; other rows "
	       "and columns stay. With it a projection, of 3 or 4 rows, follows an image that was transformed. Matrices are float32 or "
	       "float64; products are computed in double.",
	.inputs = {2, 2},
	.host_inputs = 3,
	.args = transform_matrix_args,
	.args_size = sizeof(struct transform_matrix),
	.infer = transform_matrix_infer,
	.run_cpu = transform_matrix_run,
};
