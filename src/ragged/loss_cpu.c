/* SPDX-License-Identifier: Apache-2.0
 * Losses of matched predictions on the CPU: one thread computes a sample. Sums are added up in float64. */
#include "ragged/loss_math.h"
#include "ragged/ragged.h"

static void focal_sample(void *ctx, int64_t s, int32_t worker)
{
	(void)worker;
	const struct stk_focal *f = ctx;
	const float divisor = f->pairs ? stk__divisor(f->pairs[s]) : 1, scale = f->grad ? f->scale[s * f->scale_stride] / divisor : 0;
	double sum = 0;
	for (int64_t q = s * f->queries; q < (s + 1) * f->queries; q++) {
		int64_t label = stk__load_index(f->labels, f->label_bytes, q);
		for (int64_t c = 0; c < f->classes; c++) {
			int64_t i = q * f->classes + c;
			float slope;
			sum += stk__focal(f, stk__load_float(f->logits, f->dtype, i), c == label, &slope);
			if (f->grad)
				stk__store_float(f->grad, f->dtype, i, scale * slope);
		}
	}
	if (f->loss)
		f->loss[s] = (float)(sum / divisor);
}

enum stk_status stk__cpu_focal(struct stk_ragged *r, const struct stk_focal *f, struct stk_error *err)
{
	(void)err;
	struct stk_focal a = *f;
	/* Computing a value takes about as long as moving 64 bytes. */
	stk__fork(stk__fork_threads(r, f->samples, f->samples * f->queries * f->classes * 64), f->samples, focal_sample, &a);
	return STK_OK;
}

static void l1_sample(void *ctx, int64_t s, int32_t worker)
{
	(void)worker;
	const struct stk_l1 *l = ctx;
	const int64_t pairs = stk__size_of(l->sizes, s, l->pairs), n = l->pairs * l->values, first = s * n, used = pairs * l->values;
	const float divisor = l->mean ? stk__divisor(pairs) : 1;
	const float scale = l->grad ? l->scale[s * l->scale_stride] / divisor : 0;
	double sum = 0;
	for (int64_t i = first; i < first + used; i++) {
		float difference = l->ours[i] - l->theirs[i];
		sum += fabsf(difference);
		if (l->grad)
			l->grad[i] = scale * stk__sign(difference);
	}
	if (l->grad && n > used)
		memset(l->grad + first + used, 0, (size_t)(n - used) * sizeof *l->grad);
	if (l->loss)
		l->loss[s] = (float)(sum / divisor);
}

enum stk_status stk__cpu_l1(struct stk_ragged *r, const struct stk_l1 *l, struct stk_error *err)
{
	(void)err;
	struct stk_l1 a = *l;
	stk__fork(stk__fork_threads(r, l->samples, l->samples * l->pairs * l->values * 12), l->samples, l1_sample, &a);
	return STK_OK;
}
