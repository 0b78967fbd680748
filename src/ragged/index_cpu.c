/* SPDX-License-Identifier: Apache-2.0
 * Indexing and padding on the CPU: moves rows of bytes, one sample at a time. */
#include "ragged/items.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdatomic.h>

static void fill_row(uint8_t *out, int64_t n, int32_t element, const uint8_t *value)
{
	if (element == 1) {
		memset(out, value[0], (size_t)n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(out + i * element, value, (size_t)element);
}

/* Returns the source item for index j of sample b, or -1 if the output gets no item: j is not among the `used` indices, the index is out of range, or
 * g->winner names another index for the item. Indices out of range are counted in *bad, but not with g->exact. size: number of source items in use. */
static int64_t gather_item(const struct stk_gather *g, int64_t b, int64_t j, int64_t used, int64_t size, uint64_t *bad)
{
	if (j >= used)
		return -1;
	int64_t v = stk__load_index(g->index.data, g->index.bytes, b * g->index.count + j);
	if (g->exact)
		return v >= 0 && v < size ? v : -1;
	v = stk__resolve(v, size);
	if (v < 0)
		++*bad;
	else if (g->winner && g->winner[b * g->source_items + v] != (int32_t)j)
		v = -1;
	return v;
}

static void gather_sample(void *ctx, int64_t b, int32_t worker)
{
	(void)worker;
	const struct stk_gather *g = ctx;
	int64_t used = stk__size_of(g->index.sizes, b, g->index.count), size = stk__size_of(g->source_sizes, b, g->source_items);
	size_t row = (size_t)(g->inner * g->element);
	uint64_t bad = 0;
	for (int64_t j = 0; j < g->index.count; j++) {
		int64_t item = gather_item(g, b, j, used, size, &bad);
		for (int64_t p = 0; p < g->outer; p++) {
			size_t to = (size_t)((b * g->outer + p) * g->index.count + j) * row;
			uint8_t *out = (uint8_t *)g->out + to;
			if (item >= 0)
				memcpy(out, (const uint8_t *)g->source + (size_t)((b * g->outer + p) * g->source_items + item) * row, row);
			else if (g->base)
				memcpy(out, (const uint8_t *)g->base + to, row);
			else
				fill_row(out, g->inner, g->element, g->filler);
		}
	}
	stk__count_refused(g->refused, bad);
}

enum stk_status stk__cpu_gather(struct stk_ragged *r, const struct stk_gather *g, struct stk_error *err)
{
	(void)err;
	int64_t bytes = g->batch * g->outer * g->index.count * g->inner * g->element;
	stk__fork(stk__fork_threads(r, g->batch, bytes), g->batch, gather_sample, (void *)(uintptr_t)g);
	return STK_OK;
}

struct scatter_job {
	const struct stk_scatter *s;
	atomic_bool no_memory;
};

/* Sets origin[t] for each target t of sample b: the source item that is written to t last, or -1 if no item is. Adds the number of pairs with an index out of
 * range to *s->refused. */
static void scatter_origin(const struct stk_scatter *s, int64_t b, int32_t *origin)
{
	int64_t count = s->target.count, used = stk__size_of(s->target.sizes, b, count), size = stk__size_of(s->sizes, b, s->items);
	int64_t source_size = stk__size_of(s->source_sizes, b, s->source_items);
	uint64_t bad = 0;
	for (int64_t t = 0; t < s->items; t++)
		origin[t] = -1;
	for (int64_t j = 0; j < used; j++) {
		int64_t t = stk__resolve(stk__load_index(s->target.data, s->target.bytes, b * count + j), size), from = j;
		if (s->from.data)
			from = stk__resolve(stk__load_index(s->from.data, s->from.bytes, b * count + j), source_size);
		if (t < 0 || from < 0)
			bad++;
		else
			origin[t] = (int32_t)from;
	}
	stk__count_refused(s->refused, bad);
}

static void scatter_rows(const struct stk_scatter *s, int64_t b, const int32_t *origin)
{
	size_t row = (size_t)(s->inner * s->element);
	for (int64_t p = 0; p < s->outer; p++) {
		size_t from = (size_t)((b * s->outer + p) * s->source_items) * row, to = (size_t)((b * s->outer + p) * s->items) * row;
		for (int64_t t = 0; t < s->items; t++, to += row) {
			uint8_t *out = (uint8_t *)s->out + to;
			if (origin[t] >= 0)
				memcpy(out, (const uint8_t *)s->source + from + (size_t)origin[t] * row, row);
			else if (s->base)
				memcpy(out, (const uint8_t *)s->base + to, row);
			else
				fill_row(out, s->inner, s->element, s->filler);
		}
	}
}

static void scatter_sample(void *ctx, int64_t b, int32_t worker)
{
	(void)worker;
	struct scatter_job *job = ctx;
	const struct stk_scatter *s = job->s;
	int32_t *temporary = s->origin ? NULL : stk__alloc((size_t)s->items * sizeof *temporary);
	int32_t *origin = s->origin ? s->origin + b * s->items : temporary;
	if (!origin) {
		atomic_store(&job->no_memory, true);
		return;
	}
	scatter_origin(s, b, origin);
	if (s->out && s->inner)
		scatter_rows(s, b, origin);
	stk__free(temporary);
}

enum stk_status stk__cpu_scatter(struct stk_ragged *r, const struct stk_scatter *s, struct stk_error *err)
{
	struct scatter_job job = {.s = s};
	int64_t bytes = s->batch * s->outer * s->items * s->inner * s->element;
	stk__fork(stk__fork_threads(r, s->batch, bytes), s->batch, scatter_sample, &job);
	if (atomic_load(&job.no_memory))
		return stk__fail(err, STK_NO_MEMORY, "no memory for the origin of %lld items", (long long)s->items);
	return STK_OK;
}

static void keep_sample(void *ctx, int64_t b, int32_t worker)
{
	(void)worker;
	const struct stk_keep *k = ctx;
	int64_t size = stk__size_of(k->sizes, b, k->items);
	size_t row = (size_t)(k->inner * k->element);
	for (int64_t p = 0; p < k->outer; p++) {
		for (int64_t n = 0; n < k->items; n++) {
			size_t at = (size_t)((b * k->outer + p) * k->items + n) * row;
			uint8_t *out = (uint8_t *)k->out + at;
			bool keep = n < size && (!k->origin || k->origin[b * k->items + n] < 0);
			if (!keep)
				fill_row(out, k->inner, k->element, k->filler);
			else if (k->source != k->out)
				memcpy(out, (const uint8_t *)k->source + at, row);
		}
	}
}

enum stk_status stk__cpu_keep(struct stk_ragged *r, const struct stk_keep *k, struct stk_error *err)
{
	(void)err;
	int64_t bytes = k->batch * k->outer * k->items * k->inner * k->element;
	stk__fork(stk__fork_threads(r, k->batch, bytes), k->batch, keep_sample, (void *)(uintptr_t)k);
	return STK_OK;
}

enum stk_status stk__cpu_mask_to_index(struct stk_ragged *r, const struct stk_mask *m, struct stk_error *err)
{
	(void)r, (void)err;
	for (int64_t b = 0; b < m->batch; b++) {
		int64_t n = 0, size = stk__size_of(m->sizes, b, m->items), at = b * m->items;
		for (int64_t t = 0; t < m->items; t++) {
			bool set = t < size && m->mask[at + t];
			if (m->rank)
				m->rank[at + t] = set ? (int32_t)n : -1;
			if (set && m->index)
				m->index[at + n] = t;
			n += set;
		}
		if (m->count)
			m->count[b] = n;
		if (m->index)
			memset(m->index + at + n, 0, (size_t)(m->items - n) * sizeof *m->index);
	}
	return STK_OK;
}

enum stk_status stk__cpu_index_to_mask(struct stk_ragged *r, int64_t batch, int64_t items, const struct stk_indices *index, uint8_t *mask,
	uint64_t *refused, struct stk_error *err)
{
	(void)r, (void)err;
	if (items)
		memset(mask, 0, (size_t)(batch * items));
	uint64_t bad = 0;
	for (int64_t b = 0; b < batch; b++) {
		int64_t used = stk__size_of(index->sizes, b, index->count);
		for (int64_t j = 0; j < used; j++) {
			int64_t t = stk__resolve(stk__load_index(index->data, index->bytes, b * index->count + j), items);
			if (t < 0)
				bad++;
			else
				mask[b * items + t] = 1;
		}
	}
	stk__count_refused(refused, bad);
	return STK_OK;
}
