/* SPDX-License-Identifier: Apache-2.0
 * Infers as much about an operator's outputs as can be known before any data is seen. */
#include "graph/graph.h"
#include "op/dims.h"

#include <assert.h>
#include <string.h>

/* Returns true if the desc's layout is one of the space-separated layouts in `list` or, if the desc has no layout, if one of them has as many dims. */
static bool layout_listed(const char *list, const struct stk_desc *desc)
{
	size_t length = strlen(desc->layout);
	for (const char *p = list; *p;) {
		size_t n = strcspn(p, " ");
		if (length ? n == length && memcmp(p, desc->layout, n) == 0 : (int32_t)n == desc->ndim)
			return true;
		p += n + (p[n] == ' ');
	}
	return false;
}

bool stk__lowers(const struct stk_op_def *def, const struct stk_desc *in)
{
	if (!def->lower || def->fetch)
		return false;
	if (in->ndim < 0) /* the dims are checked for each sample; until then, a sampler uses a pass, since it is faster than a job */
		return !stk__op_runs(def) || (def->classes & STK_CLASS_SAMPLER);
	return layout_listed(def->layouts ? def->layouts : "HWC CHW HW FHWC", in);
}

enum stk_status stk__refuse_layout(const struct stk_op_def *def, const struct stk_desc *in, struct stk_error *err)
{
	if (in->layout[0])
		return stk__fail(err, STK_SHAPE, "%s takes tensors of layout %s, not \"%s\"", def->name, def->layouts, in->layout);
	return stk__fail(err, STK_SHAPE, "%s takes tensors of layout %s; this one has %d dim%s and no layout", def->name, def->layouts,
		in->ndim, in->ndim == 1 ? "" : "s");
}

static enum stk_status check_layout(const struct stk_op_def *def, const struct stk_desc *in, struct stk_error *err)
{
	bool fits = !def->layouts || in->ndim < 0 || stk__op_runs(def) || layout_listed(def->layouts, in);
	return fits ? STK_OK : stk__refuse_layout(def, in, err);
}

/* Replaces the descs of inputs that are sequences by descs of one frame. Sets *frames to the number of frames of all inputs and arguments that are sequences,
 * if it is known. Fails if their numbers of frames differ. */
static enum stk_status take_frame(
	const struct stk_graph *g, const struct stk_graph_node *node, struct stk_tensor *in, int64_t *frames, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < node->n_inputs && s == STK_OK; i++) {
		s = stk__count_frames(&in[i].desc, "an input", frames, err);
		if (stk__is_sequence(&in[i].desc))
			stk__frame_of_sequence(&in[i], 0);
	}
	for (int32_t i = 0; i < node->n_varying && s == STK_OK; i++) {
		const struct stk_node n = node->varying[i].node;
		s = stk__count_frames(&g->nodes[n.op]->outputs[n.output], node->varying[i].def.name, frames, err);
	}
	return s;
}

enum stk_status stk__input_takes(const struct stk_op_def *def, int32_t i, enum stk_dtype dtype, struct stk_error *err)
{
	if (!stk__dtype_enumeration(dtype) || def->flags & STK_OP_MOVES)
		return STK_OK;
	return stk__fail(err, STK_INVALID,
		"input %d holds values of an enumeration (%s): cast makes int32 of them, with which operators compute", i,
		stk_dtype_name(dtype));
}

static enum stk_status check_enumerations(
	const struct stk_graph *g, const struct stk_graph_node *node, const struct stk_tensor *in, struct stk_error *err)
{
	for (int32_t i = 0; i < node->n_inputs; i++) {
		enum stk_status s = stk__input_takes(node->def, i, in[i].desc.dtype, err);
		if (s)
			return s;
	}
	for (int32_t i = 0; i < node->n_varying; i++) {
		const struct stk_node n = node->varying[i].node;
		enum stk_status s = stk__arg_takes(&node->varying[i].def, g->nodes[n.op]->outputs[n.output].dtype, err);
		if (s)
			return s;
	}
	return STK_OK;
}

/* Does the work of stk__node_infer. in, out: zeroed tensors for the node's inputs and outputs; there is an in[0] even if the node has no inputs. */
static enum stk_status infer_with(
	const struct stk_graph *g, struct stk_graph_node *node, struct stk_tensor *in, struct stk_tensor *out, struct stk_error *err)
{
	_Alignas(STK_CACHE_LINE) char state[4096] = {0};
	assert(node->def->state_size <= sizeof state);
	for (int32_t i = 0; i < node->n_inputs; i++)
		in[i].desc = g->nodes[node->inputs[i].op]->outputs[node->inputs[i].output];
	stk__layout_name(node->def, &in[0].desc);
	int64_t frames = -1;
	enum stk_status s = check_enumerations(g, node, in, err);
	if (s)
		return s;
	s = node->by_frame ? take_frame(g, node, in, &frames, err) : STK_OK;
	if (s || (node->n_inputs && (s = check_layout(node->def, &in[0].desc, err))))
		return s;
	struct stk_call call = {.def = node->def,
		.args = node->args,
		.in = in,
		.out = out,
		.n_in = node->n_inputs,
		.n_out = node->n_outputs,
		.state = state};
	size_t offsets[64]; /* at most 64 arguments, as many as stk_graph_node.args_set has bits */
	bool shapes = false;
	for (int32_t i = 0; i < node->n_varying; i++) {
		offsets[i] = node->varying[i].def.offset;
		shapes |= node->varying[i].def.shapes;
	}
	call.varying = offsets;
	call.n_varying = node->n_varying;
	node->may_hold_nan = stk__args_may_hold_nan(node);
	if ((s = node->def->infer(&call, err)) || (node->n_outputs && (s = stk__args_suit(node->def, node->args, out[0].desc.dtype, err))))
		return s;
	node->gathers = node->def->gather && (!node->def->gathers || node->def->gathers(&call));
	if (node->gathers && node->by_frame)
		return stk__fail(err, STK_UNSUPPORTED,
			"arguments cannot be given for each frame when the operator needs the whole batch, as it does with these arguments");
	for (int32_t k = 0; k < node->n_outputs; k++) {
		if (node->by_frame && (s = stk__sequence_of_frames(&out[k].desc, frames, err)))
			return s;
		node->outputs[k] = out[k].desc;
		for (int32_t d = 0; shapes && d < out[k].desc.ndim; d++)
			node->outputs[k].shape[d] = -1;
	}
	return STK_OK;
}

enum stk_status stk__node_infer(const struct stk_graph *g, struct stk_graph_node *node, struct stk_error *err)
{
	const int32_t n_in = node->n_inputs ? node->n_inputs : 1;
	/* On the heap: the tensors of a node with the most inputs need more memory than some threads have stack. */
	struct stk_tensor *tensors = stk__calloc((size_t)n_in + (size_t)node->n_outputs, sizeof *tensors);
	if (!tensors)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the operator's inputs and outputs");
	enum stk_status s = infer_with(g, node, tensors, tensors + n_in, err);
	stk__free(tensors);
	return s;
}
