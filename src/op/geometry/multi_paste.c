/* SPDX-License-Identifier: Apache-2.0
 * multi_paste: pastes parts of several images onto one canvas. */
#include "kernel/copy/copy.h"
#include "op/dims.h"
#include "op/tensor/batch_table.h"

#include <string.h>

struct multi_paste {
	struct stk_ints in_ids, in_anchors, out_anchors, shapes, output_size;
	struct stk_floats in_anchors_rel, out_anchors_rel, shapes_rel;
	int32_t dtype;
};

#define PAIRS(member, text) STK_ARG(struct multi_paste, member, STK_ARG_INTS, NULL, (-0x1p28, 0x1p28), STK_PER_SAMPLE | STK_PER_FRAME, text)
#define SHARES(member, text) STK_ARG(struct multi_paste, member, STK_ARG_FLOATS, NULL, (0, 1), STK_PER_SAMPLE | STK_PER_FRAME, text)

static const struct stk_arg_def multi_paste_args[] = {
	STK_ARG(struct multi_paste, in_ids, STK_ARG_INTS, NULL, STK_FREE, STK_PER_SAMPLE | STK_SCALAR_OK,
		"For each region, the index in the batch of the sample from which it is taken; there is only one input then. Default: one "
		"region of each input."),
	PAIRS(in_anchors, "Top and left of each region in its image, in pixels, one row a region. Default: 0."),
	SHARES(in_anchors_rel, "The same as fractions of the image's extents, cut to whole pixels, instead of in_anchors."),
	PAIRS(out_anchors, "Top and left of each region on the canvas, in pixels, one row a region. Default: 0."),
	SHARES(out_anchors_rel, "The same as fractions of the canvas's extents, cut to whole pixels, instead of out_anchors."),
	PAIRS(shapes, "Height and width of each region in pixels, one row a region. Default: to the end of its image."),
	SHARES(shapes_rel, "The same as fractions of the image's extents, rounded up to whole pixels, instead of shapes."),
	{.name = "output_size",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE,
		.offset = offsetof(struct multi_paste, output_size),
		.min = 0,
		.max = 0x1p28,
		.shapes = true,
		.doc = "Height and width of the canvas. Default: those of the images, which must then be equal."},
	STK_ARG(struct multi_paste, dtype, STK_ARG_DTYPE, NULL, (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output, to which values are rounded. Default: the input's."),
	STK_ARG_END,
};

/* A region of an input that is pasted: its start in the input and on the canvas, and its size. Index 0 of arrays is y, 1 is x. */
struct region {
	const struct stk_tensor *from;
	int64_t in[2], out[2], size[2];
};

static bool by_ids(const struct stk_call *call)
{
	const struct multi_paste *a = call->args;
	return a->in_ids.count >= 0 || stk__varies(call, &a->in_ids);
}

static enum stk_status check_image(const struct stk_desc *d, const struct stk_desc *first, struct stk_error *err)
{
	const char *layout = stk__layout_of(d);
	if (d->dtype != STK_NO_DTYPE && d->dtype != STK_UINT8 && d->dtype != STK_INT16 && d->dtype != STK_INT32 && d->dtype != STK_FLOAT)
		return stk__fail(err, STK_UNSUPPORTED, "images must be of uint8, int16, int32 or float32 here, not %s; cast them",
			stk_dtype_name(d->dtype));
	if (d->ndim >= 0 && ((d->ndim != 3 && d->ndim != 4) || strcmp(layout + d->ndim - 3, "HWC") != 0))
		return stk__fail(err, STK_SHAPE, "images must have the layout HWC or FHWC here, not \"%s\"; transpose them", layout);
	if (d->ndim < 1 || first->ndim < 1)
		return STK_OK;
	bool frames = d->ndim == 3 || d->shape[0] == first->shape[0] || d->shape[0] < 0 || first->shape[0] < 0;
	int64_t channels = d->shape[d->ndim - 1], wanted = first->shape[first->ndim - 1];
	if (d->ndim != first->ndim || !frames || (channels >= 0 && wanted >= 0 && channels != wanted) ||
		(d->dtype != first->dtype && d->dtype != STK_NO_DTYPE && first->dtype != STK_NO_DTYPE))
		return stk__fail(err, STK_SHAPE, "all images that are pasted must have the same type, frames and channels");
	return STK_OK;
}

static enum stk_status check_counts(const struct multi_paste *a, int32_t regions, struct stk_error *err)
{
	const struct {
		const char *name, *other;
		int32_t count, others;
	} given[] = {{"in_anchors", "in_anchors_rel", a->in_anchors.count, a->in_anchors_rel.count},
		{"out_anchors", "out_anchors_rel", a->out_anchors.count, a->out_anchors_rel.count},
		{"shapes", "shapes_rel", a->shapes.count, a->shapes_rel.count}};
	for (int i = 0; i < 3; i++) {
		int32_t count = given[i].count >= 0 ? given[i].count : given[i].others;
		if (given[i].count >= 0 && given[i].others >= 0)
			return stk__fail(err, STK_INVALID, "%s and %s are both given: choose one", given[i].name, given[i].other);
		if (count >= 0 && count != 2 * regions)
			return stk__fail(
				err, STK_INVALID, "%s has %d values for %d regions; it takes two for each", given[i].name, count, regions);
	}
	return STK_OK;
}

/* Computes the position of region k in the input and on the canvas along dim d (0: y, 1: x). Fails if the region reaches outside of either. canvas: the
 * output's desc. */
static enum stk_status locate_region(
	const struct multi_paste *a, struct region *r, int32_t k, int32_t d, const struct stk_desc *canvas, struct stk_error *err)
{
	int32_t h = canvas->ndim - 3, i = 2 * k + d;
	int64_t size = r->from->desc.shape[h + d], out = canvas->shape[h + d];
	r->in[d] = a->in_anchors.count > 0       ? a->in_anchors.v[i]
		   : a->in_anchors_rel.count > 0 ? (int64_t)(a->in_anchors_rel.v[i] * (float)size)
						 : 0;
	r->out[d] = a->out_anchors.count > 0       ? a->out_anchors.v[i]
		    : a->out_anchors_rel.count > 0 ? (int64_t)(a->out_anchors_rel.v[i] * (float)out)
						   : 0;
	r->size[d] = a->shapes.count > 0       ? a->shapes.v[i]
		     : a->shapes_rel.count > 0 ? (int64_t)ceilf(a->shapes_rel.v[i] * (float)size)
					       : size - r->in[d];
	if (r->in[d] < 0 || r->size[d] < 0 || r->in[d] + r->size[d] > size)
		return stk__fail(err, STK_SHAPE, "region %d reaches from %lld to %lld of the %s of its image, %lld: it must lie inside", k,
			(long long)r->in[d], (long long)(r->in[d] + r->size[d]), d ? "width" : "height", (long long)size);
	if (r->out[d] < 0 || r->out[d] + r->size[d] > out)
		return stk__fail(err, STK_SHAPE, "region %d reaches from %lld to %lld of the %s of the canvas, %lld: it must lie inside", k,
			(long long)r->out[d], (long long)(r->out[d] + r->size[d]), d ? "width" : "height", (long long)out);
	return STK_OK;
}

static enum stk_status source_of(const struct stk_call *call, int32_t k, const struct stk_tensor **out, struct stk_error *err)
{
	const struct multi_paste *a = call->args;
	*out = &call->in[by_ids(call) ? 0 : k];
	if (!by_ids(call))
		return STK_OK;
	int64_t id = a->in_ids.v[k];
	if (id < 0 || id >= call->batch)
		return stk__fail(err, STK_INVALID, "in_ids names sample %lld of a batch of %d", (long long)id, call->batch);
	*out = stk__batch_table_at(call, (int32_t)id);
	return *out ? STK_OK
		    : stk__fail(
			      err, STK_SHAPE, "sample %lld of the batch, which is to be pasted, was left out as a bad one", (long long)id);
}

static int32_t region_count(const struct stk_call *call)
{
	return by_ids(call) ? ((const struct multi_paste *)call->args)->in_ids.count : call->n_in;
}

/* Reads the regions from the arguments into the call's scratch memory. canvas: the output's desc. */
static enum stk_status read_regions(const struct stk_call *call, const struct stk_desc *canvas, struct region **out, struct stk_error *err)
{
	const struct multi_paste *a = call->args;
	int32_t n = region_count(call);
	enum stk_status s = check_counts(a, n, err);
	*out = stk__arena_take(call->tools->arena, (size_t)n * sizeof **out + 1);
	if (!*out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d regions", n);
	for (int32_t k = 0; k < n && s == STK_OK; k++) {
		struct region *r = &(*out)[k];
		if ((s = source_of(call, k, &r->from, err)) || (s = check_image(&r->from->desc, &call->in[0].desc, err)))
			return s;
		for (int32_t d = 0; d < 2 && s == STK_OK; d++)
			s = locate_region(a, r, k, d, canvas, err);
	}
	return s;
}

/* Returns STK_SHAPE unless all images have the height and width of `out`, as they must if output_size is not given. */
static enum stk_status common_extents(const struct stk_call *call, struct stk_desc *out, struct stk_error *err)
{
	int32_t n = by_ids(call) ? call->batch : call->n_in, h = out->ndim - 3;
	for (int32_t k = 0; k < n; k++) {
		const struct stk_tensor *t = by_ids(call) ? stk__batch_table_at(call, k) : &call->in[k];
		if (t && (t->desc.ndim != out->ndim || t->desc.shape[h] != out->shape[h] || t->desc.shape[h + 1] != out->shape[h + 1]))
			return stk__fail(
				err, STK_SHAPE, "images of different extents are pasted: give output_size, the canvas's height and width");
	}
	return STK_OK;
}

static enum stk_status multi_paste_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct multi_paste *a = call->args;
	struct stk_desc *out = &call->out[0].desc;
	struct region *regions;
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < call->n_in && s == STK_OK; k++)
		s = check_image(&call->in[k].desc, &call->in[0].desc, err);
	if (s)
		return s;
	if (by_ids(call) && call->n_in != 1)
		return stk__fail(
			err, STK_INVALID, "in_ids names samples of one input, and there are %d: give one, or leave out in_ids", call->n_in);
	*out = call->in[0].desc;
	out->dtype = stk__dtype_or(a->dtype, out->dtype);
	if (out->ndim < 0)
		return STK_OK;
	if (a->output_size.count >= 0 && (a->output_size.count < 2 || a->output_size.count > 3))
		return stk__fail(err, STK_INVALID, "output_size has %d values; it takes (height, width)", a->output_size.count);
	for (int32_t d = 0; d < 2 && a->output_size.count >= 2; d++)
		out->shape[out->ndim - 3 + d] = a->output_size.v[d];
	if (stk__building(call))
		return STK_OK;
	if (a->output_size.count < 0 && (s = common_extents(call, out, err)))
		return s;
	return read_regions(call, out, &regions, err);
}

/* ---- regions that cover other regions ---- */

struct area {
	int64_t lo[2], hi[2];
};

/* Subtracts `hole` from each of n areas. Stores the pieces that remain, up to four for each area, in `remaining`, and the parts that `hole` covers in `cut`.
 * Returns the number of pieces in `remaining`, and sets *n_cut to the number of parts in `cut`. */
static int32_t subtract(struct area *areas, int32_t n, const struct area *hole, struct area *remaining, struct area *cut, int32_t *n_cut)
{
	int32_t left = 0;
	*n_cut = 0;
	for (int32_t i = 0; i < n; i++) {
		struct area a = areas[i], both;
		for (int d = 0; d < 2; d++) {
			both.lo[d] = a.lo[d] > hole->lo[d] ? a.lo[d] : hole->lo[d];
			both.hi[d] = a.hi[d] < hole->hi[d] ? a.hi[d] : hole->hi[d];
		}
		if (both.lo[0] >= both.hi[0] || both.lo[1] >= both.hi[1]) {
			remaining[left++] = a;
			continue;
		}
		cut[(*n_cut)++] = both;
		for (int d = 0; d < 2; d++) { /* the pieces above and below, then those left and right of the cut part */
			if (a.lo[d] < both.lo[d]) {
				remaining[left] = a;
				remaining[left++].hi[d] = both.lo[d];
			}
			if (both.hi[d] < a.hi[d]) {
				remaining[left] = a;
				remaining[left++].lo[d] = both.hi[d];
			}
			a.lo[d] = both.lo[d];
			a.hi[d] = both.hi[d];
		}
	}
	return left;
}

/* Fills one area of the canvas from region `r`, or with 0 if `r` is NULL. */
static enum stk_status fill_area(
	const struct stk_call *call, const struct area *area, const struct region *r, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_tensor *from = r ? r->from : &call->in[0];
	const struct stk_desc *in = &from->desc, *out = &call->out[0].desc;
	int32_t n = out->ndim, h = n - 3;
	struct stk_copy_dim dims[STK_MAX_DIMS];
	struct stk_tensor to = call->out[0];
	static const uint64_t empty = 0;
	int64_t size[STK_MAX_DIMS] = {0}, start[STK_MAX_DIMS] = {0}, offset = 0;
	for (int32_t d = 0; d < n; d++)
		size[d] = out->shape[d];
	stk__copy_dims(dims, n, in->shape, NULL, start, NULL, size); /* strides are those of the whole canvas, extents those of the area */
	for (int32_t d = 0; d < 2; d++) {
		struct stk_copy_dim *at = &dims[h + d];
		at->size = area->hi[d] - area->lo[d];
		offset += area->lo[d] * at->dst;
		if (r)
			at->start = area->lo[d] - r->out[d] + r->in[d];
		else
			at->step = at->limit = 0;
	}
	to.data = (char *)to.data + (size_t)offset * stk_dtype_size(out->dtype);
	return stk__job_copy(jobs, from, &to, dims, n, &empty, false, err);
}

/* Goes from the last region, which is on top, to the first, and gives each job only the pixels that no later region covers, since jobs may run in any order. */
static enum stk_status multi_paste_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_desc *out = &call->out[0].desc;
	int32_t n = region_count(call), h = out->ndim - 3, areas = 1, cuts;
	struct region *regions;
	enum stk_status s = read_regions(call, out, &regions, err);
	struct area *open = stk__arena_take(call->tools->arena, sizeof *open);
	if (s || !open)
		return s ? s : stk__fail(err, STK_NO_MEMORY, "out of memory for a canvas");
	*open = (struct area){{0, 0}, {out->shape[h], out->shape[h + 1]}};
	for (int32_t k = n - 1; k >= 0 && s == STK_OK; k--) {
		const struct region *r = &regions[k];
		const struct area hole = {{r->out[0], r->out[1]}, {r->out[0] + r->size[0], r->out[1] + r->size[1]}};
		struct area *remaining = stk__arena_take(call->tools->arena, (size_t)areas * 5 * sizeof *remaining);
		if (!remaining)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a canvas of %d regions", n);
		struct area *cut = remaining + (size_t)areas * 4;
		areas = subtract(open, areas, &hole, remaining, cut, &cuts);
		for (int32_t i = 0; i < cuts && s == STK_OK; i++)
			s = fill_area(call, &cut[i], r, jobs, err);
		open = remaining;
	}
	for (int32_t i = 0; i < areas && s == STK_OK; i++)
		s = fill_area(call, &open[i], NULL, jobs, err);
	return s;
}

const struct stk_op_def stk__op_multi_paste = {
	.name = "multi_paste",
	.doc = "Pastes parts of several images on one canvas.\n\n"
	       "The images are those of the inputs, one region of each. With in_ids they are samples of the batch of one input; the "
	       "operator then waits for the whole batch. They have the layout HWC or FHWC, where all frames are pasted alike, and are "
	       "uint8, int16, int32 or float32. Later regions cover earlier ones; pixels outside of all regions are 0. Regions must "
	       "lie inside their images and inside the canvas.",
	.inputs = {1, STK_MAX_INPUTS},
	.args = multi_paste_args,
	.args_size = sizeof(struct multi_paste),
	.flags = STK_OP_IMAGES,
	.gather = stk__batch_table_gather,
	.gathers = by_ids,
	.infer = multi_paste_infer,
	.lower_jobs = multi_paste_lower_jobs,
};
