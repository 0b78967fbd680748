/* SPDX-License-Identifier: Apache-2.0
 * Matching costs on CUDA. Each thread has one query of a tile and goes through a stretch of the targets. Class costs are computed once for each query and
 * class, in shared memory if they fit. Grid: (samples, tiles of queries, stretches of targets). */
#include "ragged/cost_math.h"
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"

#define TILE STK_COST_TILE

/* Computes the costs of all classes for a query, and stores the cost of class k at out[k * TILE]. */
STK_DEVICE void class_costs(const struct stk_cost *c, int64_t query, float *out)
{
	const int64_t at = query * c->classes;
	float top = -INFINITY, sum = 0;
	if (c->class_kind == STK_COST_SOFTMAX) {
		for (int64_t k = 0; k < c->classes; k++)
			top = fmaxf(top, stk__load_float(c->logits, c->logits_dtype, at + k));
		for (int64_t k = 0; k < c->classes; k++)
			sum += expf(stk__load_float(c->logits, c->logits_dtype, at + k) - top);
	}
	for (int64_t k = 0; k < c->classes; k++) {
		float v = stk__load_float(c->logits, c->logits_dtype, at + k);
		if (c->class_kind == STK_COST_SOFTMAX)
			v = expf(v - top) / sum;
		out[k * TILE] = c->class_weight * stk__class_cost(c->class_kind, v, c->alpha, c->gamma);
	}
}

/* Returns the cost of one class for a query. Used if the costs of all classes do not fit into shared memory. top, sum: from softmax_sums, only for SOFTMAX. */
STK_DEVICE float one_class_cost(const struct stk_cost *c, int64_t query, int64_t label, float top, float sum)
{
	float v = stk__load_float(c->logits, c->logits_dtype, query * c->classes + label);
	if (c->class_kind == STK_COST_SOFTMAX)
		v = expf(v - top) / sum;
	return c->class_weight * stk__class_cost(c->class_kind, v, c->alpha, c->gamma);
}

STK_DEVICE void softmax_sums(const struct stk_cost *c, int64_t query, float *top, float *sum)
{
	for (int64_t k = 0; k < c->classes; k++)
		*top = fmaxf(*top, stk__load_float(c->logits, c->logits_dtype, query * c->classes + k));
	for (int64_t k = 0; k < c->classes; k++)
		*sum += expf(stk__load_float(c->logits, c->logits_dtype, query * c->classes + k) - *top);
}

/* Returns the cost of matching this thread's box, whose value d is at box[d * TILE], with the box of one target. */
STK_DEVICE float box_cost(const struct stk_cost *c, const float *box, const float *target)
{
	float sum = 0;
	for (int64_t d = 0; d < c->box_values; d++)
		sum += c->l1_weight[d] * fabsf(box[d * TILE] - target[d]);
	if (c->giou_weight != 0) {
		float own[6], a[4], b[4];
		for (int64_t d = 0; d < 6; d++)
			own[d] = d < c->box_values ? box[d * TILE] : 0;
		stk__box_corners(c->box_format, own, a);
		stk__box_corners(c->box_format, target, b);
		sum -= c->giou_weight * stk__giou(a, b);
	}
	return sum;
}

STK_KERNEL void ragged_cost(struct stk_cost_launch l)
{
	__shared__ float targets[STK_COST_STRETCH * STK_COST_MAX_BOX];
	STK_SHARED_ARRAY(float, dynamic); /* boxes [box_values][TILE], then class costs [classes][TILE] if l.table */
	const struct stk_cost *c = &l.c;
	int64_t sample = blockIdx.x, b = sample % c->batch, q = (int64_t)blockIdx.y * TILE + threadIdx.x,
		g0 = (int64_t)blockIdx.z * STK_COST_STRETCH;
	int64_t used = stk__size_of(c->sizes, b, c->targets), query = sample * c->queries + q;
	int64_t g1 = g0 + STK_COST_STRETCH < c->targets ? g0 + STK_COST_STRETCH : c->targets, values = c->boxes ? c->box_values : 0;
	float *box = dynamic + threadIdx.x, *classes = dynamic + values * TILE + threadIdx.x, top = -INFINITY, sum = 0;
	int32_t inside = q < c->queries, any = g0 < used;
	for (int64_t i = threadIdx.x; i < (g1 - g0) * values; i += TILE)
		targets[i] = stk__load_float(c->target_boxes, c->target_boxes_dtype, (b * c->targets + g0) * values + i);
	for (int64_t d = 0; any && inside && d < values; d++)
		box[d * TILE] = stk__load_float(c->boxes, c->boxes_dtype, query * values + d);
	if (any && inside && c->logits && l.table)
		class_costs(c, query, classes);
	else if (any && inside && c->logits && c->class_kind == STK_COST_SOFTMAX)
		softmax_sums(c, query, &top, &sum);
	__syncthreads();
	for (int64_t g = g0; inside && g < g1; g++) {
		float v = 0;
		if (g < used) {
			int64_t label = c->logits ? stk__load_index(c->labels, c->label_bytes, b * c->targets + g) : 0;
			if (c->logits && (label < 0 || label >= c->classes)) {
				v = NAN;
				if (q == 0)
					refuse(c->refused);
			} else if (c->logits) {
				v = l.table ? classes[label * TILE] : one_class_cost(c, query, label, top, sum);
			}
			if (values)
				v += box_cost(c, box, targets + (g - g0) * values);
			v = stk__finite(v, c->nan, c->posinf, c->neginf);
		}
		c->out[(sample * c->targets + g) * c->queries + q] = v;
	}
}
