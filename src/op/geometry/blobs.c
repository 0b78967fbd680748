/* SPDX-License-Identifier: Apache-2.0
 * Finds blobs by union-find: visits the elements in memory order, and joins each one with its preceding neighbour along each dim. */
#include "op/geometry/blobs.h"

static int32_t root_of(int32_t *parent, int32_t i)
{
	while (parent[i] != i) {
		parent[i] = parent[parent[i]];
		i = parent[i];
	}
	return i;
}

static bool is_wanted(int32_t label, int32_t background, bool all, struct stk_ints wanted)
{
	if (all)
		return label != background;
	for (int32_t k = 0; k < wanted.count; k++)
		if (wanted.v[k] == label)
			return true;
	return false;
}

/* Joins element i with the element before it along each dim, if that has the same label. */
static void join(const int32_t *labels, const struct stk_desc *d, int32_t *parent, int32_t i, const int64_t *index)
{
	int64_t stride = 1;
	for (int32_t k = d->ndim - 1; k >= 0; stride *= d->shape[k], k--) {
		int32_t before = i - (int32_t)stride;
		if (!index[k] || parent[before] < 0 || labels[before] != labels[i])
			continue;
		int32_t a = root_of(parent, before), b = root_of(parent, i);
		parent[a > b ? a : b] = a > b ? b : a;
	}
}

static void step(const struct stk_desc *d, int64_t *index)
{
	for (int32_t k = d->ndim - 1; k >= 0 && ++index[k] == d->shape[k]; k--)
		index[k] = 0;
}

static void cover(struct stk_blob *b, const int64_t *index, int32_t ndim)
{
	for (int32_t k = 0; k < ndim; k++) {
		b->lo[k] = index[k] < b->lo[k] ? index[k] : b->lo[k];
		b->hi[k] = index[k] + 1 > b->hi[k] ? index[k] + 1 : b->hi[k];
	}
}

enum stk_status stk__blobs_find(const int32_t *labels, const struct stk_desc *d, int32_t background, bool all, struct stk_ints wanted,
	struct stk_arena *arena, struct stk_blobs *out, struct stk_error *err)
{
	int64_t n = stk_desc_elements(d), index[STK_MAX_DIMS] = {0};
	if (n > INT32_MAX)
		return stk__fail(
			err, STK_LIMIT, "a mask of %lld values is too large: blobs are found in up to %d", (long long)n, INT32_MAX);
	int32_t *parent = stk__arena_take(arena, (size_t)n * sizeof *parent + 1), roots = 0;
	if (!parent)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a mask of %lld values", (long long)n);
	for (int32_t i = 0; i < n; i++, step(d, index)) {
		parent[i] = is_wanted(labels[i], background, all, wanted) ? i : -1;
		if (parent[i] >= 0)
			join(labels, d, parent, i, index);
	}
	for (int32_t i = 0; i < n; i++)
		roots += parent[i] == i;
	out->v = stk__arena_take(arena, (size_t)roots * sizeof *out->v + 1);
	out->count = 0;
	if (!out->v)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d blobs", roots);
	for (int32_t i = 0; i < n; i++, step(d, index)) { /* the parent of a blob's first element becomes -2 - (the blob's number) */
		if (parent[i] == -1)
			continue;
		if (parent[i] == i) {
			struct stk_blob *b = &out->v[out->count];
			b->label = labels[i];
			for (int32_t k = 0; k < d->ndim; k++) {
				b->lo[k] = index[k];
				b->hi[k] = index[k] + 1;
			}
			parent[i] = -2 - out->count++;
			continue;
		}
		while (parent[i] >= 0)
			parent[i] = parent[parent[i]];
		cover(&out->v[-2 - parent[i]], index, d->ndim);
	}
	return STK_OK;
}
