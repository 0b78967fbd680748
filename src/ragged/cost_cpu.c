/* SPDX-License-Identifier: Apache-2.0
 * Matching costs on the CPU: computes a block of queries at a time against all targets of the sample. Class costs are computed once for each query and
 * class. */
#include "ragged/cost_math.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

#define BLOCK 64

struct cost_job {
	const struct stk_cost *c;
	float *classes; /* costs of classes, for each worker: BLOCK x classes */
	int64_t blocks; /* number of blocks of queries per sample */
};

static void class_costs(const struct stk_cost *c, int64_t first, int64_t n, float *out)
{
	for (int64_t q = 0; q < n; q++) {
		float top = -INFINITY, sum = 0;
		int64_t at = (first + q) * c->classes;
		for (int64_t k = 0; c->class_kind == STK_COST_SOFTMAX && k < c->classes; k++)
			top = fmaxf(top, stk__load_float(c->logits, c->logits_dtype, at + k));
		for (int64_t k = 0; k < c->classes; k++) {
			float v = stk__load_float(c->logits, c->logits_dtype, at + k);
			if (c->class_kind == STK_COST_SOFTMAX)
				sum += v = expf(v - top);
			out[q * c->classes + k] = v;
		}
		for (int64_t k = 0; k < c->classes; k++) {
			float v = out[q * c->classes + k] / (c->class_kind == STK_COST_SOFTMAX ? sum : 1.0f);
			out[q * c->classes + k] = c->class_weight * stk__class_cost(c->class_kind, v, c->alpha, c->gamma);
		}
	}
}

static float box_cost(const struct stk_cost *c, const float *box, const float *target)
{
	float sum = 0;
	for (int64_t d = 0; d < c->box_values; d++)
		sum += c->l1_weight[d] * fabsf(box[d] - target[d]);
	if (c->giou_weight != 0) {
		float a[4], b[4];
		stk__box_corners(c->box_format, box, a);
		stk__box_corners(c->box_format, target, b);
		sum -= c->giou_weight * stk__giou(a, b);
	}
	return sum;
}

static void cost_block(void *ctx, int64_t i, int32_t worker)
{
	const struct cost_job *job = ctx;
	const struct stk_cost *c = job->c;
	int64_t sample = i / job->blocks, q0 = i % job->blocks * BLOCK, b = sample % c->batch,
		n = c->queries - q0 < BLOCK ? c->queries - q0 : BLOCK;
	int64_t used = stk__size_of(c->sizes, b, c->targets);
	float *classes = job->classes + worker * BLOCK * c->classes, box[BLOCK * STK_COST_MAX_BOX], target[STK_COST_MAX_BOX];
	if (c->logits)
		class_costs(c, sample * c->queries + q0, n, classes);
	for (int64_t k = 0; c->boxes && k < n * c->box_values; k++)
		box[k] = stk__load_float(c->boxes, c->boxes_dtype, (sample * c->queries + q0) * c->box_values + k);
	for (int64_t g = 0; g < c->targets; g++) {
		float *out = c->out + (sample * c->targets + g) * c->queries + q0;
		if (g >= used) {
			memset(out, 0, (size_t)n * sizeof *out);
			continue;
		}
		int64_t label = c->logits ? stk__load_index(c->labels, c->label_bytes, b * c->targets + g) : 0;
		bool ok = label >= 0 && label < c->classes;
		stk__count_refused(c->refused, c->logits && !ok && q0 == 0);
		for (int64_t d = 0; c->boxes && d < c->box_values; d++)
			target[d] = stk__load_float(c->target_boxes, c->target_boxes_dtype, (b * c->targets + g) * c->box_values + d);
		for (int64_t q = 0; q < n; q++) {
			float v = c->logits ? ok ? classes[q * c->classes + label] : NAN : 0.0f;
			if (c->boxes)
				v += box_cost(c, box + q * c->box_values, target);
			out[q] = stk__finite(v, c->nan, c->posinf, c->neginf);
		}
	}
}

enum stk_status stk__cpu_cost(struct stk_ragged *r, const struct stk_cost *c, struct stk_error *err)
{
	struct cost_job job = {.c = c, .blocks = (c->queries + BLOCK - 1) / BLOCK};
	int64_t items = c->outer * c->batch * job.blocks;
	int32_t threads = stk__fork_threads(r, items, items * BLOCK * (c->targets * (4 + c->box_values) + c->classes * 40));
	job.classes = stk__alloc((size_t)(threads * BLOCK * c->classes) * sizeof *job.classes);
	if (!job.classes)
		return stk__fail(err, STK_NO_MEMORY, "cost: no memory for %d blocks of %lld classes", threads, (long long)c->classes);
	stk__fork(threads, items, cost_block, &job);
	stk__free(job.classes);
	return STK_OK;
}
