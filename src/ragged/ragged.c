/* SPDX-License-Identifier: Apache-2.0
 * The public functions: they check what would read or write outside the caller's memory, then go to the device. */
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

#include <sched.h>
#include <string.h>

static int32_t usable_cpus(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

enum stk_status stk_ragged_create(int32_t device, int32_t threads, struct stk_ragged **out, struct stk_error *err)
{
	*out = NULL;
	struct stk_ragged *r = stk__calloc(1, sizeof *r);
	if (!r)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a handle");
	*r = (struct stk_ragged){.device = device, .threads = threads > 0 ? threads : usable_cpus(), .cpu = stk__cpu_capabilities()};
	enum stk_status status = STK_OK;
	if (device >= 0)
		status = stk__cuda_create(r, err);
	else if (device != STK_RAGGED_CPU)
		status = stk__fail(err, STK_INVALID, "device %d does not exist: -1 is the CPU, 0 and above are CUDA devices", device);
	if (status) {
		stk__free(r);
		return status;
	}
	*out = r;
	return STK_OK;
}

void stk_ragged_destroy(struct stk_ragged *r)
{
	if (!r)
		return;
	stk__cuda_destroy(r->cuda);
	stk__free(r);
}

static bool good_indices(const struct stk_indices *i)
{
	return (i->bytes == 4 || i->bytes == 8) && i->count >= 0 && i->count <= INT32_MAX;
}

static bool good_element(int32_t element)
{
	return element == 1 || element == 2 || element == 4 || element == 8 || element == 16;
}

static bool good_extents(int64_t a, int64_t b, int64_t c, int64_t d)
{
	return a >= 0 && b >= 0 && c >= 0 && d >= 0 && c <= INT32_MAX;
}

enum stk_status stk_ragged_gather(struct stk_ragged *r, const struct stk_gather *g, void *stream, struct stk_error *err)
{
	if (!good_extents(g->batch, g->outer, g->source_items, g->inner) || !good_element(g->element) || !good_indices(&g->index))
		return stk__fail(
			err, STK_INVALID, "gather: extents must be 0 or more, items and indices below 2^31, elements 1 to 16 bytes");
	if (g->batch * g->outer * g->index.count * g->inner == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_gather(r, g, err) : stk__cuda_gather(r, g, stream, err);
}

enum stk_status stk_ragged_scatter(struct stk_ragged *r, const struct stk_scatter *s, void *stream, struct stk_error *err)
{
	if (!good_extents(s->batch, s->outer, s->items, s->inner) || !good_extents(0, 0, s->source_items, 0) || !good_element(s->element) ||
		!good_indices(&s->target) || (s->from.data && (!good_indices(&s->from) || s->from.count != s->target.count)))
		return stk__fail(
			err, STK_INVALID, "scatter: extents must be 0 or more, items and indices below 2^31, elements 1 to 16 bytes");
	if (s->batch * s->items == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_scatter(r, s, err) : stk__cuda_scatter(r, s, stream, err);
}

enum stk_status stk_ragged_scatter_add(struct stk_ragged *r, const struct stk_scatter_add *s, void *stream, struct stk_error *err)
{
	bool numeric = s->dtype == STK_FLOAT || s->dtype == STK_FLOAT64 || s->dtype == STK_FLOAT16 || s->dtype == STK_BFLOAT16 ||
		       s->dtype == STK_INT32 || s->dtype == STK_INT64;
	if (!numeric)
		return stk__fail(err, STK_UNSUPPORTED, "scatter_add: values of type %s cannot be summed", stk_dtype_name(s->dtype));
	if (!good_extents(s->batch, s->outer, s->items, s->inner) || !good_indices(&s->index))
		return stk__fail(err, STK_INVALID, "scatter_add: extents must be 0 or more, items and indices below 2^31");
	if (s->batch * s->outer * s->items * s->inner == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_scatter_add(r, s, err) : stk__cuda_scatter_add(r, s, stream, err);
}

enum stk_status stk_ragged_keep(struct stk_ragged *r, const struct stk_keep *k, void *stream, struct stk_error *err)
{
	if (!good_extents(k->batch, k->outer, k->items, k->inner) || !good_element(k->element))
		return stk__fail(err, STK_INVALID, "keep: extents must be 0 or more, items below 2^31, elements 1 to 16 bytes");
	if (k->batch * k->outer * k->items * k->inner == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_keep(r, k, err) : stk__cuda_keep(r, k, stream, err);
}

enum stk_status stk_ragged_mask_to_index(struct stk_ragged *r, const struct stk_mask *m, void *stream, struct stk_error *err)
{
	if (!good_extents(m->batch, 0, m->items, 0))
		return stk__fail(err, STK_INVALID, "mask_to_index: extents must be 0 or more, items below 2^31");
	if (m->batch == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_mask_to_index(r, m, err) : stk__cuda_mask_to_index(r, m, stream, err);
}

enum stk_status stk_ragged_index_to_mask(struct stk_ragged *r, int64_t batch, int64_t items, const struct stk_indices *index, uint8_t *mask,
	uint64_t *refused, void *stream, struct stk_error *err)
{
	if (!good_extents(batch, 0, items, 0) || !good_indices(index))
		return stk__fail(err, STK_INVALID, "index_to_mask: extents must be 0 or more, items and indices below 2^31");
	if (batch == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_index_to_mask(r, batch, items, index, mask, refused, err)
			     : stk__cuda_index_to_mask(r, batch, items, index, mask, refused, stream, err);
}

enum stk_status stk_ragged_pack(struct stk_ragged *r, const void *const *samples, const int64_t *sizes, int64_t count, int64_t items,
	int64_t inner, void *out, struct stk_error *err)
{
	(void)r;
	for (int64_t s = 0; s < count; s++) {
		if (sizes[s] < 0 || sizes[s] > items)
			return stk__fail(err, STK_SHAPE, "pack: sample %lld has %lld items, the batch %lld", (long long)s,
				(long long)sizes[s], (long long)items);
		uint8_t *to = (uint8_t *)out + s * items * inner;
		if (sizes[s] * inner > 0)
			memcpy(to, samples[s], (size_t)(sizes[s] * inner));
		if (items > sizes[s])
			memset(to + sizes[s] * inner, 0, (size_t)((items - sizes[s]) * inner));
	}
	return STK_OK;
}

size_t stk_ragged_assign_workspace(const struct stk_ragged *r, const struct stk_assign *a)
{
	return r->device < 0 ? 0 : stk__cuda_assign_workspace(a, stk__cuda_shared(r));
}

enum stk_status stk_ragged_assign(struct stk_ragged *r, const struct stk_assign *a, void *stream, struct stk_error *err)
{
	if (a->dtype != STK_FLOAT && a->dtype != STK_FLOAT64 && a->dtype != STK_FLOAT16 && a->dtype != STK_BFLOAT16)
		return stk__fail(err, STK_UNSUPPORTED, "assign: costs must be floats, not %s", stk_dtype_name(a->dtype));
	if (!good_extents(a->problems, 0, a->rows, a->cols) || a->cols > INT32_MAX)
		return stk__fail(err, STK_INVALID, "assign: extents must be 0 or more and below 2^31");
	if (a->problems == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_assign(r, a, err) : stk__cuda_assign(r, a, stream, err);
}

enum stk_status stk_ragged_cost(struct stk_ragged *r, const struct stk_cost *c, void *stream, struct stk_error *err)
{
	if (!good_extents(c->outer, c->batch, c->targets, c->queries) || c->queries > INT32_MAX || c->classes < 0)
		return stk__fail(err, STK_INVALID, "cost: extents must be 0 or more and below 2^31");
	if (c->box_values < 0 || c->box_values > STK_COST_MAX_BOX)
		return stk__fail(err, STK_LIMIT, "cost: %lld box values, at most %d are taken", (long long)c->box_values, STK_COST_MAX_BOX);
	if (c->boxes && c->giou_weight != 0 && c->box_values < (c->box_format == STK_BOX_XYZWLH ? 6 : 4))
		return stk__fail(err, STK_SHAPE, "cost: GIoU of this box format needs more than %lld box values", (long long)c->box_values);
	if (c->outer * c->batch * c->targets * c->queries == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_cost(r, c, err) : stk__cuda_cost(r, c, stream, err);
}

enum stk_status stk_ragged_heatmap(struct stk_ragged *r, const struct stk_heatmap *h, void *stream, struct stk_error *err)
{
	if (!good_extents(h->groups, h->classes, h->width, h->height) || h->targets < 0 || h->height > INT32_MAX || h->targets > INT32_MAX)
		return stk__fail(err, STK_INVALID, "heatmap: extents must be 0 or more and below 2^31");
	if (h->groups * h->classes * h->height * h->width == 0)
		return STK_OK;
	return r->device < 0 ? stk__cpu_heatmap(r, h, err) : stk__cuda_heatmap(r, h, stream, err);
}
