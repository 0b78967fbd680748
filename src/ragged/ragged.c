/* SPDX-License-Identifier: Apache-2.0
 * The public functions of stoker/batching.h. They refuse arguments with which a size would overflow or a needed array is missing, then call the
 * implementation for the handle's device. */
#include "ragged/ragged.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <sched.h>
#include <string.h>

static int32_t usable_cpus(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

enum stk_status stk_ragged_create(int32_t device, int32_t threads, struct stk_ragged **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	*out = NULL;
	if (threads < 0)
		return stk__fail(err, STK_INVALID, "threads is %d; it must be at least 0", threads);
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

/* Returns true if no extent is negative and their product fits in an int64_t. 0 counts as 1 in the product, so that offsets within an empty array fit too. */
static bool product_fits(const int64_t *extents, size_t n)
{
	int64_t product = 1;
	for (size_t i = 0; i < n; i++)
		if (extents[i] < 0 || __builtin_mul_overflow(product, extents[i] ? extents[i] : 1, &product))
			return false;
	return true;
}

/* Returns product_fits of its arguments. The last one is usually the number of bytes per element. */
#define FIT(...) product_fits((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static bool good_count(int64_t n)
{
	return n >= 0 && n <= INT32_MAX;
}

static bool good_bytes(int32_t bytes)
{
	return bytes == 4 || bytes == 8;
}

static bool good_indices(const struct stk_indices *i)
{
	return good_bytes(i->bytes) && good_count(i->count);
}

static bool good_element(int32_t element)
{
	return element == 1 || element == 2 || element == 4 || element == 8 || element == 16;
}

static bool good_float(int32_t dtype)
{
	return dtype == STK_FLOAT || dtype == STK_FLOAT64 || dtype == STK_FLOAT16 || dtype == STK_BFLOAT16;
}

static enum stk_status bad_extents(const char *name, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID,
		"%s: extents must be 0 or more, items and indices below 2^31, elements 1 to 16 bytes, and all of it below 2^63 bytes",
		name);
}

static enum stk_status no_data(const char *name, const char *what, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID, "%s: %s is NULL", name, what);
}

enum stk_status stk_ragged_gather(struct stk_ragged *r, const struct stk_gather *g, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, g))
		return STK_INVALID;
	if (!good_count(g->source_items) || !good_element(g->element) || !good_indices(&g->index) ||
		!FIT(g->batch, g->outer, g->index.count, g->inner, g->element) ||
		!FIT(g->batch, g->outer, g->source_items, g->inner, g->element))
		return bad_extents("gather", err);
	if (!g->batch || !g->outer || !g->index.count || !g->inner)
		return STK_OK;
	if (!g->out || !g->index.data || (!g->source && g->source_items))
		return no_data("gather", "out, source or the data of index", err);
	return r->device < 0 ? stk__cpu_gather(r, g, err) : stk__cuda_gather(r, g, stream, err);
}

enum stk_status stk_ragged_scatter(struct stk_ragged *r, const struct stk_scatter *s, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, s))
		return STK_INVALID;
	if (!good_count(s->items) || !good_count(s->source_items) || !good_element(s->element) || !good_indices(&s->target) ||
		(s->from.data && (!good_indices(&s->from) || s->from.count != s->target.count)) ||
		!FIT(s->batch, s->outer, s->items, s->inner, s->element) ||
		!FIT(s->batch, s->outer, s->source_items, s->inner, s->element) || !FIT(s->batch, s->target.count, 8))
		return bad_extents("scatter", err);
	if (!s->batch || !s->items)
		return STK_OK;
	if ((!s->target.data && s->target.count) || (!s->source && s->out && s->outer && s->source_items && s->inner))
		return no_data("scatter", "source or the data of target", err);
	return r->device < 0 ? stk__cpu_scatter(r, s, err) : stk__cuda_scatter(r, s, stream, err);
}

enum stk_status stk_ragged_scatter_add(struct stk_ragged *r, const struct stk_scatter_add *s, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, s))
		return STK_INVALID;
	if (!good_float((int32_t)s->dtype) && s->dtype != STK_INT32 && s->dtype != STK_INT64)
		return stk__fail(err, STK_UNSUPPORTED, "scatter_add: values of type %s cannot be summed", stk_dtype_name(s->dtype));
	if (!good_count(s->items) || !good_indices(&s->index) || !FIT(s->batch, s->outer, s->items, s->inner, 8) ||
		!FIT(s->batch, s->outer, s->index.count, s->inner, 8))
		return bad_extents("scatter_add", err);
	if (!s->batch || !s->outer || !s->items || !s->inner)
		return STK_OK;
	if (!s->out || ((!s->source || !s->index.data) && s->index.count))
		return no_data("scatter_add", "out, source or the data of index", err);
	return r->device < 0 ? stk__cpu_scatter_add(r, s, err) : stk__cuda_scatter_add(r, s, stream, err);
}

enum stk_status stk_ragged_keep(struct stk_ragged *r, const struct stk_keep *k, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, k))
		return STK_INVALID;
	if (!good_count(k->items) || !good_element(k->element) || !FIT(k->batch, k->outer, k->items, k->inner, k->element))
		return bad_extents("keep", err);
	if (!k->batch || !k->outer || !k->items || !k->inner)
		return STK_OK;
	if (!k->out || !k->source)
		return no_data("keep", "out or source", err);
	return r->device < 0 ? stk__cpu_keep(r, k, err) : stk__cuda_keep(r, k, stream, err);
}

enum stk_status stk_ragged_mask_to_index(struct stk_ragged *r, const struct stk_mask *m, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, m))
		return STK_INVALID;
	if (!good_count(m->items) || !FIT(m->batch, m->items, 8))
		return bad_extents("mask_to_index", err);
	if (m->batch == 0)
		return STK_OK;
	if (!m->mask && m->items)
		return no_data("mask_to_index", "mask", err);
	return r->device < 0 ? stk__cpu_mask_to_index(r, m, err) : stk__cuda_mask_to_index(r, m, stream, err);
}

enum stk_status stk_ragged_index_to_mask(struct stk_ragged *r, int64_t batch, int64_t items, const struct stk_indices *index, uint8_t *mask,
	uint64_t *refused, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, index))
		return STK_INVALID;
	if (!good_count(items) || !good_indices(index) || !FIT(batch, items) || !FIT(batch, index->count, 8))
		return bad_extents("index_to_mask", err);
	if (batch == 0 || (items == 0 && index->count == 0))
		return STK_OK;
	if ((!mask && items) || (!index->data && index->count))
		return no_data("index_to_mask", "mask or the data of index", err);
	return r->device < 0 ? stk__cpu_index_to_mask(r, batch, items, index, mask, refused, err)
			     : stk__cuda_index_to_mask(r, batch, items, index, mask, refused, stream, err);
}

enum stk_status stk_ragged_pack(struct stk_ragged *r, const void *const *samples, const int64_t *sizes, int64_t count, int64_t items,
	int64_t inner, void *out, struct stk_error *err)
{
	(void)r;
	if (!FIT(count, items, inner))
		return stk__fail(err, STK_INVALID, "pack: count, items and inner must be 0 or more, and all of it below 2^63 bytes");
	if (count && STK_NEED(err, samples, sizes))
		return STK_INVALID;
	for (int64_t s = 0; s < count; s++) {
		if (sizes[s] < 0 || sizes[s] > items)
			return stk__fail(err, STK_SHAPE, "pack: sample %lld has %lld items, but the batch has %lld", (long long)s,
				(long long)sizes[s], (long long)items);
		if (!items || !inner)
			continue;
		if (!out || (sizes[s] && !samples[s]))
			return no_data("pack", "out or a sample", err);
		uint8_t *to = (uint8_t *)out + s * items * inner;
		if (sizes[s] > 0)
			memcpy(to, samples[s], (size_t)(sizes[s] * inner));
		if (items > sizes[s])
			memset(to + sizes[s] * inner, 0, (size_t)((items - sizes[s]) * inner));
	}
	return STK_OK;
}

size_t stk_ragged_assign_workspace(const struct stk_ragged *r, const struct stk_assign *a)
{
	return !r || !a || r->device < 0 ? 0 : stk__cuda_assign_workspace(a, stk__cuda_shared(r));
}

/* Returns true only if every cost of a call is less than 2^63 bytes away from the first cost. */
static bool strides_fit(const struct stk_assign *a)
{
	const int64_t counts[] = {a->problems, a->rows, a->cols}, strides[] = {a->problem_stride, a->row_stride, a->col_stride};
	int64_t sum = 0;
	for (int i = 0; i < 3; i++) {
		int64_t reach;
		if (strides[i] == INT64_MIN || __builtin_mul_overflow(counts[i], strides[i] < 0 ? -strides[i] : strides[i], &reach) ||
			__builtin_add_overflow(sum, reach, &sum))
			return false;
	}
	return sum <= INT64_MAX / 8;
}

enum stk_status stk_ragged_assign(struct stk_ragged *r, const struct stk_assign *a, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, a))
		return STK_INVALID;
	if (!good_float((int32_t)a->dtype))
		return stk__fail(err, STK_UNSUPPORTED, "assign: costs must be floats, not %s", stk_dtype_name(a->dtype));
	if (!good_count(a->rows) || !good_count(a->cols) || !FIT(a->problems, a->rows, a->cols, 32) || !strides_fit(a))
		return stk__fail(err, STK_INVALID, "assign: extents must be 0 or more and below 2^31, and all costs within 2^63 bytes");
	if (a->problems == 0)
		return STK_OK;
	if (!a->sizes || !a->status || (a->rows && a->cols && (!a->cost || !a->row || !a->col)))
		return no_data("assign", "cost, row, col, sizes or status", err);
	return r->device < 0 ? stk__cpu_assign(r, a, err) : stk__cuda_assign(r, a, stream, err);
}

enum stk_status stk_ragged_cost(struct stk_ragged *r, const struct stk_cost *c, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, c))
		return STK_INVALID;
	if (!good_count(c->targets) || !good_count(c->queries) || !good_count(c->classes) ||
		!FIT(c->outer, c->batch, c->targets, c->queries, 8))
		return stk__fail(err, STK_INVALID, "cost: extents must be 0 or more and below 2^31, and all of it below 2^63 bytes");
	if (c->box_values < 0 || c->box_values > STK_COST_MAX_BOX)
		return stk__fail(
			err, STK_LIMIT, "cost: %lld box values; at most %d are supported", (long long)c->box_values, STK_COST_MAX_BOX);
	/* To choose its number of threads, stk__cpu_cost estimates its work: 4 + box_values for each query and target, and 40 for each query and class,
	 * where the queries of a sample are rounded up to a multiple of 64. The estimate must fit in an int64_t. */
	if (!FIT(c->outer, c->batch, c->queries + 64, c->targets * (4 + c->box_values) + c->classes * 40))
		return stk__fail(err, STK_INVALID, "cost: queries, targets and classes are too much work for one call");
	if ((unsigned)c->class_kind > STK_COST_PROBABILITY || (unsigned)c->box_format > STK_BOX_XYZWLH)
		return stk__fail(err, STK_INVALID, "cost: class_kind is %d and box_format %d; each must be a value of its enumeration",
			c->class_kind, c->box_format);
	if ((c->logits && (!good_float(c->logits_dtype) || !good_bytes(c->label_bytes))) ||
		(c->boxes && (!good_float(c->boxes_dtype) || !good_float(c->target_boxes_dtype))))
		return stk__fail(err, STK_INVALID, "cost: logits and boxes must be floats, and labels have 4 or 8 bytes");
	if (c->boxes && c->giou_weight != 0 && c->box_values < (c->box_format == STK_BOX_XYZWLH ? 6 : 4))
		return stk__fail(err, STK_SHAPE, "cost: GIoU of this box format needs more than %lld box values", (long long)c->box_values);
	if (!c->outer || !c->batch || !c->targets || !c->queries)
		return STK_OK;
	if (!c->out || (c->logits && !c->labels) || (c->boxes && !c->target_boxes))
		return no_data("cost", "out, or labels for the logits, or target_boxes for the boxes,", err);
	return r->device < 0 ? stk__cpu_cost(r, c, err) : stk__cuda_cost(r, c, stream, err);
}

/* Returns whether the extents of the matches of `samples` samples are valid, whose targets have `values` values. */
static bool good_matches(const struct stk_matches *m, int64_t samples, int64_t values)
{
	return good_count(m->most) && good_count(m->targets) && good_count(m->lists) && (m->lists || !samples) &&
	       FIT(samples, m->most, 16, 1) && m->most * values <= INT32_MAX && FIT(m->lists, m->targets, values, 8);
}

/* Returns whether arrays of the matches are missing. */
static bool lacks_matches(const struct stk_matches *m)
{
	return !m->sizes || (m->most && (!m->rows || !m->cols));
}

enum stk_status stk_ragged_focal(struct stk_ragged *r, const struct stk_focal *f, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, f))
		return STK_INVALID;
	if (!good_float(f->dtype))
		return stk__fail(err, STK_UNSUPPORTED, "focal: logits must be floats, not %s", stk_dtype_name((enum stk_dtype)f->dtype));
	if (!good_count(f->queries) || !good_count(f->classes) || f->queries * f->classes > INT32_MAX || !good_bytes(f->label_bytes) ||
		!FIT(f->samples, f->queries, f->classes, 64) || !good_matches(&f->matches, f->samples, 1))
		return stk__fail(err, STK_INVALID,
			"focal: extents must be 0 or more, a sample's values below 2^31, labels 4 or 8 bytes, and all of it below 2^63 bytes");
	if (!f->samples || (!f->loss && !f->grad))
		return STK_OK;
	if ((f->queries && f->classes && !f->logits) || (f->matches.most && f->matches.targets && !f->labels) || (f->grad && !f->scale) ||
		lacks_matches(&f->matches))
		return no_data("focal", "logits, labels, rows, cols and sizes of matches, or scale for the gradient,", err);
	return r->device < 0 ? stk__cpu_focal(r, f, err) : stk__cuda_focal(r, f, stream, err);
}

enum stk_status stk_ragged_l1(struct stk_ragged *r, const struct stk_l1 *l, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, l))
		return STK_INVALID;
	if (!good_count(l->queries) || !good_count(l->values) || l->queries * l->values > INT32_MAX ||
		!FIT(l->samples, l->queries, l->values, 12) || !good_matches(&l->matches, l->samples, l->values))
		return stk__fail(
			err, STK_INVALID, "l1: extents must be 0 or more, a sample's values below 2^31, and all of it below 2^63 bytes");
	if (!l->samples || (!l->loss && !l->grad))
		return STK_OK;
	if ((l->queries && l->values && !l->boxes) || (l->matches.targets && l->values && !l->target_boxes) || (l->grad && !l->scale) ||
		lacks_matches(&l->matches))
		return no_data("l1", "boxes, target_boxes, rows, cols and sizes of matches, or scale for the gradient,", err);
	return r->device < 0 ? stk__cpu_l1(r, l, err) : stk__cuda_l1(r, l, stream, err);
}

/* Maximum width and height on a GPU, where the kernel subtracts a centre from a pixel's coordinates in 32 bits. */
enum { HEATMAP_MOST = 1 << 30 };

enum stk_status stk_ragged_heatmap(struct stk_ragged *r, const struct stk_heatmap *h, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, h))
		return STK_INVALID;
	if (!good_count(h->width) || !good_count(h->height) || !good_count(h->targets) ||
		!FIT(h->groups, h->classes, h->height, h->width, sizeof(float)) || !FIT(h->groups, h->targets, 2048))
		return stk__fail(err, STK_INVALID, "heatmap: extents must be 0 or more and below 2^31, and all of it below 2^63 bytes");
	if (r->device >= 0 && (h->height > HEATMAP_MOST || h->width > HEATMAP_MOST))
		return stk__fail(err, STK_LIMIT, "heatmap: %lld x %lld pixels; on a GPU a side has up to 2^30", (long long)h->height,
			(long long)h->width);
	if (!isfinite(h->sigma_factor) || h->sigma_factor == 0 || !isfinite(h->k))
		return stk__fail(err, STK_INVALID, "heatmap: sigma_factor is %g and k %g; both must be finite, and sigma_factor not 0",
			(double)h->sigma_factor, (double)h->k);
	if (!h->groups || !h->classes || !h->height || !h->width)
		return STK_OK;
	if (!h->map || (h->targets && (!h->centers || !h->radii)))
		return no_data("heatmap", "map, centers or radii", err);
	for (int i = 0; i < 4; i++)
		if (h->targets && !good_bytes(h->bytes[i]) && (i < 2 || (i == 2 ? h->labels : h->map_index)))
			return stk__fail(err, STK_INVALID, "heatmap: integers have 4 or 8 bytes, not %d", h->bytes[i]);
	return r->device < 0 ? stk__cpu_heatmap(r, h, err) : stk__cuda_heatmap(r, h, stream, err);
}

enum stk_status stk_ragged_polyline(struct stk_ragged *r, const struct stk_polyline *p, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, r, p))
		return STK_INVALID;
	if (!good_float((int32_t)p->dtype))
		return stk__fail(err, STK_UNSUPPORTED, "polyline: points must be floats, not %s", stk_dtype_name(p->dtype));
	if (!good_count(p->points) || !good_count(p->samples) || !good_count(p->dims) || !FIT(p->batch, p->points, p->dims, 64) ||
		!FIT(p->batch, p->samples, p->dims, 64))
		return stk__fail(err, STK_INVALID, "polyline: extents must be 0 or more and below 2^31, and all of it below 2^63 bytes");
	if (!p->batch || (!p->length && (!p->out || !p->samples || !p->dims)))
		return STK_OK;
	if ((!p->point && p->points && p->dims) || (p->out && !p->distance && p->samples))
		return no_data("polyline", "point or distance", err);
	if (r->device >= 0 && !p->along && p->points)
		return no_data("polyline", "along", err);
	return r->device < 0 ? stk__cpu_polyline(r, p, err) : stk__cuda_polyline(r, p, stream, err);
}
