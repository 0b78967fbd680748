/* SPDX-License-Identifier: Apache-2.0
 * Functions for the cost of matching one query with one target, which the CPU's loops and the CUDA kernel share. */
#ifndef STK_RAGGED_COST_MATH_H
#define STK_RAGGED_COST_MATH_H

#include "ragged/items.h"
#include "stoker/batching.h"

#include <math.h>

#define STK_COST_EPS 1e-12f

/* Returns the classification cost of one class: minus the probability or, for STK_COST_FOCAL, the focal loss of the class as a positive minus its focal loss as
 * a negative (Lin et al., "Focal loss", ICCV 2017, in the form that DETR-like matchers use). value: logit for STK_COST_FOCAL, otherwise probability. */
static STK_BOTH float stk__class_cost(int32_t kind, float value, float alpha, float gamma)
{
	if (kind != STK_COST_FOCAL)
		return -value;
	float p = 1.0f / (1.0f + expf(-value)), q = 1.0f - p;
	float positive = -logf(p + STK_COST_EPS), negative = -logf(q + STK_COST_EPS);
	float weight_p = gamma == 2.0f ? q * q : powf(q, gamma), weight_n = gamma == 2.0f ? p * p : powf(p, gamma);
	return alpha * weight_p * positive - (1.0f - alpha) * weight_n * negative;
}

/* Computes the corners of an axis-aligned box given as xyxy, cxcywh, or the ground plane of xyzwlh (w along x, l along y). */
static STK_BOTH void stk__box_corners(int32_t format, const float *v, float corner[4])
{
	if (format == STK_BOX_XYXY) {
		for (int i = 0; i < 4; i++)
			corner[i] = v[i];
		return;
	}
	int size = format == STK_BOX_CXCYWH ? 2 : 3;
	corner[0] = v[0] - 0.5f * v[size];
	corner[1] = v[1] - 0.5f * v[size + 1];
	corner[2] = v[0] + 0.5f * v[size];
	corner[3] = v[1] + 0.5f * v[size + 1];
}

/* Returns the generalised IoU of two boxes (Rezatofighi et al., CVPR 2019). */
static STK_BOTH float stk__giou(const float a[4], const float b[4])
{
	float w = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), h = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
	float inter = fmaxf(w, 0.0f) * fmaxf(h, 0.0f);
	float join = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter;
	float hull = (fmaxf(a[2], b[2]) - fminf(a[0], b[0])) * (fmaxf(a[3], b[3]) - fminf(a[1], b[1]));
	return inter / join - (hull - join) / hull;
}

static STK_BOTH float stk__finite(float v, float nan, float posinf, float neginf)
{
	if (v != v)
		return nan;
	return v == INFINITY ? posinf : v == -INFINITY ? neginf : v;
}

#endif
