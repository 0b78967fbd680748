/* SPDX-License-Identifier: Apache-2.0
 * Runs affine maps of points on the CPU. */
#include "kernel/convert/convert.h"
#include "kernel/job/job_cpu.h"
#include "kernel/points/points.h"

/* Maps n points x to y like stk__job_point. Inlined, so that the compiler unrolls the loops of calls with constant `in` and `out`. */
static inline __attribute__((always_inline)) void map_points(
	const float *restrict matrix, const float *restrict x, float *restrict y, int64_t n, int32_t in, int32_t out)
{
	for (int64_t i = 0; i < n; i++, x += in, y += out)
		for (int32_t row = 0; row < out; row++) {
			float sum = x[0] * matrix[row * in];
			for (int32_t k = 1; k < in; k++)
				sum = sum + x[k] * matrix[row * in + k];
			y[row] = sum + matrix[in * out + row];
		}
}

/* Maps n points x to y, with loops of their own for the usual numbers of components: 2 to 2, 3 to 3, 4 to 4 and 3 to 1. */
static void map_some(const struct stk_job_points *p, const float *matrix, const float *x, float *y, int64_t n)
{
	if (p->in == 2 && p->out == 2)
		map_points(matrix, x, y, n, 2, 2);
	else if (p->in == 3 && p->out == 3)
		map_points(matrix, x, y, n, 3, 3);
	else if (p->in == 4 && p->out == 4)
		map_points(matrix, x, y, n, 4, 4);
	else if (p->in == 3 && p->out == 1)
		map_points(matrix, x, y, n, 3, 1);
	else
		map_points(matrix, x, y, n, p->in, p->out);
}

/* Maps n boxes x of `in` components a corner like stk__job_box. Inlined for the same reason as map_points. */
static inline __attribute__((always_inline)) void map_boxes(
	const float *restrict matrix, const float *restrict x, float *restrict y, int64_t n, int32_t in)
{
	for (int64_t i = 0; i < n; i++, x += 2 * in, y += 2 * in)
		for (int32_t row = 0; row < in; row++) {
			float low = 0, high = 0;
			for (int32_t k = 0; k < in; k++) {
				float a = x[k] * matrix[row * in + k], b = x[in + k] * matrix[row * in + k];
				float least = b < a ? b : a, most = a > b ? a : b;
				low = k ? low + least : least;
				high = k ? high + most : most;
			}
			y[row] = low + matrix[in * in + row];
			y[in + row] = high + matrix[in * in + row];
		}
}

/* Maps n points x to y, where two points are a box. */
static void map_box_corners(const struct stk_job_points *p, const float *matrix, const float *x, float *y, int64_t n)
{
	if (p->in == 2)
		map_boxes(matrix, x, y, n / 2, 2);
	else
		map_boxes(matrix, x, y, n / 2, p->in);
}

void stk__points_run(const struct stk_job *job)
{
	enum { PART = 128 };
	float x[PART * STK_POINT_COMPONENTS], y[PART * STK_POINT_COMPONENTS];
	const struct stk_job_points *p = &STK_PARAMS(stk_job_points, job);
	int64_t points = job->n / p->out;
	int32_t from = stk__job_size(job->src_dtype[0]), to = stk__job_size(job->dst_dtype);
	bool floats_in = job->src_dtype[0] == STK_FLOAT, floats_out = job->dst_dtype == STK_FLOAT;
	for (int64_t i = 0, n; i < points; i += n) {
		n = floats_in && floats_out ? points : points - i < PART ? points - i : PART;
		const uint8_t *src = job->src[0] + i * p->in * from;
		uint8_t *dst = job->dst + i * p->out * to;
		if (!floats_in)
			stk__convert(x, STK_FLOAT, src, (enum stk_dtype)job->src_dtype[0], n * p->in);
		float *to_here = y;
		if (floats_out)
			to_here = (float *)(void *)dst;
		const float *from_here = floats_in ? (const float *)(const void *)src : x;
		if (p->boxes)
			map_box_corners(p, job->constants, from_here, to_here, n);
		else
			map_some(p, job->constants, from_here, to_here, n);
		if (!floats_out)
			stk__convert(dst, (enum stk_dtype)job->dst_dtype, to_here, STK_FLOAT, n * p->out);
	}
}
