/* SPDX-License-Identifier: Apache-2.0
 * stk_ragged_scatter_add on the CPU. The rows of a sample are added in their order by one thread, so results do not depend on the number of threads. Sums of
 * 16-bit floats are computed in float32, and rounded at the end. */
#include "ragged/items.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdatomic.h>

struct sum_job {
	const struct stk_scatter_add *s;
	atomic_bool no_memory;
};

/* Returns the item to which row j of sample b is added, or -1 if its index is out of range. `size` is the number of items. A negative index counts from the
 * end, or is out of range with s->exact. */
static int64_t sum_target(const struct stk_scatter_add *s, int64_t b, int64_t j, int64_t size)
{
	int64_t v = stk__load_index(s->index.data, s->index.bytes, b * s->index.count + j);
	if (!s->exact)
		return stk__resolve(v, size);
	return v >= 0 && v < size ? v : -1;
}

#define SUM_SAMPLE(name, type, sum_type)                                                                                                   \
	static void name(const struct stk_scatter_add *s, int64_t b, int64_t p)                                                            \
	{                                                                                                                                  \
		int64_t used = stk__size_of(s->index.sizes, b, s->index.count), size = stk__size_of(s->sizes, b, s->items);                \
		const type *source = (const type *)s->source + (b * s->outer + p) * s->index.count * s->inner;                             \
		sum_type *out = (sum_type *)s->out + (b * s->outer + p) * s->items * s->inner;                                             \
		memset(out, 0, (size_t)(s->items * s->inner) * sizeof *out);                                                               \
		for (int64_t j = 0; j < used; j++) {                                                                                       \
			int64_t t = sum_target(s, b, j, size);                                                                             \
			for (int64_t i = 0; t >= 0 && i < s->inner; i++)                                                                   \
				out[t * s->inner + i] += source[j * s->inner + i];                                                         \
		}                                                                                                                          \
	}
SUM_SAMPLE(sum_float, float, float)
SUM_SAMPLE(sum_double, double, double)
SUM_SAMPLE(sum_int32, uint32_t, uint32_t) /* unsigned, so that sums wrap as in torch */
SUM_SAMPLE(sum_int64, uint64_t, uint64_t)

static bool sum_short(const struct stk_scatter_add *s, int64_t b, int64_t p)
{
	int64_t used = stk__size_of(s->index.sizes, b, s->index.count), size = stk__size_of(s->sizes, b, s->items), n = s->items * s->inner;
	const uint16_t *source = (const uint16_t *)s->source + (b * s->outer + p) * s->index.count * s->inner;
	uint16_t *out = (uint16_t *)s->out + (b * s->outer + p) * n;
	float *sum = stk__calloc((size_t)n, sizeof *sum);
	if (!sum)
		return false;
	for (int64_t j = 0; j < used; j++) {
		int64_t t = sum_target(s, b, j, size);
		for (int64_t i = 0; t >= 0 && i < s->inner; i++)
			sum[t * s->inner + i] += stk__load_float(source, s->dtype, j * s->inner + i);
	}
	for (int64_t i = 0; i < n; i++)
		out[i] = s->dtype == STK_FLOAT16 ? stk__float_to_half(sum[i]) : stk__float_to_bfloat(sum[i]);
	stk__free(sum);
	return true;
}

static void sum_sample(void *ctx, int64_t b, int32_t worker)
{
	(void)worker;
	struct sum_job *job = ctx;
	const struct stk_scatter_add *s = job->s;
	for (int64_t p = 0; p < s->outer; p++) {
		if (s->dtype == STK_FLOAT)
			sum_float(s, b, p);
		else if (s->dtype == STK_FLOAT64)
			sum_double(s, b, p);
		else if (s->dtype == STK_INT32)
			sum_int32(s, b, p);
		else if (s->dtype == STK_INT64)
			sum_int64(s, b, p);
		else if (!sum_short(s, b, p))
			atomic_store(&job->no_memory, true);
	}
}

enum stk_status stk__cpu_scatter_add(struct stk_ragged *r, const struct stk_scatter_add *s, struct stk_error *err)
{
	struct sum_job job = {.s = s};
	int64_t bytes = s->batch * s->outer * (s->items + s->index.count) * s->inner * (int64_t)stk_dtype_size(s->dtype);
	stk__fork(stk__fork_threads(r, s->batch, bytes), s->batch, sum_sample, &job);
	if (atomic_load(&job.no_memory))
		return stk__fail(
			err, STK_NO_MEMORY, "no memory for the sums of %lld x %lld values", (long long)s->items, (long long)s->inner);
	return STK_OK;
}
