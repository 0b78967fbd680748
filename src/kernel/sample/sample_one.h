/* SPDX-License-Identifier: Apache-2.0
 * Makes one output of a job that samples an image or volume (sample.h), in C and CUDA. */
#ifndef STK_KERNEL_SAMPLE_ONE_H
#define STK_KERNEL_SAMPLE_ONE_H

#include "base/math_hd.h"
#include "kernel/job/job_place.h"
#include "kernel/sample/sample.h"

struct stk_sample_position {
	float at[3]; /* x, y, z */
};

/* Returns random number i of a seed, by SplitMix64 (Steele, Lea, Flood 2014). */
STK_HD uint64_t stk__sample_random(uint64_t seed, uint64_t i)
{
	uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

STK_HD void stk__sample_sphere(const struct stk_job_sample *s, int32_t x, int32_t y, float at[3])
{
	int32_t longer = s->size[0] > s->size[1] ? s->size[0] : s->size[1], reach = longer / 2;
	float mid_x = (float)s->size[0] * 0.5f, mid_y = (float)s->size[1] * 0.5f, dx = (float)x + 0.5f - mid_x,
	      dy = (float)y + 0.5f - mid_y;
	float far = reach ? sqrtf(dx * dx + dy * dy) / (float)reach : 0;
	at[0] = mid_x + far * dx;
	at[1] = mid_y + far * dy;
}

STK_HD void stk__sample_water(const float *m, int32_t x, int32_t y, float at[3])
{
	at[0] = (float)x + m[0] * (float)stk__math_sin((double)(m[1] * (float)y + m[2]));
	at[1] = (float)y + m[3] * (float)stk__math_cos((double)(m[4] * (float)x + m[5]));
}

STK_HD void stk__sample_jitter(const struct stk_job_sample *s, int32_t x, int32_t y, uint64_t pixel, float at[3])
{
	uint64_t bits = stk__sample_random(s->seed, pixel);
	uint32_t reach = (uint32_t)s->m[0], among = 2 * reach + 1;
	at[0] = (float)x + (float)(uint32_t)((uint64_t)(uint32_t)bits * among >> 32) - (float)reach + 0.5f;
	at[1] = (float)y + (float)(uint32_t)((bits >> 32) * among >> 32) - (float)reach + 0.5f;
}

STK_HD void stk__sample_affine(const float *m, float fx, float fy, float fz, float at[3])
{
	at[0] = m[0] * fx + (m[1] * fy + (m[2] * fz + m[3]));
	at[1] = m[4] * fx + (m[5] * fy + (m[6] * fz + m[7]));
	at[2] = m[8] * fx + (m[9] * fy + (m[10] * fz + m[11]));
}

STK_HD void stk__sample_perspective(const float *m, float fx, float fy, float at[3])
{
	float w = m[6] * fx + (m[7] * fy + m[8]);
	at[0] = (m[0] * fx + (m[1] * fy + m[2])) / w;
	at[1] = (m[3] * fx + (m[4] * fy + m[5])) / w;
}

/* Returns the source position of output (x, y, z). pixel: index of the output in its frame. */
STK_HD struct stk_sample_position stk__sample_position(
	const struct stk_job_sample *s, int32_t x, int32_t y, int32_t z, int64_t frame, uint64_t pixel)
{
	const float *m = s->m;
	float fx = (float)x + 0.5f, fy = (float)y + 0.5f, fz = (float)z + 0.5f;
	struct stk_sample_position p;
	p.at[2] = 0.5f;
	switch (s->map) {
	case STK_SAMPLE_AFFINE:
		stk__sample_affine(m, fx, fy, fz, p.at);
		break;
	case STK_SAMPLE_PERSPECTIVE:
		stk__sample_perspective(m, fx, fy, p.at);
		break;
	case STK_SAMPLE_MAPS:
		p.at[0] = s->maps[0][frame * s->map_frame + (int64_t)pixel] + m[0] + m[1] * (float)x;
		p.at[1] = s->maps[1][frame * s->map_frame + (int64_t)pixel] + m[0] + m[1] * (float)y;
		break;
	case STK_SAMPLE_SPHERE:
		stk__sample_sphere(s, x, y, p.at);
		break;
	case STK_SAMPLE_WATER:
		stk__sample_water(m, x, y, p.at);
		break;
	default:
		stk__sample_jitter(s, x, y, pixel, p.at);
	}
	return p;
}

/* Returns floor(x), or -1e9 or 1e9 for values beyond these limits; -1e9 for NaN. */
STK_HD int32_t stk__sample_floor(float x)
{
	x = x > -1e9f ? x : -1e9f;
	x = x < 1e9f ? x : 1e9f;
	int32_t i = (int32_t)x;
	return i - ((float)i > x);
}

STK_HD float stk__sample_load_float(const uint8_t *src, int dtype)
{
	switch (dtype) {
	case STK_UINT8:
		return (float)*src;
	case STK_FLOAT:
		return *(const float *)(const void *)src;
	default:
		return stk__job_float(src, dtype);
	}
}

STK_HD double stk__sample_load_double(const uint8_t *src, int dtype)
{
	double x;
	stk__convert_one(&x, STK_FLOAT64, src, dtype);
	return x;
}

STK_HD bool stk__sample_wide(int dtype)
{
	return dtype == STK_INT32 || dtype == STK_UINT32 || dtype == STK_INT64 || dtype == STK_UINT64 || dtype == STK_FLOAT64;
}

/* Computes the weights of the pixels at -1, 0, 1 and 2 for position q, which is between 0 and 1: Keys' cubic with a = -0.75, as in OpenCV. */
STK_HD void stk__sample_cubic(float q, float w[4])
{
	const float a = -0.75f;
	float far = q + 1, near = 1 - q;
	w[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
	w[1] = ((a + 2) * q - (a + 3)) * q * q + 1;
	w[2] = ((a + 2) * near - (a + 3)) * near * near + 1;
	w[3] = 1 - w[0] - w[1] - w[2];
}

/* Defines a function that computes the value of one channel at position p, and its helpers. base: address of this channel in the frame. Interpolates along x,
 * then y, then z. */
#define STK__SAMPLE_VALUE(name, real, load)                                                                                                \
	STK_HD real name##_at(const struct stk_job *job, const uint8_t *base, int32_t x, int32_t y, int32_t z, float fill)                 \
	{                                                                                                                                  \
		const struct stk_job_sample *s = &STK_PARAMS(stk_job_sample, job);                                                         \
		x = stk__border_index(x, s->size[0], s->border);                                                                           \
		y = stk__border_index(y, s->size[1], s->border);                                                                           \
		z = s->volume ? stk__border_index(z, s->size[2], s->border) : 0;                                                           \
		if (x < 0 || y < 0 || z < 0)                                                                                               \
			return (real)fill;                                                                                                 \
		return load(base + x * s->stride[0] + y * s->stride[1] + z * s->stride[2], job->src_dtype[0]);                             \
	}                                                                                                                                  \
	STK_HD real name##_plane(                                                                                                          \
		const struct stk_job *job, const uint8_t *base, const int32_t at[3], int32_t z, const float q[3], float fill)              \
	{                                                                                                                                  \
		real qx = (real)q[0], px = 1 - qx;                                                                                         \
		real top = name##_at(job, base, at[0], at[1], z, fill) * px + name##_at(job, base, at[0] + 1, at[1], z, fill) * qx;        \
		real bottom =                                                                                                              \
			name##_at(job, base, at[0], at[1] + 1, z, fill) * px + name##_at(job, base, at[0] + 1, at[1] + 1, z, fill) * qx;   \
		return top + (bottom - top) * (real)q[1];                                                                                  \
	}                                                                                                                                  \
	STK_HD real name##_cubic(const struct stk_job *job, const uint8_t *base, const int32_t at[3], const float q[3], float fill)        \
	{                                                                                                                                  \
		float wx[4], wy[4];                                                                                                        \
		stk__sample_cubic(q[0], wx);                                                                                               \
		stk__sample_cubic(q[1], wy);                                                                                               \
		real sum = 0;                                                                                                              \
		for (int32_t j = 0; j < 4; j++) {                                                                                          \
			real row = 0;                                                                                                      \
			for (int32_t i = 0; i < 4; i++)                                                                                    \
				row += name##_at(job, base, at[0] + i - 1, at[1] + j - 1, 0, fill) * (real)wx[i];                          \
			sum += row * (real)wy[j];                                                                                          \
		}                                                                                                                          \
		return sum;                                                                                                                \
	}                                                                                                                                  \
	STK_HD real name(const struct stk_job *job, const uint8_t *base, const struct stk_sample_position *p, float fill)                  \
	{                                                                                                                                  \
		int32_t at[3], interp = STK_PARAMS(stk_job_sample, job).interp;                                                            \
		float q[3], half = interp == STK_INTERP_NN ? 0 : 0.5f;                                                                     \
		for (int i = 0; i < 3; i++) {                                                                                              \
			float x = p->at[i] - half;                                                                                         \
			at[i] = stk__sample_floor(x);                                                                                      \
			q[i] = x - (float)at[i];                                                                                           \
			q[i] = q[i] >= 0 && q[i] < 1 ? q[i] : 0; /* 0 if x is NaN, or so large that at[i] was limited */                   \
		}                                                                                                                          \
		if (interp == STK_INTERP_NN)                                                                                               \
			return name##_at(job, base, at[0], at[1], at[2], fill);                                                            \
		if (interp == STK_INTERP_CUBIC)                                                                                            \
			return name##_cubic(job, base, at, q, fill);                                                                       \
		real near = name##_plane(job, base, at, at[2], q, fill);                                                                   \
		if (!STK_PARAMS(stk_job_sample, job).volume)                                                                               \
			return near;                                                                                                       \
		real far = name##_plane(job, base, at, at[2] + 1, q, fill);                                                                \
		return near + (far - near) * (real)q[2];                                                                                   \
	}
STK__SAMPLE_VALUE(stk__sample_float, float, stk__sample_load_float)
STK__SAMPLE_VALUE(stk__sample_double, double, stk__sample_load_double)
#undef STK__SAMPLE_VALUE

/* Computes one channel of the output that is sampled at position p, and stores it at `dst`. base: address of the frame's first pixel. */
STK_HD void stk__job_sample_store(
	const struct stk_job *job, uint8_t *dst, const uint8_t *base, const struct stk_sample_position *p, int32_t channel)
{
	float fill = ((const float *)job->constants)[channel];
	base += channel * STK_PARAMS(stk_job_sample, job).channel;
	if (stk__sample_wide(job->src_dtype[0])) {
		double value = stk__sample_double(job, base, p, fill);
		stk__convert_one(dst, job->dst_dtype, &value, STK_FLOAT64);
	} else {
		float value = stk__sample_float(job, base, p, fill);
		stk__convert_one(dst, job->dst_dtype, &value, STK_FLOAT);
	}
}

/* Makes output i. The job's dimensions are frame, z, y, x, channel. */
STK_HD void stk__job_sample_one(const struct stk_job *job, uint32_t i)
{
	uint32_t index[5];
	int64_t dst = 0;
	for (int k = 4; k >= 0; k--) {
		uint32_t size = (uint32_t)job->dim[k].size, rest = i / size;
		index[k] = i - rest * size;
		dst += index[k] * job->dim[k].dst;
		i = rest;
	}
	uint64_t pixel = ((uint64_t)index[1] * (uint64_t)job->dim[2].size + index[2]) * (uint64_t)job->dim[3].size + index[3];
	struct stk_sample_position p = stk__sample_position(
		&STK_PARAMS(stk_job_sample, job), (int32_t)index[3], (int32_t)index[2], (int32_t)index[1], index[0], pixel);
	stk__job_sample_store(job, job->dst + dst, job->src[0] + index[0] * STK_PARAMS(stk_job_sample, job).frame, &p, (int32_t)index[4]);
}

#endif
