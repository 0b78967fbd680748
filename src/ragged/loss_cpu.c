/* SPDX-License-Identifier: Apache-2.0
 * Losses of matched predictions on the CPU: one thread computes a sample. Sums are added up in float64. */
#include "base/error.h"
#include "base/memory.h"
#include "ragged/loss_math.h"
#include "ragged/ragged.h"

struct focal_job {
	const struct stk_focal *f;
	int64_t *classes; /* for each worker, the class of each query */
};

/* Stores the class of each query of sample s in `classes`: -1 for a query without a pair. */
static void find_classes(const struct stk_focal *f, int64_t s, int64_t *classes)
{
	const struct stk_matches *m = &f->matches;
	const int64_t pairs = stk__pairs_of(m, s), labels = s % m->lists * m->targets;
	for (int64_t q = 0; q < f->queries; q++)
		classes[q] = -1;
	for (int64_t j = 0; j < pairs; j++) {
		int64_t query, target;
		if (stk__pair(m, f->queries, s, j, &query, &target))
			classes[query] = stk__load_index(f->labels, f->label_bytes, labels + target);
		else if (f->loss)
			stk__count_refused(m->refused, 1);
	}
}

static void focal_sample(void *ctx, int64_t s, int32_t worker)
{
	const struct focal_job *job = ctx;
	const struct stk_focal *f = job->f;
	int64_t *classes = job->classes + worker * f->queries, i = s * f->queries * f->classes;
	const float divisor = f->mean ? stk__divisor(stk__pairs_of(&f->matches, s)) : 1;
	const float scale = f->grad ? f->scale[s * f->scale_stride] / divisor : 0;
	double sum = 0;
	find_classes(f, s, classes);
	for (int64_t q = 0; q < f->queries; q++) {
		for (int64_t c = 0; c < f->classes; c++, i++) {
			float slope;
			sum += stk__focal(f, stk__load_float(f->logits, f->dtype, i), c == classes[q], &slope);
			if (f->grad)
				stk__store_float(f->grad, f->dtype, i, scale * slope);
		}
	}
	if (f->loss)
		f->loss[s] = (float)(sum / divisor);
}

enum stk_status stk__cpu_focal(struct stk_ragged *r, const struct stk_focal *f, struct stk_error *err)
{
	/* Computing a value takes about as long as moving 64 bytes. */
	int32_t threads = stk__fork_threads(r, f->samples, f->samples * f->queries * f->classes * 64);
	struct focal_job job = {f, stk__alloc((size_t)threads * (size_t)f->queries * sizeof *job.classes)};
	if (!job.classes)
		return stk__fail(err, STK_NO_MEMORY, "focal: out of memory for the classes of %lld queries", (long long)f->queries);
	stk__fork(threads, f->samples, focal_sample, &job);
	stk__free(job.classes);
	return STK_OK;
}

static void l1_sample(void *ctx, int64_t s, int32_t worker)
{
	(void)worker;
	const struct stk_l1 *l = ctx;
	const struct stk_matches *m = &l->matches;
	const int64_t pairs = stk__pairs_of(m, s), first = s * l->queries, list = s % m->lists * m->targets;
	const float divisor = l->mean ? stk__divisor(pairs) : 1, scale = l->grad ? l->scale[s * l->scale_stride] / divisor : 0;
	double sum = 0;
	if (l->grad)
		memset(l->grad + first * l->values, 0, (size_t)(l->queries * l->values) * sizeof *l->grad);
	for (int64_t j = 0; j < pairs; j++) {
		int64_t query, target;
		if (!stk__pair(m, l->queries, s, j, &query, &target)) {
			if (l->loss)
				stk__count_refused(m->refused, 1);
			continue;
		}
		for (int64_t k = 0; k < l->values; k++) {
			int64_t i = (first + query) * l->values + k;
			float difference = l->boxes[i] - l->target_boxes[(list + target) * l->values + k];
			sum += fabsf(difference);
			if (l->grad)
				l->grad[i] += scale * stk__sign(difference);
		}
	}
	if (l->loss)
		l->loss[s] = (float)(sum / divisor);
}

enum stk_status stk__cpu_l1(struct stk_ragged *r, const struct stk_l1 *l, struct stk_error *err)
{
	(void)err;
	struct stk_l1 a = *l;
	int64_t bytes = l->samples * (l->matches.most * 8 + l->queries * 4) * l->values;
	stk__fork(stk__fork_threads(r, l->samples, bytes), l->samples, l1_sample, &a);
	return STK_OK;
}
