/* SPDX-License-Identifier: Apache-2.0
 * segmentation.select_masks: the polygons of selected masks. */
#include "op/dims.h"

#include <string.h>

struct select_masks {
	bool reindex_masks;
};

static const struct stk_arg_def select_masks_args[] = {
	STK_ARG(struct select_masks, reindex_masks, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Replaces a mask's id by its index in the first input; false: ids stay."),
	STK_ARG_END,
};

/* The selected polygons in the output's order, and the number of their vertices. */
struct selected {
	int32_t *polygons, *ids, count;
	int64_t vertices;
};

static enum stk_status check_inputs(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *ids = &call->in[0].desc, *polygons = &call->in[1].desc, *vertices = &call->in[2].desc;
	for (int32_t k = 0; k < 2; k++) {
		const struct stk_desc *d = &call->in[k].desc;
		if (d->dtype != STK_NO_DTYPE && d->dtype != STK_INT32)
			return stk__fail(err, STK_UNSUPPORTED, "%s must be of int32, not %s; cast them", k ? "polygons" : "mask ids",
				stk_dtype_name(d->dtype));
	}
	if (ids->ndim >= 0 && ids->ndim != 1)
		return stk__fail(err, STK_SHAPE, "mask ids must be a tensor of 1 dim, not of %d", ids->ndim);
	if (polygons->ndim >= 0 && (polygons->ndim != 2 || (polygons->shape[1] >= 0 && polygons->shape[1] != 3)))
		return stk__fail(
			err, STK_SHAPE, "polygons must be a tensor of shape (number, 3): mask id, first vertex, the one past the last");
	if (vertices->ndim >= 0 && vertices->ndim != 2)
		return stk__fail(err, STK_SHAPE, "vertices must be a tensor of 2 dims, one vertex a row, not of %d", vertices->ndim);
	return STK_OK;
}

static enum stk_status add_mask(const struct stk_call *call, int32_t index, struct selected *s, struct stk_error *err)
{
	const struct select_masks *a = call->args;
	const int32_t *ids = call->in[0].data, *p = call->in[1].data;
	int64_t n = call->in[1].desc.shape[0], vertices = call->in[2].desc.shape[0];
	int32_t previous_count = s->count;
	for (int32_t k = 0; k < index; k++)
		if (ids[k] == ids[index])
			return stk__fail(err, STK_INVALID, "mask %d is selected twice", ids[index]);
	for (int32_t i = 0; i < n; i++) {
		int32_t first = p[3 * i + 1], end = p[3 * i + 2];
		if (p[3 * i] != ids[index])
			continue;
		if (first < 0 || end < first || end > vertices)
			return stk__fail(err, STK_INVALID, "polygon %d has the vertices %d .. %d, and there are %lld", i, first, end,
				(long long)vertices);
		s->polygons[s->count] = i;
		s->ids[s->count++] = a->reindex_masks ? index : ids[index];
		s->vertices += end - first;
	}
	if (s->count == previous_count)
		return stk__fail(err, STK_INVALID, "mask %d is selected but has no polygon", ids[index]);
	return STK_OK;
}

static enum stk_status select_masks_infer(const struct stk_call *call, struct stk_error *err)
{
	struct selected *s = call->state;
	enum stk_status status = check_inputs(call, err);
	for (int32_t k = 0; k < 2; k++) {
		call->out[k].desc = call->in[k + 1].desc;
		if (call->out[k].desc.ndim >= 0)
			call->out[k].desc.shape[0] = -1;
	}
	if (status || stk__building(call))
		return status;
	size_t capacity = (size_t)call->in[1].desc.shape[0] * sizeof(int32_t) + 1;
	s->polygons = stk__arena_take(call->tools->arena, capacity);
	s->ids = stk__arena_take(call->tools->arena, capacity);
	if (!s->polygons || !s->ids)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a sample's scratch");
	for (int32_t k = 0; k < call->in[0].desc.shape[0] && !status; k++)
		status = add_mask(call, k, s, err);
	call->out[0].desc.shape[0] = s->count;
	call->out[1].desc.shape[0] = s->vertices;
	return status;
}

static enum stk_status select_masks_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct selected *s = call->state;
	const int32_t *p = call->in[1].data;
	const struct stk_desc *vertices = &call->in[2].desc;
	size_t row = (size_t)vertices->shape[1] * stk_dtype_size(vertices->dtype);
	int32_t *polygons = call->out[0].data, at = 0;
	for (int32_t i = 0; i < s->count; i++) {
		const int32_t *from = p + (ptrdiff_t)3 * s->polygons[i];
		int32_t n = from[2] - from[1];
		memcpy((char *)call->out[1].data + (size_t)at * row, (const char *)call->in[2].data + (size_t)from[1] * row,
			(size_t)n * row);
		polygons[3 * i] = s->ids[i];
		polygons[3 * i + 1] = at;
		polygons[3 * i + 2] = at += n;
	}
	return STK_OK;
}

const struct stk_op_def stk__op_select_masks = {
	.name = "segmentation.select_masks",
	.doc = "Selects the polygons of some masks.\n\n"
	       "Inputs: the ids of the masks, int32, each once; polygons, int32 rows of (mask id, first vertex, the one past the "
	       "last); vertices, one a row, of any type and number of coordinates. Outputs: all polygons of these masks, in the order "
	       "of the ids and then in their own, and their vertices.",
	.inputs = {3, 3},
	.outputs = 2,
	.host_inputs = 7,
	.args = select_masks_args,
	.args_size = sizeof(struct select_masks),
	.state_size = sizeof(struct selected),
	.infer = select_masks_infer,
	.run_cpu = select_masks_run,
};
