/* SPDX-License-Identifier: Apache-2.0
 * Converts and checks descriptions for operators that run once for each frame of a sequence. */
#include "graph/graph.h"
#include "op/dims.h"

#include <string.h>

bool stk__is_sequence(const struct stk_desc *desc)
{
	return desc->layout[0] == 'F';
}

void stk__frame_of_sequence(struct stk_tensor *t, int64_t k)
{
	struct stk_desc *d = &t->desc;
	memmove(d->layout, d->layout + 1, sizeof d->layout - 1);
	if (d->layout[0] && strspn(d->layout, "*") == strlen(d->layout)) /* the sequence's layout named only the dim of frames */
		d->layout[0] = '\0';
	if (d->ndim < 0)
		return;
	d->ndim--;
	memmove(d->shape, d->shape + 1, (size_t)d->ndim * sizeof *d->shape);
	if (t->data)
		t->data = (char *)t->data + k * stk_desc_bytes(d);
}

enum stk_status stk__sequence_of_frames(struct stk_desc *frame, int64_t count, struct stk_error *err)
{
	if (frame->ndim < 0)
		return STK_OK;
	if (frame->ndim == STK_MAX_DIMS)
		return stk__fail(err, STK_LIMIT, "a sequence of tensors of %d dims has more dims than tensors can", frame->ndim);
	memmove(frame->shape + 1, frame->shape, (size_t)frame->ndim * sizeof *frame->shape);
	frame->shape[0] = count;
	if (!frame->layout[0])
		memset(frame->layout, '*', (size_t)frame->ndim);
	memmove(frame->layout + 1, frame->layout, (size_t)frame->ndim);
	frame->layout[0] = 'F';
	frame->layout[++frame->ndim] = '\0';
	return STK_OK;
}

static const struct stk_desc *desc_of(const struct stk_graph *g, struct stk_node n)
{
	return &g->nodes[n.op]->outputs[n.output];
}

enum stk_status stk__check_sequence(const struct stk_op_def *def, const struct stk_desc *d, struct stk_error *err)
{
	if (d->ndim < 0 || stk__is_sequence(d) || stk__op_frame_input(def, 0))
		return STK_OK;
	return stk__fail(err, STK_SHAPE,
		"an argument is given for each frame, and the input has no frames: its layout, \"%s\", does not begin with F%s", d->layout,
		strchr(d->layout, 'F') ? "; transpose it" : "");
}

enum stk_status stk__node_by_frame(const struct stk_graph *g, struct stk_graph_node *node, struct stk_error *err)
{
	const struct stk_op_def *def = node->def;
	for (int32_t k = 0; k < node->n_varying; k++) {
		const struct stk_desc *d = desc_of(g, node->varying[k].node);
		if (!stk__is_sequence(d))
			continue;
		if (!(node->varying[k].def.flags & STK_PER_FRAME))
			return stk__fail(err, STK_UNSUPPORTED,
				"argument \"%s\" is given for each frame (the layout is \"%s\"), and takes one value a sample",
				node->varying[k].def.name, d->layout);
		node->by_frame = true;
	}
	for (int32_t k = 0; k < node->n_inputs; k++)
		node->by_frame |= stk__op_frame_input(def, k) && stk__is_sequence(desc_of(g, node->inputs[k]));
	if (!node->by_frame || !node->n_inputs)
		return STK_OK;
	struct stk_desc first = *desc_of(g, node->inputs[0]);
	stk__layout_name(def, &first);
	return stk__check_sequence(def, &first, err);
}

enum stk_status stk__count_frames(const struct stk_desc *d, const char *name, int64_t *count, struct stk_error *err)
{
	if (!stk__is_sequence(d) || d->ndim < 1 || d->shape[0] < 0)
		return STK_OK;
	if (*count >= 0 && d->shape[0] != *count)
		return stk__fail(err, STK_SHAPE, "%s has %lld frames, and earlier inputs or arguments have %lld: their numbers must match",
			name, (long long)d->shape[0], (long long)*count);
	*count = d->shape[0];
	return STK_OK;
}
